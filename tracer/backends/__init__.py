"""The two backends, in order of preference, and the choice between them."""
