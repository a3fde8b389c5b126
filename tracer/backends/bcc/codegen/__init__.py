"""Plan → C: pure text work, without a kernel, a compiler or the user's words (those arrive as numbers)."""
