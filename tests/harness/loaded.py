"""Tells what a command line makes the interpreter load: modules, libraries, processes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.harness.cli import PATIENCE, PATIENCE_S, ROOT, environment

_RUN = """
import json, os, sys
started, opened = [], []
events = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty"}
def hook(event, args):
    if event in events:
        started.append(event)
    elif event == "open" and isinstance(args[0], str) and args[0].startswith("/proc/"):
        opened.append(args[0])
sys.addaudithook(hook)
from tracer.cli.app import main
try:
    main(sys.argv[2:])
except SystemExit:
    pass
with open("/proc/self/maps") as file:
    maps = sorted({line.split(None, 5)[5].strip() for line in file if "/" in line})
with open("/proc/self/status") as file:  # not ru_maxrss, which takes over that of who called exec
    peak_kb = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
with open(sys.argv[1], "w") as file:
    found = {"modules": sorted(sys.modules), "started": started, "opened": opened, "maps": maps, "peak_kb": peak_kb}
    json.dump(found, file)
"""

_EMPTY = """
import json, os, sys
os.environ["TYPER_USE_RICH"] = "0"
import typer
app = typer.Typer(rich_markup_mode=None)
@app.command()
def command(number: int = 1) -> None:
    pass
app(args=[], standalone_mode=False)
json.dump(sorted(sys.modules), sys.stdout)
"""


@dataclass(frozen=True)
class Loaded:
    """The modules and files of one run, without what an empty Typer program loads and without private modules of the
    standard library.

    `modules`: those of this package, its name left out; `other`: all others. `started`: how processes were started;
    `opened`: the files of /proc that were opened, once for each time. `maps`: the files mapped at the end. `peak_kb`:
    the most memory it took, of its own.
    """

    modules: frozenset[str]
    other: frozenset[str]
    started: tuple[str, ...]
    opened: tuple[str, ...]
    maps: tuple[str, ...]
    peak_kb: int


def loaded(folder: Path, *words: str) -> Loaded:
    """Runs `tracer WORDS`; `folder` takes the answer."""
    answer = folder / "loaded.json"
    command = [sys.executable, "-c", _RUN, str(answer), *words]
    subprocess.run(command, capture_output=True, env=environment(), cwd=ROOT, timeout=PATIENCE_S * PATIENCE)
    answers = json.loads(answer.read_text())
    new = set(answers["modules"]) - _of_typer()
    ours = {name for name in new if name.partition(".")[0] == "tracer"}
    return Loaded(
        frozenset(name.partition(".")[2] for name in ours if "." in name),
        frozenset(name for name in new - ours if not name.startswith("_") and not name.startswith("typer.")),
        tuple(answers["started"]),
        tuple(answers["opened"]),
        tuple(answers["maps"]),
        answers["peak_kb"],
    )


@lru_cache(maxsize=1)
def _of_typer() -> frozenset[str]:
    done = subprocess.run([sys.executable, "-c", _EMPTY], capture_output=True, check=True, env=environment(), cwd=ROOT)
    return frozenset(json.loads(done.stdout)) | {"gc", "json", "json.decoder", "json.encoder", "json.scanner"}
