"""The context of a pass over the program: it knows the scopes and the facts, and reports faults."""
