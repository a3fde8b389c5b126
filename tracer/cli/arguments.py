"""The command that a line means: `tracer -e …`, `-l`, `--info` and `--version` are spelled as in bpftrace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile

COMMANDS = (
    "run", "count", "hist", "latency", "args", "trace", "flow", "top", "stacks", "flame", "syscalls", "io", "profile",
    "list", "check", "info", "uprobe", "usdt", "cleanup", "demo",
)  # fmt: skip
MODULES = {
    **{name: f"questions.{name}" for name in ("count", "hist", "latency", "args", "trace", "flow", "top", "stacks")},
    **{name: f"questions.kernel.{name}" for name in ("syscalls", "io", "profile")},
    **{name: f"perf_tools.{name}" for name in ("uprobe", "usdt")},
}
"""Commands whose module is not called like them."""

WITH_WORD = {
    *("-e", "-p", "-c", "-f", "-o", "-d", "-B", "-I"),
    *("--pid", "--cmd", "--include", "--format", "--output", "--backend", "--debug", "--max-rate", "--max-probes"),
    *("--duration", "--also", "--stacks", "--debuginfo", "--no-feature", "--dwarf-pid", "--verify"),
}
"""Options of `run` and `list` that take the next word, so that it is not mistaken for a file or an option."""

_GIVEN = "a program is given with -e: tracer -e 'uprobe:FILE:FUNCTION { … }'"
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(("--add", "-a"), f"{_GIVEN}; without -p every process is traced"),
    "-n": _GIVEN,
    "-x": "a file is named in the attach point, uprobe:FILE:FUNCTION, a process with -p",
    "-L": "one thread is chosen in the program, /tid == N/; tracer list -v FILE:SOURCE:LINE shows a line's variables",
    "-F": "functions are listed by tracer list 'uprobe:FILE:*'",
    **dict.fromkeys(("-g", "-s"), "a stack is a value of the program: @[ustack] = count();"),
    **dict.fromkeys(("-H", "-S", "-T"), 'the program prints what it wants: comm, pid, strftime("%H:%M:%S", nsecs)'),
}
"""What does here what an option of perf, perf-tools, DTrace, SystemTap or ltrace does, by the option."""

LEFT_OUT = {
    "--traceable-functions": ("tracer traces user programs only, so no list of the kernel's functions is needed", None),
    "--emit-elf": ("tracer hands its program to the kernel itself", "-d program and -d bytecode print it"),
    "--emit-llvm": ("libbcc does not expose its LLVM", "-d program prints the C, -d bytecode what became of it"),
    "--verify-llvm-ir": ("libbcc does not expose its LLVM", "-d bytecode prints what became of the program"),
    "--aot": ("a program runs only where tracer is", "what was compiled is kept from run to run by itself"),
    "--mode": ("tracer has commands instead", "--fmt formats a program, -d STAGE prints a stage of it"),
    "--probe-filter": ("all probes of a program are attached", "leave out clauses, or write narrower attach points"),
    **dict.fromkeys(
        ("--test", "--bench"), ("tracer has no probes on itself", "interval:s:1 runs a clause at fixed times")
    ),
}
"""Options of bpftrace that tracer does not have: the reason and the remedy."""

FOR_A_TRACE = {
    *("-f", "--format", "--stacks", "-o", "--output", "-B", "-q", "--quiet", "-k", "--warnings", "-d", "--debug"),
    "--duration", "--also",
    *("--follow", "--dry-run", "--max-rate", "--unsafe", "--no-priority", "--no-feature", "--dwarf-pid"),
    "--usdt-file-activation", "--raw",
}
"""Options of `run` that change nothing of a list; bpftrace takes them beside `-l`."""

_STAGES_OF_BPFTRACE = {"types", "codegen", "codegen-opt", "libbpf", "verifier", "dis", "parse", "all"}
_AS_OPTION = {"-V": "--version", "--version": "--version", "--info": "info", "-l": "list", "--list": "list"}
_OF_INFO = {"--backend", "--json"}
_WITH_BACKEND = {"run", "flame", "list", "info", *MODULES}


def as_command(words: Sequence[str]) -> list[str]:
    """Puts the command of a line first; without any words, it is the help.

    As for bpftrace, options may stand anywhere before `--`. `--backend X` in front, as an alias puts it there, changes
    nothing of what the line means. `-d` with a time is `--duration`, with anything else `--debug`.
    """
    pieces = [_timed(name, piece) for name, piece in _pieces(words)]
    if any(name == "--duration" for name, _ in pieces):
        words = [word for _, piece in pieces for word in piece]
    lead = [piece for _, piece in takewhile(lambda piece: piece[0] == "--backend", pieces)]
    backend = [word for piece in lead for word in piece]
    rest = list(words[len(backend) :])
    if not rest or rest[0] in ("-h", "--help"):
        return rest or ["--help"]
    if rest[0] in COMMANDS:
        return [rest[0], *(backend if rest[0] in _WITH_BACKEND else ()), *rest[1:]]
    meant = [_AS_OPTION[name] for name, _ in pieces if name in _AS_OPTION]
    command = next((name for name in meant if name != "list"), "list" if meant else "run")
    formats = command == "list" and any(name == "--fmt" for name, _ in pieces)
    if command == "--version":
        return [command]
    if command == "run" or formats:
        return ["run", *(words if not formats else _but({"-l", "--list"}, pieces))]
    if command == "info":
        return ["info", *(word for name, piece in pieces if name in _OF_INFO for word in piece)]
    return ["list", *_but({"-l", "--list", *FOR_A_TRACE}, pieces)]


def options_of(words: Sequence[str]) -> set[str]:
    """The options that a line gives, each letter of `-qv` by itself."""
    return {name for name, _ in _pieces(words)}


def names_stage_of_bpftrace(words: Sequence[str]) -> bool:
    """Whether `-d` names a stage, or one of several, that only bpftrace has."""
    given = [piece[-1] for name, piece in _pieces(words) if name in ("-d", "--debug")]
    stages = [stage for word in given for stage in word.rpartition("=")[2].removeprefix("-d").split(",")]
    return not _STAGES_OF_BPFTRACE.isdisjoint(stages)


def near_option(option: str, possible: Iterable[str]) -> str | None:
    """The option of `possible` that looks most like `option`."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(option, sorted(possible), 1, 0.5)), None)


def _timed(name: str, piece: Sequence[str]) -> tuple[str, Sequence[str]]:
    """`-d` with a time is `--duration`."""
    given = piece[1] if len(piece) > 1 else piece[0][2:]
    return ("--duration", ("--duration", given)) if name == "-d" and given[:1].isdigit() else (name, piece)


def _but(left_out: Collection[str], pieces: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    return [word for name, piece in pieces if name not in left_out for word in piece]


def _pieces(words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Splits a line into options with their words, as getopt(3) reads them; "" is the name of a word that is none, and
    "--" that of all from there on.
    """
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            yield word, words[index:]
            return
        index += 1
        if word == "-" or not word.startswith("-"):
            yield "", (word,)
        elif word.startswith("--"):
            name, given, _ = word.partition("=")
            end = index + (name in WITH_WORD and not given)
            yield name, (word, *words[index:end])
            index = end
        else:
            for position, letter in enumerate(word[1:], 1):
                name = f"-{letter}"
                if name not in WITH_WORD:
                    yield name, (name,)
                elif behind := word[position + 1 :]:
                    yield name, (name + behind,)
                    break
                else:
                    yield name, (name, *words[index : index + 1])
                    index += 1
