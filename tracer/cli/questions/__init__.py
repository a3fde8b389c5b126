"""Commands for the usual questions. Each writes a program of the language, which runs as any other does."""
