"""Values of traced programs on a terminal, which they must not steer: escapes, and which texts need none."""
