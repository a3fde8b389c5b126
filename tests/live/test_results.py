"""`retval` with the type that debug information says, beside what the program prints of its results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer

NUMBERS = ("int", "long", "byte", "short", "unsigned", "bool", "color")
NODE = 'printf("node %d\\n", retval == 0 ? 0 : retval->next->v);'


@pytest.fixture
def path(place: Callable[[str], Path]) -> Path:
    return place("results")


def words(text: str) -> tuple[list[str], list[str]]:
    """What the program prints, and what the trace prints with `traced ` before it."""
    lines = text.splitlines()
    return (
        sorted(line for line in lines if re.match(r"[a-z]+ \S", line) and not line.startswith("traced")),
        sorted(line.removeprefix("traced ") for line in lines if line.startswith("traced")),
    )


@pytest.mark.parametrize("kind", ["call", "uretprobe"])
def test_results_are_those_that_the_program_prints(backend: str, path: Path, kind: str) -> None:
    """As a value, in a predicate, and at a pointer."""
    clauses = [f'{kind}:{path}:as_{name} {{ printf("traced {name} %s\\n", retval); }}' for name in NUMBERS]
    clauses = [text.replace("%s", "%ld" if "color" not in text else "%s") for text in clauses]
    clauses.append(f"{kind}:{path}:as_node {{ {NODE.replace('node', 'traced node', 1)} }}")
    signs = ("int", "long", "byte", "short")
    clauses += [f"{kind}:{path}:as_{name} /retval < 0/ {{ @less[func] = count(); }}" for name in signs]
    config = "config = { typed_retval = true }\n" if kind == "uretprobe" else ""
    done = tracer("-q", "--backend", backend, "-c", str(path), "-e", config + "\n".join(clauses))
    assert (done.status, done.said) == (0, "")
    own, traced = words(done.text)
    assert traced == [line for line in own if line.split()[0] in (*NUMBERS, "node")]
    less = Counter(line.split()[0] for line in own if line.split()[0] in signs and " -" in line)
    assert dict(re.findall(r"@less\[as_(\w+)\]: (\d+)", done.text)) == {name: str(n) for name, n in less.items()}


STRUCTS = """
call:{0}:as_pair {{ printf("traced pair %ld %d\\n", retval.a, retval.b); @whole[retval] = count(); }}
call:{0}:as_big {{ printf("traced big %ld %ld %d %d\\n", retval.a, retval.b, retval.c[0], retval.c[1]); }}
call:{0}:as_pair /retval.b < -1/ {{ @less[retval.b] = count(); }}
"""


def test_structs_have_their_members(backend: str, path: Path, tmp_path: Path) -> None:
    """In two registers, and in memory; of one that is half in a floating-point register what is not read is said."""
    of_trace = ("-q", "--backend", backend, "-c", str(path))
    done = tracer(*of_trace, "-e", STRUCTS.format(path))
    assert (done.status, done.said) == (0, "")
    own, traced = words(done.text)
    assert traced == [line for line in own if line.split()[0] in ("pair", "big")]
    assert "@less[-2]: 1" in done.text and "@whole[{ .a = 2, .b = -2 }]: 1" in done.text
    shown = tracer("args", f"{path}:as_big", *of_trace).text
    assert re.findall(r"\.retval = (\{.*\}), \.dur", shown) == [
        f"{{ .a = {n}, .b = {-n}, .c = [{n + 1},{n + 2}] }}" for n in range(3)
    ]
    assert tracer("args", f"{path}:as_mixed", *of_trace).text.count(".retval = ?, ") == 3
    said = tracer("count", f"{path}:as_mixed", "--by", "retval", *of_trace[1:]).said
    assert "warning: a part of struct mixed, which uretprobe:" in said and "floating-point register" in said
    flow = tmp_path / "flow"
    assert tracer("flow", f"{path}:main", *of_trace, "-o", str(flow)).status == 0
    results = re.findall(r"as_(pair|big|mixed|int)\(n=2\) = (.*?)  \d", flow.read_text())
    assert results == [("int", "0"), ("pair", "{ .a = 2, .b = -2 }"), ("mixed", "?"), ("big", "?")]


def test_commands_know_the_sign_of_results(backend: str, path: Path) -> None:
    of_trace = ("-q", "--backend", backend, "-c", str(path))
    counted = tracer("count", f"{path}:as_int", "--by", "retval", "--filter", "retval < 0", *of_trace).text
    assert re.findall("^@.*", counted, re.M) == ["@[-2]: 1", "@[-1]: 1"]
    traced = tracer("trace", f"{path}:as_short", "%d", "retval", "--filter", "retval < 0", *of_trace).text
    assert [line.split()[-1] for line in traced.splitlines() if "as_short" in line] == ["-2", "-1"]
    assert re.search(r"\(\.\.\., 0\) +2 ", tracer("hist", f"{path}:as_byte", "retval", *of_trace).text)


def test_an_untyped_result_says_which_cast_has_its_sign(backend: str, path: Path) -> None:
    mixed = f"call:{path}:as_int, call:{path}:as_long {{ @[retval] = count(); }}"
    program = f"{mixed} uretprobe:{path}:as_int /retval < 0/ {{ @none = count(); }}"
    said = tracer("--backend", backend, "-c", str(path), "-e", program).said
    assert "this is always false: retval is unsigned; write (int32)retval where it is an int, (int64)" in said
    assert f"warning: retval is int32 in call:{path}:as_int and int64 in call:{path}:as_long: here it is uint64" in said
