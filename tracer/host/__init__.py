"""What tracer asks of the system about itself: clocks, its pid namespace, its control group, its descriptors."""
