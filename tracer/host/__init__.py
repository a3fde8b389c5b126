"""Questions to the system: about tracer's own clocks, namespace, control group and descriptors, and about processes."""
