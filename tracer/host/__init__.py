"""What tracer asks of the system: its own clocks, namespace, control group and descriptors, and about processes."""
