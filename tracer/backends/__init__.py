"""The two backends, what both need, and the choice between them."""
