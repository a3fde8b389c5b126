"""C to bytecode."""
