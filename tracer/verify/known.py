"""The reasons, as data, for which pyelftools reads something else than we do, or nothing, and we are right.

What it raises is looked up in `RAISED`; what a comparison itself recognises is given by its name in `REASONS`. Each
case is counted and said, and none counts as a difference.
"""

from __future__ import annotations

import re

REASONS: dict[str, str] = {
    "no section headers": "the file has no section headers: ours are made of its dynamic section",
    "headers cut off": "its section headers are cut off, behind all that is loaded",
    "not UTF-8": "a name is not UTF-8: pyelftools has U+FFFD there, ours escapes of the bytes",
    "zero in a name": "a note's name holds zero bytes: pyelftools ends it at the first",
    "signed factor": "pyelftools multiplies the offset of DW_CFA_def_cfa_sf by the factor of code, which should be that"
    " of data (DWARF 5, 6.4.2.2)",
    "one place": "several entries are about the same code: the linker kept them of functions that it dropped or folded",
    "split off": "debug information was split off to another file, which pyelftools does not open",
    "no unit": "a line program that no unit names, which pyelftools cannot reach",
    "unfinished": "an entry of the unwind tables begins with no rule for the CFA: pyelftools has no row there",
    "zdebug": "pyelftools takes all debug sections to be compressed in GNU's way where one is",
    "zstd": "a debug section is compressed by zstd, or in another way, which pyelftools cannot unpack",
    "instruction": "an instruction of unwind tables that pyelftools does not know, or does not run:"
    " DW_CFA_GNU_args_size and others",
    "augmentation": "an augmentation of unwind tables that pyelftools does not know",
    "dwz": "the file that dwz moved debug information to is not there",
    "form": "a form of DWARF that pyelftools does not know",
    "machine": "unwind tables and parameters are read of x86-64 and aarch64 alone",
    "memory": "pyelftools needs more memory than it is given",
    "recursion": "pyelftools calls itself too deeply",
    "raised": "pyelftools cannot read it",
}
"""The name of a reason, and the reason."""

RAISED: tuple[tuple[str, str], ...] = (
    (r"Unknown CFI opcode|Unknown format code .x. for object of type .str.", "instruction"),
    (r"Unhandled augmentation|armcc", "augmentation"),
    (r"sections of .debug_ beside", "zdebug"),
    (r"Unknown compression type", "zstd"),
    (r"supplementary|NoneType.*get_DIE_from_refaddr|GNU_ref_alt|GNU_strp_alt", "dwz"),
    (r"no mapping for .*DW_FORM|DW_FORM_.*not|KeyError: 'DW_FORM", "form"),
    (r"^MemoryError", "memory"),
    (r"^RecursionError", "recursion"),
)
"""A pattern of what pyelftools raises, as `KIND: TEXT`, and the name of its reason."""


def reason_of(error: Exception) -> str:
    """The name of the reason for which pyelftools raised something; "raised" where none is known."""
    text = f"{type(error).__name__}: {error}"
    return next((name for pattern, name in RAISED if re.search(pattern, text)), "raised")
