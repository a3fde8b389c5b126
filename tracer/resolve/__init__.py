"""Attach points → sites: ELF files, symbols, USDT notes, processes, and what is safe to probe."""
