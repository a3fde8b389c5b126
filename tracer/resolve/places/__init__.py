"""The contents of a file at addresses: functions, source lines, and where a function was inlined."""
