"""C: the declarations of types and the directives that stand in a program, and the headers it includes."""
