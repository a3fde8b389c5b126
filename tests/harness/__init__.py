"""The ground of the live tests: they run the command line, and look at what it leaves in the kernel."""
