"""How a program looks: its tree, its types, and its text laid out anew."""
