"""The numbers that a program hands to its probes are those that it knows of: of every size and sign, wherever the
compiler keeps them, and floating-point ones.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live import answers
from tests.targets.build import build

pytestmark = pytest.mark.live

BUILDS = ("numbers-O0", "numbers-O1", "numbers-O2", "numbers-nopie")
BACKENDS = ("bcc", "ftrace")


@cache
def own(name: str) -> tuple[dict[str, list[int]], list[str]]:
    """What the program says: sum, least, most and how many were below 0; and the lines of floating-point numbers."""
    said = subprocess.run([build(name)], check=True, capture_output=True, text=True).stdout.splitlines()
    words = [line.split(" ") for line in said]
    return (
        {first: list(map(int, rest)) for first, *rest in words if first not in ("real", "still")},
        [line for line in said if line.startswith(("real", "still"))],
    )


def answer(program: str, backend: str, path: Path) -> list[dict[str, object]]:
    """The lines of JSON, maps by name."""
    done = tracer("-q", "-f", "json", "--backend", backend, "-o", "/dev/stderr", "-e", program, "-c", str(path))
    assert done.status == 0, done.err
    return [json.loads(line) for line in done.err.splitlines()]


def maps(lines: list[dict[str, object]]) -> dict[str, int]:
    """The maps without keys; JSON has a number that is no double's as text."""
    found: dict[str, int] = {}
    for line in lines:
        data = line["data"]
        assert isinstance(data, dict)
        found |= {name: int(value) for name, value in data.items()}
    return found


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_integers_of_every_size_and_sign(name: str, backend: str) -> None:
    path, (known, _) = build(name), own(name)
    clauses = [f"usdt:{path}:numbers:mixed {{ @mixed_s = sum(arg0); @mixed_l = min(arg0); @mixed_m = max(arg0); }}"]
    clauses.append(f"usdt:{path}:numbers:mixed /arg0 < 0/ {{ @mixed_b = count(); }}")
    each = " ".join(f"@arg{n}_s = sum(arg{n}); @arg{n}_l = min(arg{n}); @arg{n}_m = max(arg{n});" for n in range(8))
    clauses.append(f"usdt:{path}:numbers:each {{ {each} }}")
    clauses += [f"usdt:{path}:numbers:each /arg{n} < 0/ {{ @arg{n}_b = count(); }}" for n in range(0, 8, 2)]
    wanted = {
        f"@{name}_{part}": value for name, values in known.items() for part, value in zip("slmb", values, strict=True)
    }
    found = maps(answer(" ".join(clauses), backend, path))
    assert found == {name: value for name, value in wanted.items() if name in found or value}


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_floating_point_numbers_are_shown(name: str, backend: str) -> None:
    path, (_, known) = build(name), own(name)
    program = (
        f'usdt:{path}:numbers:real {{ printf("real %.17g %.9g\\n", arg0, arg1); }}'
        f' usdt:{path}:numbers:still {{ printf("still %.17g %.9g\\n", arg0, arg1); }}'
    )
    assert [line["data"] for line in answer(program, backend, path)] == [f"{line}\n" for line in known]


@pytest.mark.parametrize("backend", BACKENDS)
def test_print_shows_the_shortest_number_that_is_the_same(backend: str) -> None:
    path = build("numbers-O2")
    program = f"usdt:{path}:numbers:real {{ print(arg1); print(arg0); }}"
    shown = [line["data"] for line in answer(program, backend, path)]
    reals = [0.0, -0.0, 0.1, 1 / 3, 1e300, 5e-324, 123456789.125, -1.0]
    assert shown[1:16:2] == reals and str(shown[3]) == "-0.0"
    assert shown[0:16:2] == [0.0, -0.0, 0.1, 0.33333334, "inf", 0.0, 123456790.0, -1.0]
    assert shown[16:] == ["nan", "nan", "-inf", "inf"]
    text = tracer("-q", "--backend", backend, "-o", "/dev/stderr", "-e", program, "-c", str(path)).err.splitlines()
    assert text[4:8] + text[16:20] == ["0.1", "0.1", "0.33333334", "0.3333333333333333", "nan", "nan", "-inf", "inf"]


USES = {
    "@ = sum(arg0);": "arg0",
    "@[arg1] = count();": "arg1",
    "@ = arg0;": "arg0",
    "$x = arg1 + 1;": "arg1",
    "if (arg0 > 1) { @ = count(); }": "arg0",
    "print((arg0, 1));": "arg0",
    "print((int64)arg0);": "arg0",
    "print(str(arg0));": "arg0",
    "@h = hist(arg1);": "arg1",
}


@pytest.mark.parametrize("use", USES)
def test_nothing_is_computed_with_floating_point_numbers(use: str) -> None:
    name = USES[use]
    program = f"usdt:{build('numbers-O2')}:numbers:real {{ {use} }}"
    done = tracer("-e", program)
    kind = "float64" if name == "arg0" else "float32"
    place = " " * program.index(name, program.index("{"))
    assert (done.status, done.err.splitlines()) == (2, [
        program,
        f"{place}^^^^ error: {name} is a {kind}, and a floating-point number can only be shown so far;"
        f' print({name}) and printf("%f", {name}) show it',
    ])  # fmt: skip


def test_conversions_fit_the_kind_of_number() -> None:
    probe = f"usdt:{build('numbers-O2')}:numbers:real"
    assert "'%d' cannot show a float64; use %f" in tracer("-e", f'{probe} {{ printf("%d", arg0); }}').err
    assert "'%f' cannot show an int64; use %d" in tracer("-e", f'{probe} {{ printf("%f", arg2); }}').err
    both = tracer("-e", f"{probe}, usdt:{build('numbers-O2')}:numbers:each {{ print(arg0); }}").err
    assert "error: arg0 is a float64 at " in both and "; write a clause for each of them" in both


def test_list_says_which_are_floating_point_numbers() -> None:
    path = build("numbers-O2")
    lines = tracer("list", "-v", f"usdt:{path}:numbers:real").text.splitlines()
    assert [line.strip() for line in lines[2:5]] == [
        "arg0: float of 8 bytes in rax", "arg1: float of 4 bytes in edx", "arg2: signed 4 bytes, always 7",
    ]  # fmt: skip
    listed = json.loads(tracer("list", "--json", f"usdt:{path}:numbers:real").text)
    assert [(arg["float"], arg["signed"]) for arg in listed["sites"][0]["args"]] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("high", ["feedface", "feedfacb", "feedfacc", "feedfac9"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_bcc_uses_for_maps_and_functions_are_the_users_too(high: str, backend: str) -> None:
    number = int(f"{high}00000003", 16)
    hit = (
        f"@n[1] = 1; for ($kv : @n) {{ @walked = max(0x{number:x}); }} @whole = max(0x{number:x});"
        f" @less = sum((int64)0x{number:x});"
    )
    program = f"let @n = hash(64); usdt:{build('depot')}:depot:parcel {{ {hit} }}"
    done = tracer("-q", "-f", "json", "--backend", backend, "-e", program, "-c", f"{build('depot')} 1")
    found = answers.maps(done)
    assert done.status == 0, done.err
    assert (int(found["@walked"]), int(found["@whole"]), int(found["@less"])) == (number, number, number - (1 << 64))
