"""A program of Rust under both manglings: its names are those that c++filt prints, and mean its functions."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.live.conftest import need
from tests.targets.build import build_rust
from tracer.resolve.symbols.demangle import demangle_rust

pytestmark = pytest.mark.live


@pytest.fixture(params=["v0", "legacy"])
def mangling(request: pytest.FixtureRequest) -> str:
    need(shutil.which("rustc"), "rustc")
    return str(request.param)


def test_every_name_is_the_one_of_binutils(mangling: str) -> None:
    listing = subprocess.run(
        ["nm", build_rust("names", mangling)], check=True, capture_output=True, text=True
    ).stdout.split()
    names = sorted({word for word in listing if word.startswith("_R") or re.search(r"17h[0-9a-f]{16}E$", word)})
    assert len(names) > 400
    said = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    # What it says beyond ours: crates' hashes, those of legacy names, the types of constants, and escapes.
    plain = re.sub(r"(?<=\w)\[[0-9a-f]{5,16}\]|::h[0-9a-f]{16}$", "", said, flags=re.M)
    plain = re.sub(r": ([iu](8|16|32|64|128|size)|bool|char)(?=[],>])", "", plain).replace("g$uf6$del", "gödel")
    plain = plain.replace(r"\u{1f600}", "😀")
    assert dict(zip(names, map(demangle_rust, names), strict=True)) == dict(zip(names, plain.split("\n"), strict=False))


def test_functions_are_found_and_named_as_people_write_them(
    mangling: str, backend: str, tmp_path: Path, clean: None
) -> None:
    path = shutil.copy(build_rust("names", mangling), tmp_path / "names")
    done = tracer(
        "--backend", backend, "-q", "-f", "json", "-c", str(path), "-e",
        f'uprobe:{path}:"names::gödel::escher" {{ @arguments = sum(arg0); @entries[func] = count(); }}'
        f' uretprobe:{path}:"names::gödel::escher" {{ @values = sum(retval); }}'
        f' uprobe:{path}:"names::of_any*" {{ @any = count(); }} uprobe:{path}:"*::area" {{ @area = count(); }}',
    )  # fmt: skip
    assert done.status == 0, done.err
    assert maps(done) == {
        "@arguments": sum(range(7)),
        "@entries": {"names::gödel::escher": 7},
        "@values": sum(range(7)) + 7,
        "@any": 2,
        "@area": 2,
    }
