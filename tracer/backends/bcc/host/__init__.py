"""The abilities of this host's BPF."""
