"""ELF files: their parts, symbols, and the files that hold debug information of them."""
