"""The command line: which command is meant, and the one place where errors become text and an exit status.

Only the module of the command that runs is imported; `--help` alone imports them all.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tracer import errors
from tracer.cli.arguments import COMMANDS, MODULES, as_command, options_of
from tracer.errors import WANTING, Interrupted, TracerError, UsageError

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    import typer

os.environ["TYPER_USE_RICH"] = "0"  # typer reads it once, when it is imported

_INTERRUPTED = "tracer: interrupted\n"
_NO_ERROR = re.compile("error return without exception set|.* returned NULL without setting an exception", re.S)
"""What Python 3.11 says where a call got no memory for its frame, and else where a module in C has a fault."""

EXAMPLES = (
    "sudo tracer -e 'uprobe:libc:malloc { @bytes = hist(arg0); }' -c 'ls /'",
    "sudo tracer -e 'uprobe:libc:fopen { printf(\"%s\\n\", str(arg0)); }' -c 'getent passwd root' --backend ftrace",
    "sudo tracer -l 'usdt:/usr/bin/python3:*'",
)
EPILOG = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in EXAMPLES)
OVERVIEW = """Trace user programs: one line, through eBPF or ftrace.

`tracer -e PROGRAM` and `tracer FILE` mean `tracer run`; `-l`, `--info` and `--version` are spelled as in bpftrace.

\b
Most used options of `tracer run`:
  -e PROGRAM  The program itself.
  -p PID      Only this process, with all its threads.
  -c COMMAND  Start COMMAND, trace only it, end with it; --follow: also what it starts.
  -f FORMAT   text or json.
  --backend   auto, bcc or ftrace.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status: 0, 1 for a failure, 2 for wrong use or a wrong program.

    Nothing is left in the buffers of stdout and stderr.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        sys.unraisablehook = _ignored
        sys.excepthook = _fault_of_ours  # before typer is imported: its own hook hands on to the one it found
    try:
        # A script's shell ignores it for a background job, where `kill -INT $!; wait` is to end a trace all the same.
        if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, _interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))  # scripts/tracer blocks it while Python starts
        with errors.Heard(lambda line: _say(f"tracer: {errors.printable(line)}\n")):
            status = _run(arguments)
        _flush_output()
        return status
    except BrokenPipeError:  # the reader of stdout has had enough (`| head`): no failure
        _drop_output()
        return 0
    except (Interrupted, KeyboardInterrupt):
        _say(_INTERRUPTED)
        _drop_output()
        return 1
    except TracerError as error:
        quiet = {"-q", "--quiet", "--no-warnings"} & options_of(arguments)
        _say_error(error, _is_verbose(arguments), warnings=not quiet)
        _drop_output()
        return error.exit_code
    except RecursionError:
        _say_error(TracerError("the program is nested too deeply", "assign its parts to variables"))
        _drop_output()
        return 2
    except OSError as error:
        _say_error(TracerError(_os_error(error), WANTING.get(error.errno or 0)))
        _drop_output()
        return 1
    except (MemoryError, SystemError) as error:
        if isinstance(error, SystemError) and not _NO_ERROR.fullmatch(str(error)):
            raise
        # Memory may be refused too where it is not limited, by mmap(2): then the interpreter knows no reason.
        is_memory = isinstance(error, MemoryError) or _memory_is_limited()
        unknown = f"Python could not go on, for want of memory it seems: {error}"
        message = "there is not enough memory" if is_memory else unknown
        _say_error(TracerError(message, WANTING[errno.ENOMEM]))
        _drop_output()
        return 1
    except ImportError as error:  # of a file that is there: the machine lacks memory, descriptors or a mapping
        _say_error(TracerError(_load_error(error)))
        _drop_output()
        return 1


def application(names: Sequence[str]) -> typer.Typer:
    """The Typer application with these commands."""
    import typer

    app = typer.Typer(
        name="tracer",
        help=OVERVIEW,
        epilog=EPILOG,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_overview)
    for name in names:
        module = import_module(f"tracer.cli.{MODULES.get(name, name)}")
        app.command(name, epilog=f"\b\nExample:\n  {module.EXAMPLE}")(module.command)
    return app


def _overview() -> None:
    """Holds the application together: with a callback, one command alone keeps its name."""


def _run(arguments: list[str]) -> int:
    words = as_command(arguments)
    if words == ["--version"]:
        from tracer import __version__

        print(f"tracer {__version__}")
        return 0
    import typer

    # Typer's faults have one base, click's in some of its versions and its own in others.
    fault_of_the_line: type[BaseException] = typer.BadParameter.__mro__[2]
    commands = [words[0]] if words[0] in COMMANDS else COMMANDS
    try:
        status = application(commands)(args=words, prog_name="tracer", standalone_mode=False)
    except SystemExit as leaving:
        # Typer ends with status 1 when the reader has left; `main` handles that.
        if isinstance(leaving.__context__, BrokenPipeError):
            raise leaving.__context__ from None
        raise
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):  # which has nothing to do with an interrupt where nobody is asked
            raise abort.__context__ from None
        raise KeyboardInterrupt from None
    except fault_of_the_line as fault:
        raise _usage_error(fault, words) from None
    return status if isinstance(status, int) else 0


def _usage_error(fault: BaseException, words: Sequence[str]) -> UsageError:
    from tracer.cli.arguments import ELSEWHERE, LEFT_OUT, names_stage_of_bpftrace, near_option

    option = getattr(fault, "option_name", None)
    possible = getattr(fault, "possibilities", None)
    help_line = f"see tracer {words[0]} --help" if words[0] in COMMANDS else "see tracer --help"
    if isinstance(option, str) and "no such option" in str(fault).lower():
        if option in LEFT_OUT:
            reason, remedy = LEFT_OUT[option]
            return UsageError(f"{option} is not supported: {reason}", remedy)
        near = near_option(option, possible or ())
        parameters = getattr(getattr(getattr(fault, "ctx", None), "command", None), "params", ())
        json = any("--json" in parameter.opts for parameter in parameters)
        if option in ("-f", "--format") and json:
            return UsageError(f"unknown option {option}", "tracer run has -f json; here it is --json")
        other = ELSEWHERE.get(option) or (f"did you mean {near}?" if near else help_line)
        return UsageError(f"unknown option {option}", other)
    describe = getattr(fault, "format_message", None)
    message = (describe() if describe is not None else str(fault)).rstrip(".")
    if "'-d'" in message and names_stage_of_bpftrace(words):
        help_line = "bpftrace's types is typed here, its codegen program, its dis bytecode; one stage at a time"
    return UsageError(message[:1].lower() + message[1:], help_line)


def _is_verbose(arguments: Sequence[str]) -> bool:
    return not options_of(arguments).isdisjoint(("-v", "--verbose"))


def _os_error(error: OSError) -> str:
    try:
        from tracer.failed_calls import described
    except Exception:  # for the same reason, it may be
        name = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        return f"{name}{error.strerror or error}"
    return described(error)


def _load_error(error: BaseException) -> str:
    name = getattr(error, "name", None)
    return f"cannot load {f'the module {name}' if name else 'a module'}: {error}"


def _memory_is_limited() -> bool:
    """Whether an allocation can fail at all, where the kernel otherwise ends a process when memory is gone."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_DATA, getrlimit

        with open("/proc/sys/vm/overcommit_memory", "rb") as file:
            strict = file.read(1) == b"2"
        return strict or any(getrlimit(limit)[0] != RLIM_INFINITY for limit in (RLIMIT_AS, RLIMIT_DATA))
    except Exception:  # for want of it, it may be
        return True


def _flush_output() -> None:
    if sys.stdout is not None:  # it was closed before we began
        sys.stdout.flush()


def _drop_output() -> None:
    """Drops what stdout still holds, so that writing it does not fail a second time."""
    try:
        _flush_output()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)


def _fault_of_ours(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An exception that `main` does not catch is a bug in tracer: shown in one line, with -v in full."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Interrupted):  # Python 3.11 makes a RuntimeError of what stops a class statement
            _say(_INTERRUPTED)
            return
        cause = cause.__cause__ or cause.__context__
    if _is_verbose(sys.argv[1:]):
        sys.__excepthook__(kind, error, trace)
    if _is_of_import(trace):
        _say_error(TracerError(_load_error(error)))
        return
    package = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and _is_empty_package(package):
        name = getattr(package, "__name__", "")
        _say_error(TracerError(f"cannot load the module {name}: its files are not there, or cannot be looked at"))
        return
    hint = "please report it, with what -v adds"
    _say_error(TracerError(f"internal error: {kind.__name__}: {error}", hint))


def _ignored(what: sys.UnraisableHookArgs) -> None:
    """Python prints and forgets what a callback, a destructor or the start of a thread raises: an interrupt that came
    there comes once more, and want of memory, or an error of the kernel, is no traceback.
    """
    if isinstance(what.exc_value, (Interrupted, KeyboardInterrupt)):
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # not in here
    elif not isinstance(what.exc_value, (MemoryError, OSError)):
        sys.__unraisablehook__(what)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


def _is_of_import(trace: TracebackType | None) -> bool:
    """Whether Python's own loading of modules failed: it takes a read that the kernel refuses for an empty file."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen importlib")


def _is_empty_package(module: object) -> bool:
    """Whether it is what Python makes of a folder whose __init__.py it cannot find, as where stat(2) fails."""
    return isinstance(module, type(sys)) and getattr(module, "__file__", None) is None and hasattr(module, "__path__")


def _say_error(error: TracerError, verbose: bool = False, warnings: bool = True) -> None:
    try:
        from tracer.cli.errors import error_text

        text = error_text(error, verbose=verbose, warnings=warnings)
    except Exception:  # what is missing may be memory or a descriptor
        hint = f"; {error.hint}" if error.hint else ""
        text = f"tracer: error: {ascii(error.message)[1:-1]}{ascii(hint)[1:-1]}\n"
    _say(text)


def _say(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # stderr is closed: the exit status has to say it
        pass
