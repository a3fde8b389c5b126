"""Sites and their arguments in every kind of build: where a compiler puts a value must not change the answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.depot import ITEMS, rounds, u
from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.targets.build import build

pytestmark = pytest.mark.live

BUILDS = ["depot", "depot-nopie", "depot-O0"]
R = rounds()
CELLS = {str(i): sum(r.cell for r in R if r.id % 16 == i) for i in range(16)}


def answer(backend: str, path: Path, clauses: str) -> dict[str, object]:
    done = tracer(
        "--backend", backend, "-f", "json", "-e", clauses.replace(":T:", f":{path}:"), "-c", f"'{path}' {len(R)}"
    )
    assert done.status == 0, done.err
    return maps(done)


@pytest.mark.parametrize("name", BUILDS)
def test_arguments_of_every_size_and_place(name: str, backend: str, clean: None) -> None:
    found = answer(
        backend,
        build(name),
        "usdt:T:depot:parcel { @w[str(arg1)] = sum(arg3); @d = sum((int32)arg4); }"
        " usdt:T:depot:widths { @u8 = sum(arg0); @s8 = sum((int64)arg1); @u16 = sum(arg2); @s16 = sum((int64)arg3);"
        " @u32 = sum(arg4); @s32 = sum((int64)arg5); @u64 = max(arg6); @s64 = min((int64)arg7); }"
        " usdt:T:depot:gauge { @gauge[arg0, (int64)arg1] = count(); }"
        " usdt:T:depot:fixed { @fixed[arg0, (int64)arg1, arg2, arg3] = count(); }"
        " usdt:T:depot:move { @move = count(); @from = sum((int64)arg0); @to = sum((int64)arg1); }"
        " usdt:T:depot:plain { @plain = sum(arg0); }",
    )
    names = ("@u8", "@s8", "@u16", "@s16", "@u32", "@s32")
    assert found == {
        "@w": {item: sum(r.weight for r in R if r.item == item) for item in ITEMS},
        "@d": sum(r.delta for r in R),
        **{name: sum(r.widths[index] for r in R) for index, name in enumerate(names)},
        "@u64": str(max(r.widths[6] for r in R)),
        "@s64": str(min(r.widths[7] for r in R)),
        "@gauge": {"80,-5": 1},
        "@fixed": {"7,-7,9223372036854775806,200": 1},
        "@move": 45,
        "@from": sum(r.id for r in R) - 4 + 80,
        "@to": sum(r.zone for r in R) + 4 * 7 - 5,
        "@plain": sum(r.id for r in R),
    }


@pytest.mark.parametrize("name", BUILDS)
def test_functions_of_every_build(name: str, backend: str, clean: None) -> None:
    found = answer(
        backend,
        build(name),
        "uprobe:T:price { @id = sum((int32)arg0); } uretprobe:T:price { @weight = sum(retval); }"
        " uprobe:T:weigh { @crate = *(int32 *)arg0; @owner = str(*(uint64 *)(arg0 + 8)); }"
        " uretprobe:T:fact { @fact = max(retval); } uprobe:T:landmark+2 { @mark = count(); }",
    )
    assert found == {
        "@id": sum(r.id for r in R),
        "@weight": sum(r.weight for r in R),
        "@crate": -1234,
        "@owner": "world",
        "@fact": 120,
        "@mark": 1,
    }


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("probe", ["cell", "row"])
def test_elements_of_arrays(probe: str, name: str, clean: None) -> None:
    # With -O2 the element is base + index * scale, or symbol + index * scale where the file is not PIE.
    found = answer("bcc", build(name), f"usdt:T:depot:{probe} {{ @[arg0] = sum((int64)arg1); }}")
    assert found == {"@": CELLS}


def test_elements_of_arrays_in_registers_through_ftrace(clean: None) -> None:
    # Without optimization the compiler loads them first; the same program that ftrace refuses elsewhere runs here.
    found = answer("ftrace", build("depot-O0"), "usdt:T:depot:cell { @[arg0] = sum((int64)arg1); }")
    assert found == {"@": CELLS}


def test_a_stripped_file_keeps_its_usdt_probes(backend: str, clean: None) -> None:
    found = answer(backend, build("depot-stripped"), "usdt:T:depot:parcel { @[func] = count(); @w = sum(arg3); }")
    assert found == {"@": {"": len(R)}, "@w": sum(r.weight for r in R)}


ODD_NAMES = ["with space", "with#hash", "with'quote", "ünïcode", "a$b;c", "back\\slash"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_paths_of_every_kind(
    name: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("depot").rename(tmp_path / name)
    program = f'usdt:"{path}":depot:plain {{ @ = count(); }} uprobe:"{path}":price {{ @p = count(); }}'
    if "\\" in name:
        program = program.replace("\\", "\\\\")
    done = tracer("--backend", backend, "-e", program, "-c", f"{shlex.quote(str(path))} 4")
    assert (done.status, done.text, done.err) == (0, "@: 4\n@p: 4\n", "Attached 2 probes\n")


def test_a_symbolic_link_is_followed(backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None) -> None:
    link = tmp_path / "link"
    link.symlink_to(place("depot"))
    done = tracer("--backend", backend, "-e", f"usdt:{link}:depot:plain {{ @[probe] = count(); }}", "-c", f"{link} 4")
    assert (done.status, done.text) == (0, f"@[usdt:{link}:depot:plain]: 4\n")


def test_a_program_is_found_on_the_path(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("depot")
    done = tracer(
        *("--backend", backend, "-e", "usdt:depot:depot:plain { @ = count(); }", "-c", "depot 4"),
        env={"PATH": f"{path.parent}:/usr/bin:/bin:/usr/sbin:/sbin"},
    )
    assert (done.status, done.text) == (0, "@: 4\n")


def test_what_is_listed_attaches(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("depot")
    usdt = tracer("list", f"usdt:{path}:*").text.splitlines()
    functions = tracer("list", f"uprobe:{path}:*").text.splitlines()
    assert f"usdt:{path}:depot:parcel" in usdt
    assert f"uprobe:{path}:price" in functions
    # crt code among the functions may not be traced; everything that is listed must be.
    program = ", ".join([*usdt, *functions]) + " { @[probe] = count(); }"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 4")
    assert done.status == 0, done.err
    assert json.loads(done.out.splitlines()[0])["count"] == len(usdt) + len(functions)
    found = maps(done)["@"]
    assert (found[f"usdt:{path}:depot:parcel"], found[f"uprobe:{path}:price"], found[f"uprobe:{path}:fact"]) == (
        4,
        4,
        5,
    )


def test_the_list_as_json_tells_where_everything_is(place: Callable[[str], Path]) -> None:
    path = place("depot")
    done = tracer("list", "--json", f"usdt:{path}:depot:*")
    probes = {probe["name"]: probe for probe in map(json.loads, done.text.splitlines())}
    assert set(probes["parcel"]) == {"probe", "kind", "path", "provider", "name", "sites"}
    assert (probes["parcel"]["probe"], probes["parcel"]["kind"]) == (f"usdt:{path}:depot:parcel", "usdt")
    assert len(probes["move"]["sites"]) == 3
    site = probes["parcel"]["sites"][0]
    assert set(site) == {"address", "offset", "semaphore", "args"}
    assert site["semaphore"].startswith("0x")
    assert probes["plain"]["sites"][0]["semaphore"] is None
    fixed = [(arg["text"], arg["size"], arg["signed"], arg["readable"]) for arg in probes["fixed"]["sites"][0]["args"]]
    assert fixed == [
        ("-4@$7", 4, True, True),
        ("-4@$-7", 4, True, True),
        ("-8@$9223372036854775806", 8, True, True),
        ("1@$-56", 1, False, True),
    ]
    assert u(-56, 8) == 200
