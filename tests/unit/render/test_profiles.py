"""Stacks for pprof and speedscope, read back by pprof itself and held against speedscope's own schema."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.render.test_flame import HOSTILE, hostile
from tracer.render.stacks import document_of
from tracer.render.stacks.profiles import Frame, Module, Page, Profile, Sample

SHOP = Module(0x55_0000_1000, 0x55_0000_3000, 0x1000, "/bin/shop", "c0ffee" * 6)
LIBC = Module(0x7F_0000_0000, 0x7F_0010_0000, 0x26000, "/usr/lib/libc.so.6", "")

MAIN = Frame("main", "user", SHOP.path, SHOP.start + 0x10, SHOP)
UNNAMED = Frame("[shop+0x1234]", "user", SHOP.path, SHOP.start + 0x234, SHOP)
MALLOC = Frame("malloc", "library", LIBC.path, LIBC.start + 0x40, LIBC)
DRAW = Frame("/srv/draw.py:paint:12", "python")

PROFILES = [
    Profile(
        "@bytes", "bytes",
        [Sample(("till", "7"), (MAIN, UNNAMED, MALLOC), 1 << 40), Sample(("shop", "7"), (MAIN, MALLOC), 24)],
        ("comm", "pid"),
    ),
    Profile("@", "count", [Sample((), (MAIN, DRAW), 3), Sample((), (MAIN,), -2)]),
]  # fmt: skip


def pprof(folder: Path, raw: bytes, *words: str) -> str:
    """What pprof says of a profile."""
    if shutil.which("go") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("go is needed")
        pytest.skip("go is needed")
    (folder / "profile.pb.gz").write_bytes(raw)
    home = {"HOME": str(folder), "PPROF_BINARY_PATH": str(folder), "GOCACHE": str(folder), "GOPROXY": "off"}
    done = subprocess.run(
        ["go", "tool", "pprof", "-symbolize=none", *words, "profile.pb.gz"], cwd=folder, env={**os.environ, **home},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pprof_reads_the_values_places_and_labels(tmp_path: Path) -> None:
    raw = document_of("pprof")(PROFILES, Page("a shop", time_ns=1_700_000_000_000_000_000))
    said = pprof(tmp_path, raw, "-raw")
    parts = said.partition("\nSamples:\n")[2]
    samples, locations, mappings = re.split(r"^(?:Locations|Mappings)\n", parts, flags=re.M)
    assert [line.strip() for line in samples.splitlines()] == [
        "bytes/bytes[dflt] samples/count",
        "1099511627776          0: 1 2 3",
        "comm:[till] pid:[7]",
        "24          0: 1 3",
        "comm:[shop] pid:[7]",
        "0          3: 4 3",
        "0         -2: 3",
    ]
    assert [line.split() for line in locations.strip().split("\n")] == [
        ["1:", "0x7f00000040", "M=2", "malloc", ":0", "s=0"],
        ["2:", "0x5500001234", "M=1"],
        ["3:", "0x5500001010", "M=1", "main", ":0", "s=0"],
        ["4:", "0x0", "/srv/draw.py:paint:12", "/srv/draw.py:0", "s=0"],
    ]
    assert mappings.strip().split("\n") == [
        f"1: 0x5500001000/0x5500003000/0x1000 /bin/shop {SHOP.build_id} ",
        "2: 0x7f00000000/0x7f00100000/0x26000 /usr/lib/libc.so.6  [FN]",
    ]
    assert "Comment: tracer" in said and "Comment: a shop" in said and "2023-11-14 22:13" in said


def test_pprof_counts_what_the_program_did(tmp_path: Path) -> None:
    raw = document_of("pprof")(PROFILES, Page())
    said = pprof(tmp_path, raw, "-top", "-unit=bytes", "-tagfocus=comm=shop")
    assert "Showing nodes accounting for 24B" in said
    assert re.search(r"^ +24B .* malloc$", said, re.M) and re.search(r"^ +0 .* 24B .* main$", said, re.M)


def test_pprof_reads_what_was_no_address(tmp_path: Path) -> None:
    folded = Profile("shop.folded", "count", [Sample((), (Frame("main"), Frame("[ls+0x12]")), 3)])
    said = pprof(tmp_path, document_of("pprof")([folded], Page()), "-top")
    assert re.search(r"^ +3 +100% +100% +3 +100% +\[ls\+0x12\]$", said, re.M)


def test_pprof_reads_hostile_names(tmp_path: Path) -> None:
    profiles, page = hostile()
    said = pprof(tmp_path, document_of("pprof")(profiles[:1], page), "-raw")
    assert all(f" {name} " in said for name in HOSTILE[:5])


def test_the_same_profile_is_the_same_bytes() -> None:
    raw = document_of("pprof")(PROFILES, Page())
    assert raw == document_of("pprof")(PROFILES, Page())
    assert gzip.decompress(raw)


SCHEMA = json.loads((Path(__file__).parent / "speedscope-schema.json").read_text())
"""dist/release/file-format-schema.json of speedscope 1.25.0 (MIT), unchanged."""

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "number": (int, float),
}  # fmt: skip


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is what a schema says, as far as this schema uses JSON Schema."""
    assert schema.keys() <= {
        "$ref", "$schema", "anyOf", "const", "definitions", "enum", "items", "properties", "required", "title", "type",
    }, schema  # fmt: skip
    if "$ref" in schema:
        return fits(value, SCHEMA["definitions"][schema["$ref"].removeprefix("#/definitions/")])
    return (
        ("anyOf" not in schema or any(fits(value, each) for each in schema["anyOf"]))
        and ("const" not in schema or value == schema["const"])
        and ("enum" not in schema or value in schema["enum"])
        and ("type" not in schema or (isinstance(value, TYPES[schema["type"]]) and not isinstance(value, bool)))
        and all(name in value for name in schema.get("required", ()))
        and all(fits(value[name], each) for name, each in schema.get("properties", {}).items() if name in value)
        and ("items" not in schema or all(fits(each, schema["items"]) for each in value))
    )


def test_speedscope_takes_it() -> None:
    made = json.loads(document_of("speedscope")(PROFILES, Page("a shop")))
    assert fits(made, SCHEMA)
    names = [each["name"] for each in made["shared"]["frames"]]
    stacks = [[[names[frame] for frame in stack] for stack in each["samples"]] for each in made["profiles"]]
    assert stacks == [
        [["till", "7", "main", "[shop+0x1234]", "malloc"], ["shop", "7", "main", "malloc"]],
        [["main", "/srv/draw.py:paint:12"]],
    ]
    assert [(each["name"], each["unit"], each["weights"]) for each in made["profiles"]] == [
        ("@bytes", "bytes", [1 << 40, 24]), ("@", "none", [3]),
    ]  # fmt: skip
    assert [each["endValue"] for each in made["profiles"]] == [(1 << 40) + 24, 3]
    assert fits(json.loads(document_of("speedscope")(*hostile())), SCHEMA)


@pytest.mark.parametrize("broken", ["unit", "samples", "shared"])
def test_the_schema_would_say_no(broken: str) -> None:
    made = json.loads(document_of("speedscope")(PROFILES, Page("a shop")))
    (made if broken == "shared" else made["profiles"][0])[broken] = "cups"
    assert not fits(made, SCHEMA)
