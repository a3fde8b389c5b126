"""scripts/attack/caches: other users' files, links, FIFOs, devices and garbage where the cache and the locks should be.

The place of the locks is one of a mount namespace of the run's own, so that other tracers never see it.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.attack.command import Trial, command
from scripts.attack.trial import CONFIGS, Bench, Config
from scripts.attack.verdict import Seen, judge

NOBODY = 65534


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _others(path: Path) -> None:
    path.write_bytes(b"x" * 100)
    os.chown(path, NOBODY, NOBODY)


def _open(path: Path) -> None:
    path.write_bytes(b"x" * 100)
    path.chmod(0o666)


def _huge(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 1 << 40)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").touch()


WAYS: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(os.urandom(4096)),
    "an empty file": lambda path: path.write_bytes(b""),
    "a huge file": _huge,
    "another user's file": _others,
    "a file that all may write": _open,
    "a FIFO": lambda path: os.mkfifo(path),
    "a device without an end": lambda path: os.mknod(path, 0o020666, os.makedev(1, 5)),
    "a link to itself": _loop,
    "a link to another file": lambda path: path.symlink_to("/etc/passwd"),
    "a folder": _folder,
}
"""How to make what stands where a file or a folder of tracer's should be."""


def _files(bench: Bench, config: Config, way: str, share: float, chance: random.Random) -> None:
    """Puts it in the place of some files that an earlier run kept."""
    for path in sorted(path for path in bench.cache(config).rglob("*") if path.is_file() and not path.is_symlink()):
        if chance.random() < share:
            path.unlink()
            WAYS[way](path)


def _cached(config: Config, way: str, whole: bool, seed: int) -> Trial:
    def run(bench: Bench) -> Seen:
        expected, home = bench.undisturbed(config), bench.cache(config)
        judge(bench.run(config), expected)
        if whole:
            shutil.rmtree(home / "tracer", ignore_errors=True)
            WAYS[way](home / "tracer")
        else:
            _files(bench, config, way, 0.7, random.Random(seed))
        passwords = Path("/etc/passwd").read_bytes()
        seen = bench.run(config)
        judge(seen, expected)
        if seen.status == 0 and seen.out != expected:
            seen.wrong("another answer", seen.out)
        if Path("/etc/passwd").read_bytes() != passwords:
            seen.wrong("another file was written")
        shutil.rmtree(home)
        return seen

    return Trial(f"{way} for {'the cache' if whole else 'files in it'}: {config}", run)


def _locked(config: Config, way: str, whole: bool) -> Trial:
    def run(bench: Bench) -> Seen:
        prepared = bench.folder / "run"
        shutil.rmtree(prepared, ignore_errors=True)
        prepared.mkdir()
        if whole:
            WAYS[way](prepared / "tracer")
        else:
            (prepared / "tracer").mkdir(0o700)
            for number in range(3):
                WAYS[way](prepared / "tracer" / f"tracer_{number + 4_000_000}_0123456{number}")
        script = f'mount --bind {shlex.quote(str(prepared))} /run; exec "$@"'
        seen = bench.run(config, ("unshare", "-m", "/bin/sh", "-c", script, "sh"))
        judge(seen, bench.undisturbed(config))
        return seen

    return Trial(f"{way} for {'the folder of locks' if whole else 'locks'}: {config}", run)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Trials of each way for the cache, files in it, the folder of locks, locks."""
    warm = [config for config in CONFIGS if config.cache == "warm"]
    chosen: list[Trial] = []
    while len(chosen) < runs:
        for way in WAYS:
            for whole in (True, False):
                chosen.append(_cached(chance.choice(warm), way, whole, chance.randrange(1 << 32)))
                locks = [config for config in warm if config.backend == "ftrace"]
                chosen.append(_locked(chance.choice(locks), way, whole))
    return chosen[:runs]


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 40))
