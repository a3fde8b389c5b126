"""What attach points of watchpoints mean, and where their variables are."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import cast

import pytest

from tests.targets.build import build
from tracer.backends.watching import address_in
from tracer.errors import ProgramError, Source
from tracer.kinds.site import Target
from tracer.kinds.watched import Watched
from tracer.pipeline import plan

ADDRESSES = {
    "watchpoint:0x404080:4:w": ("watchpoint:0x404080:4:w", 0x404080, 4, 2),
    "w:0x404081:1:w": ("watchpoint:0x404081:1:w", 0x404081, 1, 2),
    "w:4210816:8:wr": ("watchpoint:0x404080:8:rw", 0x404080, 8, 3),
    "w:0x401147:8:x": ("watchpoint:0x401147:8:x", 0x401147, 8, 4),
    "w:0x10:0x2:rw": ("watchpoint:0x10:2:rw", 0x10, 2, 3),
}


def site(point: str) -> Watched:
    (only,) = plan(Source(f"{point} {{ @ = count(); }}"))[0].sites
    return cast("Watched", only)


def refusal(point: str) -> str:
    with pytest.raises(ProgramError) as caught:
        site(point)
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.message}; {diagnostic.hint}"


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_watched_in_bpftraces_spelling(text: str) -> None:
    watched = site(text)
    assert (watched.probe, watched.address, watched.length, watched.access) == ADDRESSES[text]
    assert watched.variable is None and watched.in_memory


def addresses(program: Path) -> dict[str, int]:
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {name: int(place, 16) for place, _, name in (line.split() for line in listed.splitlines() if line[0] != " ")}


@pytest.mark.parametrize(
    ("name", "symbol", "offset", "length"),
    [("counter", "counter", 0, 4), ("pair.first", "pair", 0, 4), ("pair.second", "pair", 8, 8),
     ("pair.name[3]", "pair", 19, 1), ("cells[1]", "cells", 8, 8)],
)  # fmt: skip
def test_a_variable_is_watched_by_its_name_and_by_the_parts_that_debug_information_tells(
    name: str, symbol: str, offset: int, length: int
) -> None:
    program = build("counters")
    watched = site(f"watchpoint:{program}:{name}:w")
    assert watched.variable is not None
    assert watched.variable.address == addresses(program)[symbol] + offset
    assert (watched.length, watched.access, watched.probe) == (length, 2, f"watchpoint:{program}:{name}:w")


def test_what_a_debug_register_cannot_hold_is_refused_with_the_members_that_it_can() -> None:
    program = build("counters")
    of = "the processor watches 1, 2, 4 or 8 bytes, and"
    assert refusal(f"w:{program}:pair:w") == (
        f"{of} pair has 32; watch a part of it: pair.first, pair.second, pair.name[0]"
    )
    assert refusal(f"w:{program}:pair.name:w") == f"{of} pair.name has 16; watch a part of it: pair.name[0]"
    assert refusal(f"w:{program}:cells:w") == f"{of} cells has 32; watch a part of it: cells[0]"
    assert refusal(f"w:{program}:cells[4]:w") == "cells has 4 elements, the last is 3; None"
    assert refusal(f"w:{program}:pair.third:w").startswith("pair has no member third; ")
    assert refusal(f"w:{program}:counter.x:w") == "counter has no part .x; None"


def test_without_debug_information_a_symbol_has_its_size_and_no_parts() -> None:
    program = build("counters-nopie")
    assert site(f"w:{program}:counter:w").length == 4
    assert refusal(f"w:{program}:pair:w") == (
        "the processor watches 1, 2, 4 or 8 bytes, and pair has 32;"
        " watch a part of it by its address: watchpoint:ADDRESS:8:w"
    )
    assert refusal(f"w:{program}:pair.first:w") == (
        "there is no debug information of pair; watch it by its address: watchpoint:ADDRESS:LENGTH:w"
    )


def test_what_is_no_variable_is_refused() -> None:
    program = build("counters")
    called = f"uprobe:{program}:main sees its calls"
    assert refusal(f"w:{program}:main:w") == f"main is a function, and no variable; {called}"
    assert refusal(f"w:{program}:none:w").startswith("none is not in the symbol table of this file; ")
    assert refusal(f"w:{program}:counter:x") == (
        "counter is a variable, which is not executed; uprobe:FILE:FUNCTION sees calls"
    )
    assert refusal("w:*:counter:w") == "a watchpoint is in one file, and this is a pattern; name the file"


@pytest.mark.parametrize("name", ["counters", "counters-nopie"])
def test_the_address_in_a_process_is_where_it_has_loaded_the_file(name: str) -> None:
    program = build(name)
    with subprocess.Popen([program, "0", "0", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        address = address_in(site(f"w:{program}:counter:w"), process.pid)
        with open(f"/proc/{process.pid}/maps") as maps:
            start = int(next(line for line in maps if line.rstrip().endswith(str(program))).split("-")[0], 16)
        process.kill()
    assert address == addresses(program)["counter"] + (0 if name.endswith("nopie") else start)


@pytest.mark.parametrize("flags", [("-fpie", "-pie"), ("-fno-pie", "-no-pie"), ("-fPIC", "-pie")])
def test_a_variable_of_a_library_is_where_the_program_has_its_own_copy(flags: tuple[str, ...], tmp_path: Path) -> None:
    """With the last flags it has none, and uses the library's."""
    library, program = tmp_path / "shared.so", tmp_path / "uses"
    of_library = "struct { int first, second; } shared = {1, 2}; static int alone; int *own(void) { return &alone; }"
    of_program = """
        #include <stdio.h>
        extern struct { int first, second; } shared;
        int alone = 5;
        int *own(void);
        int main(void) { printf("%p %p\\n", &shared.second, own()); fflush(stdout); return getchar(); }
    """
    build_with = ["gcc", "-g", "-x", "c", "-"]
    subprocess.run([*build_with, "-shared", "-fPIC", "-o", library], input=of_library.encode(), check=True)
    command: list[str | Path] = [*build_with, *flags, "-x", "none", library, "-o", program]
    subprocess.run(command, input=of_program.encode(), check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        wanted = tuple(int(word, 16) for word in process.stdout.readline().split())
        for target in (Target((process.pid,)), Target(program=str(program))):
            text = f"w:{library}:shared.second:w, w:{library}:alone:w {{ @ = count(); }}"
            sites = plan(Source(text), target=target)[0].sites
            assert tuple(address_in(cast("Watched", site), process.pid) for site in sites) == wanted
        process.kill()
