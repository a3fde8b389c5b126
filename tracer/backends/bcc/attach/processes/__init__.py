"""What becomes of the main thread of a traced process, while probes are attached to it."""
