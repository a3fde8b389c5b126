"""What several commands share: the types of their options, as Typer wants them."""

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from tracer.errors import Source, TracerError, UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 1e9
_MOST_BYTES = 1 << 24
"""How long a program's text may be."""

if TYPE_CHECKING:
    from tracer.target.running import RunningProcesses

Format = Literal["text", "json"]
"""`-f`: a name of `render.RENDERERS`."""
StackFormat = Literal["folded", "html", "svg", "pprof", "speedscope"]
"""`--stacks`: a name of `render.stacks.STACKS`."""
Buffering = Literal["line", "full", "none"]
"""`-B`."""
BackendName = Literal["auto", "bcc", "ftrace"]
"""`--backend`."""
Stage = Literal["ast", "typed", "steps", "plan", "program", "bytecode"]
"""`-d`."""

# Typer reads these at run time and its older versions know no `X | None` there.
Pids = Annotated[
    Optional[list[str]],  # noqa: UP045 - see above
    typer.Option(
        "-p", "--pid", metavar="PID|NAME[,…]", show_default=False,
        help="Only these processes, with all their threads: numbers, or exact names; ends with the last.",
    ),
]  # fmt: skip
Children = Annotated[bool, typer.Option("--children", help="With -p: also what descends from these and runs now.")]
Words = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(
        metavar="[FILE] [ARGS]", help="The program's file (- is stdin), then its $1, $2, …", show_default=False
    ),
]
Expression = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("-e", metavar="PROGRAM", help="The program itself.", show_default=False),
]
Included = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--include", metavar="FILE", help="A header to include before the program.", show_default=False),
]
IncludePaths = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("-I", metavar="DIR", help="Another directory to search for headers.", show_default=False),
]
DebugInfo = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--debuginfo", metavar="DIR[:DIR]", help="Directories to search for debug files before /usr/lib/debug.",
        show_default=False,
    ),
]  # fmt: skip
Child = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "-c", "--cmd", metavar="COMMAND", help="Start COMMAND, trace only it, end with it.", show_default=False
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", help="With -p or -c: also the processes that these start, and theirs.")
]
Backend = Annotated[BackendName, typer.Option("--backend", help="Which backend to use.")]
MaxProbes = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--max-probes", metavar="N", min=1, max=1 << 20, show_default=False, help="Probe at most N places."),
]
UnsafeReturns = Annotated[
    bool,
    typer.Option(
        "--unsafe-returns",
        help="Probe returns even where a C++ exception could cross the probe and end the traced program.",
    ),
]
Duration = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--duration", metavar="TIME", help="End after so long: 500ms, 30s, 5m; a number is seconds. -d TIME too.",
        show_default=False,
    ),
]  # fmt: skip
NoWarnings = Annotated[bool, typer.Option("--no-warnings", help="Print no warnings, nor warnf().")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print only results and errors.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print what tracer does, and statistics.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_whom(pids: Sequence[str] | None, child: str | None, follow: bool, children: bool = False) -> None:
    """Raises `UsageError` where -p, -c, --follow and --children do not go together."""
    if pids and child is not None:
        raise UsageError("-p and -c cannot be used together", "-c already traces its process alone")
    if follow and not pids and child is None:
        raise UsageError("--follow needs -p or -c", "without them every process is traced already")
    if children and not pids:
        instead = "without it every process is traced already" if child is None else "--follow traces what -c starts"
        raise UsageError("--children needs -p", instead)


def seconds_of(duration: str | None) -> float | None:
    """The seconds of `--duration`. Raises `UsageError`."""
    if duration is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d*)?)(ms|s|m|h|)", duration)
    seconds = float(found[1]) * _SECONDS[found[2]] if found is not None else 0.0
    if not 0 < seconds < _LONGEST_S:
        raise UsageError(f"--duration {duration}: no length of time", "500ms, 30s, 5m and 1h are, and 5, in seconds")
    return seconds


def command_of(command_line: str | None) -> tuple[tuple[str, ...] | None, str | None]:
    """The words of `-c`, and the file that will run."""
    if command_line is None:
        return None, None
    from tracer.target.child import find_program, parse_command

    argv = parse_command(command_line)
    return argv, find_program(argv[0])  # what is wrong with it is said before the compiler is started


def settings_of(max_probes: int | None = None, unsafe_returns: bool = False, unsafe: bool = False) -> dict[str, str]:
    """What the command line says of a program's `config`, by the names of the settings."""
    settings = {} if max_probes is None else {"max_probes": str(max_probes)}
    allowed = {"unsafe_returns": unsafe_returns, "unsafe": unsafe}
    return settings | {name: "true" for name, is_allowed in allowed.items() if is_allowed}


def processes_of(
    pids: Sequence[str] | None, children: bool = False
) -> "AbstractContextManager[RunningProcesses | None]":
    """The processes of `-p`, held so that their numbers cannot become others'."""
    if not pids:
        return nullcontext()
    from tracer.target import running

    return running.processes_of(pids, children)


def look_for_debug_files_in(given: Sequence[str] | None) -> None:
    """`--debuginfo`. One that is relative is so to the directory of each file that is traced."""
    folders = [folder for word in given or () for folder in word.split(":") if folder]
    if folders:
        from tracer.resolve.elf.debug_file import VARIABLE

        os.environ[VARIABLE] = ":".join([*folders, *filter(None, [os.environ.get(VARIABLE)])])


def switch_off(features: str | None) -> None:
    """`--no-feature`: what the kernel has is not used; its probes on the kernel are not used anyway."""
    if features is None:
        return
    from tracer.kernel.disabled import KNOWN, VARIABLE

    wanted = [word.strip() for word in features.split(",") if word.strip() not in ("kprobe_multi", "kprobe_session")]
    if unknown := [word for word in wanted if word not in KNOWN]:
        raise UsageError(f"--no-feature: unknown {', '.join(unknown)}", f"known are {', '.join(KNOWN)}")
    os.environ[VARIABLE] = ",".join([*filter(None, [os.environ.get(VARIABLE)]), *wanted])


def program_text(
    expression: str | None, words: Sequence[str], included: Sequence[str] | None, paths: Sequence[str] | None
) -> tuple[Source, Sequence[str]]:
    """The program's text, with the headers that the command line names, and its positional parameters."""
    source, params = _text(expression, words)
    return Source(source.text, source.name, tuple(included or ()), tuple(paths or ())), params


def _text(expression: str | None, words: Sequence[str]) -> tuple[Source, Sequence[str]]:
    if expression is not None:
        return Source(expression), words
    if not words:
        raise UsageError("no program", "give one with -e 'PROGRAM', or a file")
    name = words[0]
    if name == "-":
        return Source(_decoded(_read(0, "stdin"), "stdin"), "stdin"), words[1:]
    return Source(_decoded(_read(name, name), name), name), words[1:]


def _read(path: str | int, name: str) -> bytes:
    """A program's text; `<(…)` and a terminal are waited for. Raises `TracerError`."""
    from tracer.opening import given

    try:
        return given(path, _MOST_BYTES)
    except FileNotFoundError:
        raise UsageError(f"no such file: {name}", _meant(name)) from None
    except OSError as error:
        raise TracerError(f"cannot read {name}: {error.strerror}") from None


def _meant(word: str) -> str:
    """A suggestion for a word that is no file."""
    from difflib import get_close_matches

    from tracer.cli.arguments import COMMANDS

    if any(mark in word for mark in "{:/") and not word.startswith(("/", ".")):
        return "a program is given with -e"
    if word in COMMANDS:
        return f"a command comes before its options: tracer {word} …"
    near = get_close_matches(word, COMMANDS, 1, 0.6)
    return f"did you mean the command {near[0]}?" if near else "a program is given with -e"


def _decoded(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")  # a mark of the byte order, which editors put there, means nothing
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}: line {line} is not UTF-8", "is it a program's text?") from None
