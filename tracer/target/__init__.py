"""The process that is traced: one that `-c` starts, or one of `-p` that runs already."""
