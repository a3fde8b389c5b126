"""The kernel's event filter against our Python: one predicate over the same hits must give the same answer."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest

from tests.live.ftrace import compiled, compiled_c, finish, items, session
from tracer.backends.ftrace.program import FtraceProgram
from tracer.lang.types import INT64
from tracer.results.store import LocalMaps
from tracer.results.values import Key, MapValue
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Runtime
from tracer.steps.values import Argument, BuiltIn, Source
from tracer.steps.walk import leaves

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

# The edges of all widths; the second argument is a 32-bit signed one.
VALUES = [0, 1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1]
VALUES += [-(2**63), -(2**31), -1, -2, -5, -129]

SOURCE = """
#include <sys/sdt.h>

static const long values[] = {VALUES};
#define COUNT (sizeof values / sizeof *values)

__attribute__((noinline, noclone)) static void hit(long a, int b) { DTRACE_PROBE2(app, hit, a, b); }

int main(void) {
  for (unsigned i = 0; i < COUNT; i++)
    for (unsigned j = 0; j < COUNT; j++) hit(values[i], (int)values[j]);
  return 0;
}
""".replace("VALUES", ", ".join(f"(long){value & (1 << 64) - 1:#x}" for value in VALUES))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_c(tmp_path_factory.mktemp("filters") / "app", SOURCE)


def traced(text: str, app: Path) -> dict[Key, MapValue]:
    with session(text) as opened:
        subprocess.run([app], check=True)
        finish(opened)
        assert not opened.loss()
        return items(opened)


def computed(program: FtraceProgram) -> dict[Key, MapValue]:
    """The answer to the hits that the target makes, computed without a kernel."""
    typed = program.plan.program
    maps = LocalMaps(typed)
    clause = program.plan.probes[0].clause
    steps = program.plan.steps[clause.id]
    run = compile_clause(typed, clause, steps, None, Runtime(maps, lambda event: None))
    for first, second in product(VALUES, VALUES):
        arguments = [first, (second + 2**31) % 2**32 - 2**31]
        run(tuple(value_of(leaf.source, arguments) for leaf in leaves(steps)))
    return dict(maps.snapshot("@").items)


def value_of(source: Source, arguments: list[int]) -> object:
    if isinstance(source, Argument):
        value = arguments[source.index]
        return value if source.type == INT64 else value % 2**64
    assert source == BuiltIn("comm")
    return b"app"


@pytest.mark.parametrize("argument", ["arg0", "arg1", "(uint64)arg0", "(uint64)arg1"])
@pytest.mark.parametrize("operator", ["==", "!=", "<", ">="])
def test_comparisons(app: Path, argument: str, operator: str) -> None:
    filters = 0
    for constant in ("7", "2147483648", "-5"):
        text = f"usdt:{app}:app:hit /{argument} {operator} {constant}/ {{ @ = count(); }}"
        program = compiled(text)
        filters += sum(event.filter is not None for event in program.events)
        assert traced(text, app) == computed(program), text
    if operator in ("==", "!="):
        assert filters > 0, "nothing was left to the kernel"


@pytest.mark.parametrize(
    ("predicate", "pushed"),
    [
        ("(uint64)arg0 >= 9223372036854775808", False),
        ("arg0 == 18446744073709551615", True),
        ("arg0 == -1", True),
        ("arg0 > 9223372036854775807", True),
        ("(int64)arg0 == -9223372036854775808", True),
        ("arg0 >= -1", True),
        ("arg0 < -9223372036854775807", True),
        ("(int64)arg1 <= -2147483648", True),
        ("arg1 == 0xffffffff80000000", True),
        ("arg1 > 4294967295", False),
        ("arg0 & 9223372036854775808", False),
        ("!(arg0 & 5) && (arg1 & 2147483647) != 0", True),
        ("arg1 & 2147483648", False),
        ("(int32)arg0 < 0", True),
        ("(int32)arg0 >= 0 && (uint8)arg0 != 0", True),
        ("(int16)arg0 == 0 || (int8)arg1 < 0", True),
        ("(int32)arg1 < 0", True),
        ("(int32)arg0 > 0", False),
    ],
)
def test_constants_at_the_edges(app: Path, predicate: str, pushed: bool) -> None:
    text = f"usdt:{app}:app:hit /{predicate}/ {{ @ = count(); }}"
    program = compiled(text)
    assert (program.events[0].filter is not None) == pushed
    assert traced(text, app) == computed(program)


def test_clauses_with_different_predicates_at_one_place_each_see_their_own(app: Path) -> None:
    clauses = ["/arg0 == 7/ { @a = count(); }", "/arg1 == 7/ { @b = count(); }", "{ @c = count(); }"]
    text = " ".join(f"usdt:{app}:app:hit {clause}" for clause in clauses)
    # Each only counts, by a counter of its own.
    found = [event.filter and event.filter.text for event in compiled(text).events]
    assert found == ["f0 == 7", "f1 == 7", None]
    with session(text) as opened:
        subprocess.run([app], check=True)
        finish(opened)
        counts = [items(opened, name) for name in ("@a", "@b", "@c")]
    assert counts == [{(): len(VALUES)}, {(): len(VALUES)}, {(): len(VALUES) ** 2}]


def test_clauses_that_want_different_hits_share_a_filter(app: Path) -> None:
    predicates = ["arg0 == 7", "arg1 == 7 && arg0 < 300", "arg0 == 255 && arg0 > arg1", "arg1 == 7"]
    predicates += ['comm == "app" && (int64)arg1 == -5']
    text = " ".join(f"usdt:{app}:app:hit /{one}/ {{ @{'abcde'[i]} = count(); }}" for i, one in enumerate(predicates))
    (event,) = compiled(text).events
    assert event.filter is not None and event.filter.text.count("||") == 4
    alone = [traced(f"usdt:{app}:app:hit /{one}/ {{ @ = count(); }}", app) for one in predicates]
    with session(text) as opened:
        subprocess.run([app], check=True)
        finish(opened)
        assert [items(opened, f"@{name}") for name in "abcde"] == alone


@pytest.mark.parametrize(
    "predicate",
    [
        "arg0 == 7 || arg1 == 7",
        "(arg0 < 10 && arg1 != 0) || !(arg0 == 255)",
        "!(arg0 > 5) && arg1 == 1",
        "arg0 && !arg1",
        "arg0 > 100 && arg0 % 3 == 0 && arg1 == 2",
        'arg0 == 1 && comm == "app"',
        'comm == "app" && arg1 == -5',
        'comm != "app" || arg0 == 7',
        'comm == "ap*" || comm == "[a]pp" || comm == "appp" || comm == "a" || arg0 == 7',
        'arg0 > arg1 && strcontains(comm, "p") && arg0 == 7',
    ],
)
def test_combinations(app: Path, predicate: str) -> None:
    text = f"usdt:{app}:app:hit /{predicate}/ {{ @[arg0, arg1] = count(); }}"
    program = compiled(text)
    assert program.events[0].filter is not None, "nothing was left to the kernel"
    assert traced(text, app) == computed(program)


@pytest.mark.parametrize(("name", "hits"), [("app", len(VALUES) ** 2), ("ap", 0), ("appl", 0), ("ap*", 0), ("", 0)])
def test_a_name_is_compared_whole_where_the_kernel_counts(app: Path, name: str, hits: int) -> None:
    text = f'usdt:{app}:app:hit /comm == "{name}"/ {{ @ = count(); }}'
    (event,) = compiled(text).events
    assert (event.counts, event.filter and event.filter.text) == (("@",), f'COMM == "{name}"')
    assert traced(text, app) == ({(): hits} if hits else {})


def test_a_string_that_cannot_be_read_is_counted_though_the_predicate_is_about_it(app: Path) -> None:
    # The kernel's own comparison of strings would drop the hit, and nobody would know.
    text = f'usdt:{app}:app:hit /str(arg0) == "x" && arg0 == 7/ {{ @ = count(); }}'
    with session(text) as opened:
        subprocess.run([app], check=True)
        finish(opened)
        # Address 0 is "", everything else is unreadable.
        assert (items(opened), opened.loss().unreadable) == ({}, (len(VALUES) - 1) * len(VALUES))
