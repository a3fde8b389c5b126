"""Line programs tell which line of which source file an address belongs to."""
