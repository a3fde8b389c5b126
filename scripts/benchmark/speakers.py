"""The speakers of the language: tracer on its two backends, of this tree or another, and every bpftrace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.benchmark.children import Ran, run
from scripts.benchmark.model import BenchError

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("bcc", "ftrace")

# As `python -I -m tracer` does, but of the tree that is named, whatever the environment holds.
_START = (
    "import runpy, sys; sys.path.insert(0, {tree!r}); sys.argv[0] = 'tracer'; "
    "runpy.run_module('tracer', run_name='__main__', alter_sys=True)"
)

# Limits that some have by default and others not, by their old names and new: of probes, keys and a string's bytes.
_LIMITS = {
    "BPFTRACE_MAX_PROBES": "70000",
    "BPFTRACE_MAX_BPF_PROGS": "70000",
    "BPFTRACE_MAP_KEYS_MAX": "131072",
    "BPFTRACE_MAX_MAP_KEYS": "131072",
}


@dataclass(frozen=True)
class Speaker:
    """A contestant that takes `-e PROGRAM`, `-c COMMAND` and `-l SEARCH`. `version` is a tuple of numbers."""

    name: str
    version: tuple[int, ...]
    base: tuple[str, ...]
    backend: str | None = None
    """Of tracer; None is a bpftrace."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_tracer(self) -> bool:
        """Whether it is ours."""
        return self.backend is not None

    def asked(self, program: str, command: Sequence[str] = (), as_chosen: bool = False) -> list[str]:
        """The command that runs a program, with a command of its own if there is one, without spaces or quotes in it.

        `as_chosen`: the backend that tracer takes by itself is not named, as nobody would.
        """
        base = self.listing if as_chosen and self.backend == BACKENDS[0] else self.base
        return [*base, "-e", program, *(["-c", " ".join(command)] if command else [])]

    def surroundings(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables that it is run with."""
        return {**_LIMITS, **self.environment, **(extra or {})}

    def trace(
        self,
        program: str,
        timeout_s: float,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        as_chosen: bool = False,
    ) -> Ran:
        """Runs a program to its end."""
        return run(self.asked(program, command, as_chosen), timeout_s, self.surroundings(environment))

    def list(self, search: str, timeout_s: float) -> Ran:
        """Runs `-l SEARCH`."""
        return run([*self.listing, "-l", search], timeout_s, self.environment)

    @property
    def listing(self) -> tuple[str, ...]:
        """The command without what only a trace takes."""
        return self.base[: self.base.index("--backend")] if self.is_tracer else self.base


def tracers(tree: Path, label: str, home: Path) -> list[Speaker]:
    """A tree of tracer on both backends; `label` stands behind its name. Its caches are in `home`, this run's own."""
    start = (sys.executable, "-I", "-c", _START.format(tree=str(tree)))
    version = re.search(r'__version__ = "([^"]+)"', (tree / "tracer" / "__init__.py").read_text())
    cache = home / f"cache{label.replace('/', '_')}"
    cache.mkdir(exist_ok=True)
    environment = {"XDG_CACHE_HOME": str(cache)}
    return [
        Speaker(
            f"tracer {backend}{label}",
            _numbers(version[1] if version else ""),
            (*start, "--backend", backend),
            backend,
            environment,
        )
        for backend in BACKENDS
    ]


def debians_bpftrace() -> Speaker | None:
    """The one of the distribution; None where it is not installed."""
    path = shutil.which("bpftrace", path="/usr/bin:/bin:/usr/local/bin")
    return None if path is None else bpftrace(path)


def bpftrace(path: str) -> Speaker:
    """Any bpftrace, named by its version; a script that starts one will do."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{path} cannot be started: {error}") from error
    match = re.search(r"bpftrace v?(\d+(?:\.\d+)+)", said.stdout)
    if match is None:
        raise BenchError(f"{path} --version does not answer as bpftrace does: {(said.stdout or said.stderr)[:40]!r}")
    return Speaker(f"bpftrace {match[1]}", _numbers(match[1]), (path, "-q"))


def peer(path: str, home: Path) -> list[Speaker]:
    """The contestant that `--peer` names: an executable is a bpftrace, a directory a tree of tracer."""
    if os.path.isdir(path):
        tree = Path(path).resolve()
        if not (tree / "tracer" / "__main__.py").is_file():
            raise BenchError(f"--peer {path}: no tree of tracer: tracer/__main__.py is not there")
        return tracers(tree, f" ({tree.name})", home)
    return [bpftrace(os.path.abspath(path))]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
