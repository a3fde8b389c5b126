"""Variables of a program by name: the one place in its file that a name stands for."""

from __future__ import annotations

from tracer.resolve.elf.symbol_table import STT_TLS, Variable
from tracer.resolve.elf.symbols import Symbols


def variable_of(symbols: Symbols, name: str) -> Variable | str:
    """The variable of that name; else why it is none, or which of several it is cannot be told."""
    found = symbols.variables(name)
    if not found:
        stripped = ", which is stripped" if symbols.stripped else ""
        return f"{name} is not in the symbol table of this file{stripped}"
    if len(found) > 1:
        return f"{name} is the name of {len(found)} different variables in this file"
    if found[0].type == STT_TLS:
        return f"{name} is a thread-local variable, whose place differs from thread to thread"
    if found[0].absolute:
        return f"{name} is an absolute number, not a variable"
    return found[0]
