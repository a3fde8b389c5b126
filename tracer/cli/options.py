"""The options that several commands share, as Typer wants them, and the request that those of a trace make."""

import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypeAlias

import typer

from tracer.choices import BACKENDS, RENDERERS, STACKS, STAGES
from tracer.errors import Source, TracerError, UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 1e9
_MOST_BYTES = 1 << 24
"""How long a program's text may be."""

if TYPE_CHECKING:
    from tracer.tracing import Named, Prepared

Buffering = Literal["line", "full", "none"]
"""`-B`."""
if TYPE_CHECKING:
    Format: TypeAlias = str
    StackFormat: TypeAlias = str
    BackendName: TypeAlias = str
    Stage: TypeAlias = str
else:
    Format = Literal[tuple(RENDERERS)]
    StackFormat = Literal[tuple(STACKS)]
    BackendName = Literal[("auto",) + BACKENDS]  # noqa: RUF005 - Python 3.10 knows no star there
    Stage = Literal[STAGES]

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
Also = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--also", metavar="FILE", show_default=False,
        help="Print results to FILE too. Its ending chooses the format (.json, .txt, .html, …), or one before it does:"
        " json:FILE. Can be given several times.",
    ),
]  # fmt: skip
NoWarnings = Annotated[bool, typer.Option("--no-warnings", help="Print no warnings, nor warnf().")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print only results and errors.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print what tracer does, and statistics.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


_OF_ANY_COMMAND = {"backend", "quiet", "no_warnings", "verbose"}


class Options:
    """Options that several commands have: the type of each, and what it is where it is not given."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.__dict__.update(given)


class Asked(Options):
    """The options of every command that traces: what they say of the request."""

    expression: Expression = None
    included: Included = None
    include_paths: IncludePaths = None
    debug_folders: DebugInfo = None
    pids: Pids = None
    children: Children = False
    child: Child = None
    follow: Follow = False
    duration: Duration = None
    max_rate: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--max-rate", metavar="N", help="Detach attach points with more than N hits a second.", show_default=False
        ),
    ] = None
    backend: Backend = "auto"
    max_probes: MaxProbes = None
    unsafe_returns: UnsafeReturns = False
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Allow what acts on the machine or the traced program: system(), signal()."),
    ] = False
    no_priority: Annotated[
        bool,
        typer.Option(
            "--no-priority", help="Empty the kernel's buffers at tracer's own priority: a flood may lose events."
        ),
    ] = False
    features: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--no-feature", metavar="NAME[,NAME]", help="Do not use these kernel features, such as uprobe_multi.",
            show_default=False,
        ),
    ] = None
    by_hand: Annotated[
        bool,
        typer.Option(
            "--usdt-file-activation",
            help="Where the kernel cannot (before 4.20), raise USDT semaphores in the running processes.",
        ),
    ] = False
    quiet: Quiet = False
    no_warnings: NoWarnings = False
    verbose: Verbose = False

    def needs_program(self) -> str | None:
        """The first option given that means nothing without a program."""
        for name, type in self.__annotations__.items():
            if name not in _OF_ANY_COMMAND and getattr(self, name) != getattr(Asked, name):
                option: str = type.__metadata__[0].default
                return option
        return None

    def source(self, words: Sequence[str]) -> tuple[Source, Sequence[str]]:
        """The program's text and its positional parameters: of -e, or of the file that the `words` begin with."""
        look_for_debug_files_in(self.debug_folders)
        switch_off(self.features)
        return program_text(self.expression, words, self.included, self.include_paths)

    def prepared(self, source: Source, params: Sequence[str]) -> "Prepared":
        """The request, with its process held. Raises `TracerError`."""
        from tracer.tracing import Prepared, Request

        request = Request(
            source, params, whom(self.pids), self.child, self.follow, self.children,
            None if self.backend == "auto" else self.backend,
            settings_of(self.max_probes, self.unsafe_returns, self.unsafe), os.environ, self.by_hand,
            self.max_rate, not self.no_priority, seconds_of(self.duration), self.quiet, self.verbose,
        )  # fmt: skip
        return Prepared(request, flags())


def tracing(command: Callable[..., int], but: Collection[str] = ()) -> Callable[..., int]:
    """A command that has, where a parameter of its is of a class of `Options`, those in its place, `but` for some."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Options], list[str]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, Options):
            kept = [name for name in kind.__annotations__ if name not in but]
            groups[parameter.name] = kind, kept
            parameters += [
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=getattr(kind, name),
                    annotation=kind.__annotations__[name],
                )
                for name in kept
            ]  # fmt: skip
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def whole(**given: Any) -> int:
        options = {name: kind({option: given.pop(option) for option in kept}) for name, (kind, kept) in groups.items()}
        return command(**options, **given)

    whole.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    whole.__doc__ = command.__doc__
    return whole


def flags() -> "Named":
    """The names of the parts of a request, as options."""
    from tracer.tracing import Named

    return Named("-p", "-c", "--follow", "--children", "--max-rate", "--duration")


def whom(pids: Sequence[str] | None) -> Sequence[str] | None:
    """The processes of `-p`. Of several, bpftrace traces the last and says nothing."""
    own_pid = str(os.getpid())
    if any(own_pid in word.split(",") for word in pids or ()):
        raise UsageError(f"-p {own_pid} is tracer itself", "in a shell that execs tracer, $$ is tracer's own number")
    return pids or None


def seconds_of(duration: str | None) -> float | None:
    """The seconds of `--duration`. Raises `UsageError`."""
    if duration is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?)(ms|s|m|h|)", duration)
    seconds = float(match[1]) * _SECONDS[match[2]] if match is not None else 0.0
    if not 0 < seconds < _LONGEST_S:
        raise UsageError(f"--duration {duration}: no length of time", "500ms, 30s, 5m and 1h are, and 5, in seconds")
    return seconds


def beside(words: Sequence[str] | None, output: str | None) -> list[tuple[str, str]]:
    """The formats and files of `--also`, which are not that of `-o`. Raises `UsageError`."""
    pairs: list[tuple[str, str]] = []
    for word in words or ():
        format, _, path = word.partition(":")
        if not path or format not in (*RENDERERS, *STACKS):
            format, path = _format_of(word), word
        if os.path.abspath(path) in [os.path.abspath(file) for file in (output, *(path for _, path in pairs)) if file]:
            raise UsageError(f"--also {word}: another output goes there already", "name a file for each")
        pairs.append((format, path))
    return pairs


def _format_of(path: str) -> str:
    # .speedscope.json before .json
    endings = [(ending, format) for format, suffixes in STACKS.items() for ending in suffixes]
    for ending, format in [*endings, (".json", "json"), (".jsonl", "json"), (".txt", "text")]:
        if path.endswith(ending):
            return format
    raise UsageError(f"--also {path}: the ending tells no format", f"write it before: json:{path} or text:{path}")


def settings_of(max_probes: int | None = None, unsafe_returns: bool = False, unsafe: bool = False) -> dict[str, str]:
    """The settings of a program's `config` that the command line gives, by the names of the settings."""
    settings = {} if max_probes is None else {"max_probes": str(max_probes)}
    allowed = {"unsafe_returns": unsafe_returns, "unsafe": unsafe}
    return settings | {name: "true" for name, is_allowed in allowed.items() if is_allowed}


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
