"""The variables of a program's text at a place of its code: which are in scope, and where their values are there."""
