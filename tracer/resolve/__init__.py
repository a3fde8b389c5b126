"""Attach points → sites: ELF files, symbols, USDT notes, processes, and what is safe to probe. The rooms, lowest first:

`elf/` reads a file's headers, symbols and dynamic section, and finds its debug file. `files/`: which files does a path,
a library's name or a process mean? `dwarf/` reads debug information: types, parameters, lines, what was inlined.
`usdt/`: which USDT sites do the notes name, and where are their arguments? `unwind/`: who called a stopped function?
`safety/`: may an instruction, or a function's return, be probed without harm? `variables/`: which variables are in
scope at a place, and where are they? `symbols/`: which function, of which module, is at an address of a process?
`interpreters/`: which functions of Python does a process run?
`binary.py` is one file with all of this. `functions/`: which functions does a name or a wildcard mean?
`sites/`: where do the probes of an attach point go, and which places are left out, for which reason?
`listing.py`: what does `tracer list` print? `attach_texts.py`: how is a found probe written so that it means itself?
`marshalling.py`: how are answers kept for the next run?
"""
