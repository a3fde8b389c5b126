"""The command that a line means: `tracer -e …`, `-l`, `--info` and `--version` are spelled as in bpftrace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

COMMANDS = ("run", "flame", "list", "check", "info", "cleanup", "demo")
WITH_WORD = {
    *("-e", "-p", "-c", "-f", "-o", "-d", "-B", "-I"),
    *("--pid", "--cmd", "--include", "--format", "--output", "--backend", "--debug", "--max-rate", "--max-probes"),
    *("--stacks", "--debuginfo", "--no-feature", "--dwarf-pid"),
}
"""Options of `run` and `list` that take the next word, so that it is not mistaken for a file or an option."""

LEFT_OUT = {
    "--traceable-functions": ("tracer traces user programs only, so no list of the kernel's functions is needed", None),
    "--emit-elf": ("tracer hands its program to the kernel itself", "-d program and -d bytecode print it"),
    "--emit-llvm": ("libbcc does not expose its LLVM", "-d program prints the C, -d bytecode what became of it"),
    "--verify-llvm-ir": ("libbcc does not expose its LLVM", "-d bytecode prints what became of the program"),
    "--mode": ("tracer has commands instead", "--fmt formats a program, -d STAGE prints a stage of it"),
    **dict.fromkeys(
        ("--test", "--bench", "--probe-filter"),
        ("tracer has no probes on itself", "interval:s:1 runs a clause at fixed times"),
    ),
}
"""Options of bpftrace that tracer does not have: the reason and the remedy."""

_AS_OPTION = {"--version": "--version", "-V": "--version", "--info": "info", "--list": "list"}
_LIST_AMONG_FLAGS = re.compile(r"-[vq]*l[vq]*")


def as_command(words: Sequence[str]) -> list[str]:
    """The same line with its command first; without any words, the help."""
    if not words:
        return ["--help"]
    first = words[0]
    if first in COMMANDS or first in ("-h", "--help"):
        return list(words)
    found = _spelled_as_option(words)
    if found is None:
        return ["run", *words]
    index, command = found
    if command == "--version":
        return ["--version"]
    flags = [f"-{letter}" for letter in words[index][1:] if letter == "v"] if command == "list" else []
    return [command, *flags, *words[:index], *words[index + 1 :]]


def near_option(option: str, possible: Iterable[str]) -> str | None:
    """The option of `possible` that looks most like `option`."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(option, sorted(possible), 1, 0.5)), None)


def _spelled_as_option(words: Sequence[str]) -> tuple[int, str] | None:
    """The position of an option before the first positional word that names a command, and that command."""
    takes_value = False
    for index, word in enumerate(words):
        if takes_value:
            takes_value = False
        elif word in _AS_OPTION:
            return index, _AS_OPTION[word]
        elif _LIST_AMONG_FLAGS.fullmatch(word):
            return index, "list"
        elif word in WITH_WORD:
            takes_value = True
        elif word in ("-", "--") or not word.startswith("-"):
            return None
    return None
