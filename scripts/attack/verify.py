"""scripts/attack/verify [FOLDER …]: `tracer list --verify` over the programs and libraries of this machine.

Each file is read by tracer's readers and by pyelftools, and each difference is printed. A file of which a hard link or
another link was seen is left out. Needs no root. Ctrl-C ends it with the table of what was tried by then.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.pool import ThreadPool

from scripts.attack.command import write
from tests.harness.cli import ROOT
from tracer.errors import TracerError
from tracer.verify.findings import Part
from tracer.verify.known import REASONS
from tracer.verify.verify import verify

FOLDERS = ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/opt", "/root/.cargo", "/root/.rustup", "/home")
_LIMIT_S = 5.0


def files(folders: list[str]) -> Iterator[str]:
    """The ELF files below these folders, each once."""
    seen = set()
    for folder in folders:
        for place, below, names in os.walk(folder):
            below.sort()
            for name in sorted(names):
                path = os.path.join(place, name)
                try:
                    status = os.lstat(path)
                    if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) in seen:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                    with open(path, "rb") as file:
                        if file.read(4) == b"\x7fELF":
                            yield path
                except OSError:
                    continue


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", default=[], help=f"default: {' '.join(FOLDERS)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many files at once")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth file")
    parser.add_argument("--seconds", type=float, default=_LIMIT_S, help="for each part of a file (default 5)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return _one(options.one, options.seconds)
    start = time.monotonic()
    paths = list(files([root for root in options.folders or FOLDERS if not os.path.islink(root)]))
    wanted = paths[:: options.every]
    command = [sys.executable, "-m", "scripts.attack.verify", "--seconds", str(options.seconds), "--one"]

    def run(path: str) -> list[Part] | str:
        """Verifies a file in a process of its own: what compares is forked, which threads do not take well."""
        done = subprocess.run([*command, path], cwd=ROOT, capture_output=True, text=True)
        try:
            return [Part(*fields) for fields in ast.literal_eval(done.stdout)]
        except (SyntaxError, TypeError, ValueError):
            return re.sub(r"^.*?: ", "", done.stderr.strip().rpartition("\n")[2]) or f"status {done.returncode}"

    results: dict[str, list[Part] | str] = {}
    with ThreadPool(options.jobs) as pool, suppress(KeyboardInterrupt):  # what was tried by then is in the table
        for path, result in zip(wanted, pool.imap(run, wanted), strict=True):
            results[path] = result
            for part in result if not isinstance(result, str) else ():
                for line in (*part.differences, *([f"{part.name}: {part.raised}"] if part.raised else [])):
                    print(f"{path}: {line}", file=sys.stderr, flush=True)
    table = summary(results, len(paths), time.monotonic() - start)
    print(table)
    if options.write:
        write("verify", table)
    return any(part.differences for result in results.values() if not isinstance(result, str) for part in result)


def _one(path: str, seconds: float) -> int:
    try:
        print(repr([tuple(part) for part in verify(path, seconds)]))
    except TracerError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


def summary(results: dict[str, list[Part] | str], there: int, seconds: float) -> str:
    """A table for the docs."""
    read = [result for result in results.values() if not isinstance(result, str)]
    refused = Counter(result for result in results.values() if isinstance(result, str))
    lines = [
        "| verify | |",
        "| --- | --- |",
        f"| files of this machine, tried, in seconds | {there:,}, {len(results):,}, {seconds:.0f} |",
        *(f"| no file for tracer: {reason} | {count:,} |" for reason, count in refused.most_common()),
    ]
    for number, name in enumerate(part.name for part in (read or [[]])[0]):
        parts = [parts_of_file[number] for parts_of_file in read]
        cut = sum(bool(part.cut) for part in parts)
        wrong = sum(len(part.differences) + part.more for part in parts)
        lines.append(f"| {name}: compared, different, files whose time ended first | "
                     f"{sum(part.compared for part in parts):,}, {wrong:,}, {cut:,} |")  # fmt: skip
    reasons: Counter[str] = Counter()
    for file in read:
        for part in file:
            reasons.update(dict(part.reasons))
    lines += [f"| not compared: {REASONS[name]} | {count:,} |" for name, count in reasons.most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
