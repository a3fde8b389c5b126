from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Build = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_earlier_run(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found in the cache that another test, or another version, left there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles a source once per set of flags: build(source, "-O2", name="app")."""
    folder = tmp_path_factory.mktemp("built")
    made: dict[str, Path] = {}

    def compile_(source: str, *flags: str, name: str = "app", language: str = "c") -> Path:
        key = hashlib.sha256("\0".join((source, name, language, *flags)).encode()).hexdigest()[:16]
        if key not in made:
            place = folder / key
            place.mkdir()
            file = place / f"source.{'cc' if language == 'c++' else 'c'}"
            file.write_text(source)
            compiler = "g++" if language == "c++" else "gcc"
            subprocess.run([compiler, "-w", *flags, str(file), "-o", str(place / name)], check=True)
            made[key] = place / name
        return made[key]

    return compile_
