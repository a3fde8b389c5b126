"""The command behind scripts/vm."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import NoReturn

from scripts.lab import LabError, NotAvailable
from scripts.lab.boot import Ended, run
from scripts.lab.images import image_of, is_cached, package_of
from scripts.lab.kernels import KERNELS, kernel

_CRASHED, _TIME_WAS_UP = 125, 124
_CONSOLE_LINES = 40


def main() -> int:
    """Runs one command; 124 where time was up, 125 where the guest died or could not be started."""
    arguments = _parser().parse_args()
    # The machine is ended on every way out; SIGTERM and SIGHUP would go none of them.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        if arguments.command == "list":
            return _list()
        if arguments.command == "run":
            return _run(arguments)
        # Heavier: it knows the tests.
        from scripts.lab.suite import prepare_kernels, tabulate, test_kernels

        if arguments.command == "prepare":
            return prepare_kernels(arguments.kernels)
        if arguments.command == "table":
            return tabulate()
        return test_kernels(arguments.kernels, arguments.all, arguments.quick, arguments.again)
    except LabError as error:
        print(f"vm: {error}", file=sys.stderr)
        return _CRASHED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/vm", description="Other kernels, in virtual machines.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the kernels, what each is for, and whether it is here already")
    command = commands.add_parser("run", help="run a command on a kernel, with this machine's files")
    command.add_argument("kernel")
    command.add_argument("-t", "--timeout", type=float, default=600, metavar="SECONDS", help="end it then (600)")
    command.add_argument("words", nargs="+", metavar="CMD", help="after --; one word is a line for the shell")
    command = commands.add_parser("prepare", help="fetch or build kernels, and compile what their tests trace")
    command.add_argument("kernels", nargs="*", metavar="KERNEL", help="else those that scripts/test runs")
    command = commands.add_parser("test", help="run the contract, the suite and tests/vm on kernels")
    command.add_argument("kernels", nargs="*", metavar="KERNEL", help="else those that scripts/test runs")
    command.add_argument("--all", action="store_true", help="on all kernels; writes the table of docs/kernels.md")
    command.add_argument("--quick", action="store_true", help="a part of the cases; a smaller one where all ran lately")
    command.add_argument("--again", action="store_true", help="only what the last whole run has not passed")
    commands.add_parser("table", help="write the table of docs/kernels.md from the last whole runs, kernel by kernel")
    return parser


def _list() -> int:
    for row in KERNELS:
        try:
            package = package_of(row)
            state = f"{package.name} {package.version}, {'here' if is_cached(row, package) else 'not here yet'}"
        except NotAvailable as error:
            state = f"not available: {error}"
        print(f"{row.name:13} {row.purpose}\n{'':13} {state}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    image = image_of(kernel(arguments.kernel))
    ended = run(
        image,
        arguments.words,
        timeout_s=arguments.timeout,
        out=sys.stdout.buffer,
        err=sys.stderr.buffer,
    )
    if ended.status is not None:
        return ended.status
    print(_last_words(ended, arguments.timeout), file=sys.stderr)
    return _TIME_WAS_UP if ended.time_was_up else _CRASHED


def _last_words(ended: Ended, timeout_s: float) -> str:
    lines = ended.console.splitlines()[-_CONSOLE_LINES:]
    what = f"the guest was ended after {timeout_s:g} s" if ended.time_was_up else "the guest died"
    return "\n".join([f"vm: {what}; its console:", *lines])


if __name__ == "__main__":
    sys.exit(main())
