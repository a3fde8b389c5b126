"""What stands at addresses of a file: functions, source lines, and where a function was inlined."""
