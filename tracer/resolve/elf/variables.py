"""Variables of a program by name: the one place in its file that a name stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tracer.resolve.elf.symbol_table import STT_TLS, Variable
from tracer.resolve.elf.symbols import Symbols

Demangler = Callable[[str], str | None]


def variable_of(symbols: Symbols, name: str, demangler: Callable[[], Demangler] | None = None) -> Variable | str:
    """The variable of that name; else why it is none, or which of several it is cannot be told. With a demangler the
    name may be one of C++ or Rust as people write it.
    """
    variables = symbols.variables(name)
    if not variables and demangler is not None and "::" in name:
        variables = _written(symbols, name, demangler())
    return only_variable(symbols, name, variables)


def only_variable(symbols: Symbols, name: str, variables: Sequence[Variable]) -> Variable | str:
    """The one variable that was found under a name, if it has a fixed place in the file; else why there is none."""
    if not variables:
        stripped = ", which is stripped" if symbols.stripped else ""
        return f"{name} is not in the symbol table of this file{stripped}"
    if len(variables) > 1:
        return f"{name} is the name of {len(variables)} different variables in this file"
    if variables[0].type == STT_TLS:
        return f"{name} is a thread-local variable, whose place differs from thread to thread"
    if variables[0].absolute:
        return f"{name} is an absolute number, not a variable"
    return variables[0]


def last_word(name: str) -> str:
    """The last word of a name, `counter` of `shop::counter`, which stands in the mangled name, too."""
    return re.findall(r"\w+", name)[-1] if re.search(r"\w", name) else name


def _written(symbols: Symbols, name: str, demangle: Demangler) -> tuple[Variable, ...]:
    names = [mangled for mangled in symbols.mangled(last_word(name)) if demangle(mangled) == name]
    return tuple({variable.address: variable for mangled in names for variable in symbols.variables(mangled)}.values())
