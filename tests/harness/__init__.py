"""What the live tests stand on: running the command line, and looking at what it leaves in the kernel."""
