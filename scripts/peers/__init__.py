"""The tools of bpftrace, unchanged, beside bpftrace: `python -m scripts.peers BPFTRACE FOLDER`."""
