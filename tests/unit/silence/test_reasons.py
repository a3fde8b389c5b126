"""Why a place is hit by nobody, as its file tells."""

from __future__ import annotations

import re
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.targets.build import build
from tests.targets.symbols import symbol_addresses
from tracer.errors import ProgramError, Source
from tracer.kinds.site import FileSite
from tracer.lang.syntax.parser import parse
from tracer.pipeline import plan
from tracer.resolve.binary import Binaries, Binary
from tracer.silence.reasons import _kind_of_code


def entry_of_plt(path: Path) -> int:
    listing = subprocess.run(["objdump", "-d", "-j", ".plt.sec", path], check=True, stdout=subprocess.PIPE, text=True)
    found = re.search(r"^0*([0-9a-f]+) <printf@plt>", listing.stdout, re.M)
    assert found is not None
    return int(found[1], 16)


def reason(path: Path, address: int, name: str = "") -> str | None:
    identity = Binary(str(path)).identity
    probe = f"uprobe:{path}:{name or hex(address)}"
    with closing(Binaries()) as binaries:
        site = FileSite("uprobe", probe, name, (), 0, str(path), identity, address, address)
        return _kind_of_code(site, binaries, [site], True)


def test_an_entry_of_the_plt_is_told() -> None:
    path = build("silent-plt")
    at = entry_of_plt(path)
    assert reason(path, at) == (
        f"{at:#x} is a PLT entry: only the calls of {path} itself into another library pass through it"
    )


def test_one_that_cannot_be_checked_is_refused_as_that() -> None:
    path = build("silent-plt")
    at = entry_of_plt(path)
    source = Source(f"uprobe:{path}:{at:#x} {{ @ = count(); }}")
    assert parse(source).clauses
    with pytest.raises(ProgramError) as caught:
        plan(source)
    (fault,) = caught.value.diagnostics
    said = f"{at:#x} is a PLT entry, through which the file calls other libraries, not a function"
    assert fault.message == f"{path}: {said}"
    assert fault.hint == "name the function in its library: uprobe:LIBRARY:FUNCTION"


def test_functions_by_what_they_are() -> None:
    path = build("silent")
    addresses = symbol_addresses(path)
    assert reason(path, addresses["unused"], "unused") is None
    inlined = reason(path, addresses["twice"], "twice")
    assert inlined == (
        "twice was inlined at 3 places (in bake and shop), and its own code was not called;"
        " config = { inlined = true } counts them"
    )
    assert reason(path, addresses["twice"] + 1, "twice+1") is None
    chosen = reason(path, addresses["chosen_here"], "chosen")
    assert chosen is not None and chosen.startswith("chosen is an indirect function (ifunc), and chosen_here, what its")
    copied = reason(path, addresses["copied"], "copied")
    assert copied == "the compiler made copied.constprop.0 of copied, which is called instead: name that"
    assert reason(path, addresses["copied.constprop.0"], "copied.constprop.0") is None
    assert reason(path, addresses["resolver"]) == (
        "it is the resolver of chosen, an indirect function (ifunc): that runs when the file is loaded"
    )
