"""Line programs: which line of which source file an address belongs to."""
