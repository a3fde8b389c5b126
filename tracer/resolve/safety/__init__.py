"""What is safe to probe: instructions, and what a probe does to them."""
