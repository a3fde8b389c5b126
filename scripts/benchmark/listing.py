"""Listing a large library's probes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from scripts.benchmark.model import Reading, Row, Work
from scripts.benchmark.setting import Setting, by_all, ended_well
from scripts.benchmark.speakers import Speaker

_PLACES = ("/usr/lib/jvm/*/lib/server/libjvm.so", "/usr/lib/jvm/*/jre/lib/*/server/libjvm.so")


def listing(setting: Setting) -> list[Work]:
    """The works of listing libjvm: hundreds of USDT sites, and tens of thousands of functions."""
    works = []
    for key, search, what in (("list-usdt", "usdt", "USDT probes"), ("list-functions", "uprobe", "functions")):
        row = Row(key, f"list libjvm's {what}", "ms", floor="typer")
        library = libjvm()
        if library is None:
            absent = {one.name: "no libjvm.so under /usr/lib/jvm; install a JDK" for one in setting.speakers}
            works.append(Work("list", (row,), {}, absent))
        else:
            ask = partial(_list, setting, key, f"{search}:{library}:*")
            works.append(by_all(setting, "list", [row], ask, ask))
    return works


def libjvm() -> Path | None:
    """The library, by its own path: Java's home is often reached through links."""
    paths = sorted({path.resolve() for place in _PLACES for path in Path("/").glob(place[1:])})
    return paths[0] if paths else None


def _list(setting: Setting, key: str, search: str, one: Speaker) -> Reading:
    ran = ended_well(one.list(search, setting.timeout_s))
    lines = ran.out.count(b"\n")
    return Reading({key: ran.seconds * 1e3}, () if lines > 1 else (f"lists {lines} probes",))
