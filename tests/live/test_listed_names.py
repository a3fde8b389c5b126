"""Every name that `tracer list` prints is an attach point as it stands, and means what was listed: of ten programs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.live.conftest import need
from tests.targets.build import build, build_go, build_rust
from tracer.errors import ProgramError, Source
from tracer.kinds.site import FileSite, Target, places_among
from tracer.lang.syntax.parser import parse
from tracer.resolve.binary import Binary
from tracer.resolve.listing import list_lines, list_probes
from tracer.resolve.sites.expand import expand

SAMPLE = 150
"""Names tried of each program; libjvm has 43,000."""


def newest(*patterns: str) -> Path | None:
    found = [path for pattern in patterns for path in Path("/").glob(pattern)]
    return max(found, default=None)


def program(name: str) -> Path | None:
    path = shutil.which(name)
    return None if path is None else Path(path)


PROGRAMS: dict[str, Callable[[], Path | None]] = {
    "Go": lambda: build_go("grows") if shutil.which("go") else None,
    "Rust": lambda: build_rust("names") if shutil.which("rustc") else None,
    "C++": lambda: build("throws"),
    "node": lambda: newest("usr/lib/*/libnode.so.*") or program("node"),
    "libc": lambda: newest("usr/lib/*/libc.so.6"),
    "libstdc++": lambda: newest("usr/lib/*/libstdc++.so.6"),
    "python": lambda: newest("usr/bin/python3.1?"),
    "postgres": lambda: newest("usr/lib/postgresql/*/bin/postgres", "usr/pgsql-*/bin/postgres"),
    "libjvm": lambda: newest("usr/lib/jvm/*/lib/server/libjvm.so"),
    "libcrypto": lambda: newest("usr/lib/*/libcrypto.so.3"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_listed_can_be_attached_to_and_means_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = PROGRAMS[name]()
    need(found is not None, name)
    path = os.path.realpath(found or "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    listed = list(list_probes(f'uprobe:"{path}":*', Target()))
    lines = "".join(list_lines(f'uprobe:"{path}":*', Target())).splitlines()
    assert sorted(lines) == sorted(each.probe for each in listed)
    symbols = Binary(path).symbols
    # Names with signs in them are few, and those that go wrong.
    odd = [each for each in listed if not each.name.replace(".", "_").isidentifier()]
    some = {each.probe: each for each in [*listed[:: len(listed) // SAMPLE + 1], *odd[:: len(odd) // SAMPLE + 1]]}
    try:
        sites = expanded(some)
    except ProgramError as error:
        # What must not be probed is refused for that reason alone.
        for each in error.diagnostics:
            assert re.search(" begins with an instruction| a breakpoint already|runtime.etext ", each.message)
            del some[error.source.text[each.span.start : each.span.end]]
        assert len(error.diagnostics) < 10
        sites = expanded(some)
    meant: dict[int, set[int]] = {}
    for site in sites:
        function = symbols.function_at(site.address)
        assert function is not None
        meant.setdefault(site.point, set()).add(function.address)
    assert [meant.get(number) for number in range(len(some))] == [
        {site.address for site in each.sites} for each in some.values()
    ]


def expanded(points: Iterable[str]) -> tuple[FileSite, ...]:
    (sites,) = expand(parse(Source(", ".join(points) + " { @ = count(); }")), Target()).values()
    return tuple(places_among(sites))
