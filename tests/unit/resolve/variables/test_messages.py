"""What a program is told that reads variables by name: which cannot be read, why, and which places are left out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.targets.build import build
from tests.unit.resolve.variables.test_places import number
from tracer import pipeline
from tracer.errors import ProgramError, Source

TWO_CALLERS = """
static volatile int kept;
static inline __attribute__((always_inline)) void note(int what)
{
    kept = what;
}
__attribute__((noinline)) void one(int a) { int only = a * 2; note(a); kept = only; }
__attribute__((noinline)) void other(long b) { note((int)b); kept = 3; }
int main(int argc, char **argv) { one(argc); other(argc); return 0; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def told(program: str) -> list[tuple[str, str | None]]:
    with pytest.raises(ProgramError) as raised:
        pipeline.plan(Source(program))
    return [(each.message, each.hint) for each in raised.value.diagnostics if each.severity == "error"]


@pytest.mark.parametrize(
    ("mark", "read", "message", "hint"),
    [
        ("first", "vars.total", "vars.total (int) cannot be read: not yet there at variables.c:{first};"
         " readable from variables.c:{called}", None),
        ("first", "vars.totl", "no variable 'totl' is in scope here", "did you mean total?"),
        ("first", "args.total", "no parameter 'total' is in scope here", "there are it, n, c"),
        ("add", "vars.k.x", "an int32 has no members", None),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_with_the_nearest_line_where_it_can(
    mark: str, read: str, message: str, hint: str | None
) -> None:
    line = number(mark)
    (first, *_) = told(f"uprobe:{build('variables-O0')}:variables.c:{line} {{ print({read}); }}")
    assert first[0] == message.format(first=number("first"), called=number("called"))
    assert hint is None or first[1] == hint


def test_what_is_optimised_out_is_said_by_name() -> None:
    ((message, _),) = told(f"uprobe:{build('variables-O2')}:variables.c:{number('end')} {{ print(vars.total); }}")
    assert message.startswith(f"vars.total (int) cannot be read: optimised out at variables.c:{number('end')}")


@pytest.mark.parametrize(("where", "message"), [
    ("BEGIN", "vars is not known in BEGIN"),
    ("uretprobe:{}:price", "vars is not known when the function returns"),
])  # fmt: skip
def test_vars_is_of_places(where: str, message: str) -> None:
    assert told(f"{where.format(build('variables-O0'))} {{ print(vars.n); }}")[0][0] == message


def test_a_macro_of_that_name_wins() -> None:
    plan, _ = pipeline.plan(Source("macro vars() { 5 } BEGIN { print(vars()); }"))
    assert len(plan.user) == 1


def test_places_where_it_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text(TWO_CALLERS)
    subprocess.run(["gcc", "-g", "-O0", "-w", "-o", tmp_path / "two", tmp_path / "two.c"], check=True)
    plan, said = pipeline.plan(Source(f"uprobe:{tmp_path}/two:two.c:5 {{ @ = sum(vars.only); }}"))
    assert [(each.message, each.severity, each.lacking) for each in said] == [
        ("vars.only cannot be read at 1 of 2 places, which is left out: it is not in scope", "warning", True)
    ]
    assert [site.function for probe in plan.probes for site in probe.clause.sites] == ["one"]
    plan, said = pipeline.plan(Source(f"uprobe:{tmp_path}/two:two.c:5 {{ @ = sum(vars.what); }}"))
    assert said == []
    assert [site.function for probe in plan.probes for site in probe.clause.sites] == ["one", "other"]
    assert len(plan.probes) == 2  # they keep it in different places
