"""Copies of a function that some of its callers call in its place, beside an attach point that names it exactly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracer.errors import Diagnostic, Source, TracerError
from tracer.kinds.site import Target
from tracer.lang.syntax.parser import parse
from tracer.resolve.binary import Binary
from tracer.resolve.sites.expand import expand

NAMES = (
    "mix", "mix.constprop.0.isra.0", "mix.part.0", "mix.constprop.0.cold", "remix", "remix.isra.3", "mixer",
    "split", "split.part.0", "gone.isra.0", "_ZN2ns1fEii",
    "_ZN2ns1fEii.constprop.0", "many", *(f"many.isra.{number}" for number in range(5)),
)  # fmt: skip
MIX = "some callers of mix call a copy that the compiler made of it (mix.constprop.0.isra.0): mix* means all"
MANY = "many.isra.0, many.isra.1, many.isra.2 and 2 more"

NS = (
    "some callers of ns::f(int, int) call a copy that the compiler made of it (_ZN2ns1fEii.constprop.0):"
    ' "ns::f(int, int)*" means all'
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With functions of these names, as GCC gives them."""
    here = tmp_path_factory.mktemp("copies")
    lines = [
        f'int f{at}(int) __asm__("{name}"); int f{at}(int x) {{ return x + {at}; }}' for at, name in enumerate(NAMES)
    ]
    (here / "copies.c").write_text("\n".join([*lines, "int main(void) { return 0; }"]))
    command = ["gcc", "-O1", "-fno-ipa-icf", "-o", "copies", "copies.c"]
    subprocess.run(command, check=True, cwd=here)
    return here / "copies"


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ("uprobe:{0}:mix", [MIX]),
        ("uretprobe:{0}:mix", [MIX]),
        ("uprobe:{0}:mix*", []),
        ("uprobe:{0}:mix, uprobe:{0}:mix.constprop.0.isra.0", []),
        ("uprobe:{0}:mix.*, uprobe:{0}:mix", []),
        ("uprobe:{0}:mix, uretprobe:{0}:mix*", [MIX]),
        ("uprobe:{0}:mix.constprop.0.isra.0", []),
        ('uprobe:{0}:"ns::f(int, int)"', [NS]),
        ('uprobe:{0}:"ns::f(int, int)", uprobe:{0}:"ns::f(int, int) *"', []),
        ('uprobe:{0}:"ns::f"', []),
        ('uprobe:{0}:"ns::*"', []),
        ('uprobe:{0}:"ns::f(int, int)*"', []),
        ("uprobe:{0}:mixer, uprobe:{0}:split", []),
        ("uprobe:{0}:remix", [MIX.replace("mix", "remix").replace("remix.constprop.0.isra.0", "remix.isra.3")]),
        (
            "uprobe:{0}:many",
            [f"some callers of many call a copy that the compiler made of it ({MANY}): many* means all"],
        ),
    ],
)
def test_that_calls_go_to_a_copy_is_said_each_time_unless_it_is_probed_too(
    program: Path, points: str, said: list[str]
) -> None:
    for _ in range(2):
        warnings: list[Diagnostic] = []
        expand(parse(Source(points.format(program) + " { @ = count(); }")), Target(), warnings=warnings)
        assert [each.message for each in warnings] == said
        assert all(each.lacking for each in warnings)


def test_a_function_of_which_copies_alone_are_left_is_explained(program: Path) -> None:
    with pytest.raises(TracerError, match=r"no function 'gone' of its own: the compiler made gone\.isra\.0 of it"):
        expand(parse(Source(f"uprobe:{program}:gone {{ @ = count(); }}")), Target())


def test_copies_are_those_of_exactly_that_name(program: Path) -> None:
    symbols = Binary(str(program)).symbols
    assert [each.name for each in symbols.copies("mix")] == ["mix.constprop.0.isra.0", "mix.part.0"]
    assert [each.name for each in symbols.copies("split")] == ["split.part.0"]
    assert symbols.copies("mixer") == symbols.copies("ix") == ()


PARTS = """
__attribute__((noinline, noipa)) void mark(int n) { (void)n; }
int big(int *p, int n) {
  if (!p) return 0;
  int s = 0;
  for (int i = 0; i < n; i++) { s += p[i] * i; s ^= i; if (s > 1000) { mark(s); s -= 1000; } mark(i); }
  mark(s);
  return s;
}
__attribute__((noinline)) int one(int *p) { return big(p, 3) + 1; }
__attribute__((noinline)) int two(int *p) { return big(p, 4) + 2; }
int main(void) { int x[5] = {1}; int (*volatile f)(int *, int) = big; return one(x) + two(0) + f(x, 2); }
"""


@pytest.mark.parametrize(("debug", "said"), [(True, True), (False, False)])
def test_that_callers_hold_the_beginning_of_a_function_is_said(debug: bool, said: bool, tmp_path: Path) -> None:
    (tmp_path / "parts.c").write_text(PARTS)
    flags = ["-O2", "--param", "max-inline-insns-auto=3", "--param", "max-inline-insns-small=0", *["-g"] * debug]
    subprocess.run(["gcc", *flags, "-o", "parts", "parts.c"], check=True, cwd=tmp_path)
    program = tmp_path / "parts"
    assert [each.name for each in Binary(str(program)).symbols.copies("big")] == ["big.part.0"]

    def warned(points: str) -> list[str]:
        warnings: list[Diagnostic] = []
        expand(parse(Source(points.format(program) + " { @ = count(); }")), Target(), warnings=warnings)
        return [each.message for each in warnings]

    found = warned("uprobe:{0}:big")
    assert len(found) == said
    for each in found:  # the compiler's order of the callers is its own
        assert each.replace("two and one", "one and two") == (
            "the beginning of big was inlined at 2 places (in one and two): calls there are no hits;"
            " those that go on call big.part.0; config = { inlined = true } counts them"
        )
    assert warned("uprobe:{0}:big*") == warned("uprobe:{0}:big, uprobe:{0}:big.part.0") == []
