"""The command behind scripts/bench."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import NoReturn

from scripts.benchmark import baseline, events, flood, growth, hit, kernel, listing, start
from scripts.benchmark.host import host, load, version_of_package, version_of_tree
from scripts.benchmark.model import FLOOR, BenchError, Results, Work
from scripts.benchmark.ratios import ratios
from scripts.benchmark.reaching import verdicts
from scripts.benchmark.report import Report, to_json
from scripts.benchmark.rounds import run_rounds
from scripts.benchmark.setting import Setting
from scripts.benchmark.speakers import ROOT, Speaker, debians_bpftrace, peer, tracers
from scripts.benchmark.subjects import Subjects, subjects
from scripts.benchmark.tools import NAMES_OF_TOOLS

PARTS: dict[str, Callable[[Setting], list[Work]]] = {
    "start": start.start,
    "hit": hit.hit,
    "kernel": kernel.kernel,
    "events": events.events,
    "flood": flood.flood,
    "list": listing.listing,
    "memory": start.memory,
    "sites": growth.sites,
    "growth": growth.growth,
}
_QUICK = {"hits": 20_000, "events": 10_000, "most": 100}
_PAGE = ROOT / "docs" / "benchmarks.md"
_REGRESSED = 3


def main() -> int:
    """Runs the parts; 3 with --check where something became worse, 1 where nothing can be measured."""
    arguments = _parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return _bench(arguments)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _bench(arguments: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise BenchError("only root may attach probes; start it with sudo")
    before = load()
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    with subjects() as traced:
        speakers = _speakers(arguments.peer, traced)
        quick = _QUICK if arguments.quick else {}
        setting = Setting(traced, speakers, **quick)
        works = [work for part in PARTS if part in (arguments.parts or PARTS) for work in PARTS[part](setting)]
        names = [FLOOR, *(one.name for one in speakers), *NAMES_OF_TOOLS]
        say = _teller(arguments.quiet)
        results = run_rounds(works, names, 1 if arguments.quick else arguments.rounds, say)
        say("")  # a terminal's line is free again
    report = _report(results, speakers, before, day)
    kept = baseline.load()
    if kept is not None and not arguments.quick:
        report = report.against(kept)
    if arguments.json:
        print(to_json(report))
    else:
        print(report.text(), end="")
    if arguments.markdown:
        report.write(_PAGE)
    if arguments.keep:
        baseline.keep(report.ratios, report.host.machine, day)
    return _REGRESSED if arguments.check and report.regressions else 0


def _speakers(peers: Sequence[str], traced: Subjects) -> list[Speaker]:
    speakers = tracers(ROOT, "", traced.home)
    debians = debians_bpftrace()
    speakers += [debians] if debians else []
    for path in peers:
        speakers += peer(path, traced.home)
    names = [one.name for one in speakers]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise BenchError(f"two contestants are named {', '.join(sorted(twice))}")
    return speakers


def _report(results: Results, speakers: Sequence[Speaker], before: float, day: str) -> Report:
    bpftraces = [(one.name, one.version) for one in speakers if not one.is_tracer]
    here = host(before, load(), day, tuple(_versions(speakers)))
    return Report(here, results, tuple(ratios(results)), tuple(verdicts(results, bpftraces)))


def _versions(speakers: Sequence[Speaker]) -> Iterator[str]:
    yield f"tracer at {version_of_tree(ROOT) or 'no commit'} on Python {platform.python_version()}"
    yield from (one.name for one in speakers if not one.is_tracer)
    for package in ("libbpfcc", "bpfcc-tools", "perf-tools-unstable"):
        if version := version_of_package(package):
            yield f"{package} {version}"


def _teller(is_quiet: bool) -> Callable[[str], None]:
    """Shows the progress: in one line on a terminal, elsewhere when a round begins."""
    begun: set[str] = set()

    def say(text: str) -> None:
        number = text.partition(":")[0]
        if is_quiet:
            return
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)
        elif number and number not in begun:
            begun.add(number)
            print(f"bench: {number}", file=sys.stderr, flush=True)

    return say


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="What tracing costs here, beside other tracers. As root, on a machine at rest.",
    )
    parser.add_argument("parts", nargs="*", type=_part, metavar="PART", help=f"of {', '.join(PARTS)}; else all")
    parser.add_argument("--rounds", type=_rounds, default=5, metavar="N", help="how often each does everything (5)")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="PATH",
        help="another bpftrace, or the directory of another tree of tracer; may be given again",
    )
    parser.add_argument("--quick", action="store_true", help="one round of few hits: whether all works, not how fast")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--markdown", action="store_true", help="write docs/benchmarks.md too")
    parser.add_argument("--keep", action="store_true", help="keep the ratios as the baseline of later runs")
    parser.add_argument(
        "--check", action="store_true", help="exit with 3 where a ratio is worse than kept, noise apart"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say what is under way")
    return parser


def _part(text: str) -> str:
    if text not in PARTS:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(PARTS)}")
    return text


def _rounds(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
