"""The parameters of a function, and where their values are at its call."""
