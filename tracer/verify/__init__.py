"""Whether our readers of ELF and DWARF read what pyelftools reads: `tracer list --verify FILE`.

Here pyelftools is imported only in the child process that compares: it takes ten times as long as our readers, and a
header made for it can hold it up for ever. `verify.py` starts that child and bounds its time and memory,
`findings.py` holds what was found, `known.py` the reasons for which the two differ though ours is right.
"""
