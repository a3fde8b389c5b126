"""Attacks on tracer: each is one command, and each looks at the same things afterwards."""
