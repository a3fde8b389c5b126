"""BCC's maps: which tables of the kernel a program's maps become, and what those hold as user space sees it."""
