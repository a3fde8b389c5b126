"""The printers of a program: its tree, its types, and its text laid out anew."""
