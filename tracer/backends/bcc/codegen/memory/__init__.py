"""Values wider than a number: where they live, and how they are written there."""
