"""What this host's BPF can do, and what it cannot."""
