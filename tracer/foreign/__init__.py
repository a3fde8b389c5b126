"""Lines of perf-tools and of the kernel's uprobe_events, as programs of our language."""
