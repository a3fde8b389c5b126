"""Inlined copies: which have an entry, which are left out and why, and what is said of those that nobody asks for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.targets.build import build
from tracer.errors import ProgramError, Source
from tracer.kinds.site import Target
from tracer.pipeline import plan, probes
from tracer.resolve.binary import Binary
from tracer.resolve.functions.inlined_copies import copies_of

ON = "config = { inlined = true } "
TWICE = """static volatile long sink;
static inline __attribute__((always_inline)) long same(long n) { asm volatile("" ::: "memory"); return n * 0; }
static inline __attribute__((always_inline)) long skip(const char *s) { while (*s == ' ') s++; return *s; }
__attribute__((noinline)) long twice(long n) { return same(n) + same(n + 1) + (sink = n); }
__attribute__((noinline)) long spaces(const char *s) { return skip(s) + sink; }
int main(int argc, char **argv) { return twice(argc) + spaces(argv[0]); }
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("gcc").symlink_to(build("inlined"))
    Path("clang").symlink_to(build("inlined-clang"))


def planned(text: str) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Probe, function and place of the sites, and the warnings."""
    made, warnings = plan(Source(text))
    return [(site.probe, site.function, site.address) for site in made.places], [each.message for each in warnings]


def fault(text: str) -> tuple[str, str | None]:
    with pytest.raises(ProgramError) as caught:
        plan(Source(text))
    (error,) = (each for each in caught.value.diagnostics if each.severity == "error")
    return error.message, error.hint


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_a_function_means_its_copies_too_where_that_is_asked_for(name: str) -> None:
    copies = copies_of(Binary(name), lambda names: names)
    found, warnings = planned(f"{ON} uprobe:./{name}:both, uprobe:./{name}:nest {{ @[func] = count(); }}")
    own = {each.address for each in Binary(name).symbols.named("both")}
    assert {address for _, function, address in found if function == "both"} == own | {
        each.address for each in copies if each.name == "both"
    }
    assert {(probe, function) for probe, function, _ in found} == {
        (f"uprobe:./{name}:{each}", each) for each in ("both", "nest")
    }
    assert (len(found), warnings) == (4, [])
    assert [(each.name, each.caller) for each in copies if each.name in ("both", "nest")] in (
        [("both", "one"), ("nest", "two"), ("nest", "first")], [("nest", "first"), ("both", "one"), ("nest", "two")],
        [("both", "one"), ("nest", "first"), ("nest", "two")],
    )  # fmt: skip
    assert len(planned(f"uprobe:./{name}:both {{ @[func] = count(); }}")[0]) == 1
    listed, _ = probes(Source(f"{ON} uprobe:./{name}@inlined.c:le*, uprobe:./{name}@other.c:le* {{ }}"))
    assert [each.probe for each in listed] == [f"uprobe:./{name}@inlined.c:leaf"]
    assert len(listed[0].sites) == 3


def test_a_copy_that_is_entered_at_several_places_is_left_out_and_named() -> None:
    several = "round_of in rounds_of, line 68: it is entered at several places"
    assert fault(f"{ON} uprobe:./clang:round_of {{ }}") == (
        f"./clang: 'round_of' has no code of its own to probe: {several}", None
    )  # fmt: skip
    assert planned(f"{ON} uprobe:./clang:r*und* {{ @ = count(); }}")[1] == [
        f"1 of 1 inlined copies left out: {several}"
    ]


def test_a_name_of_c_means_no_copies_of_a_function_of_cpp(tmp_path: Path) -> None:
    Path("add.cc").write_text(
        "static volatile long sink;\n"
        "inline __attribute__((always_inline)) long add(int n) { sink += n; return n; }\n"
        'extern "C" __attribute__((noinline)) long mul(long n) { return n * sink; }\n'
        "inline __attribute__((always_inline)) long mul(int n) { sink *= n; return n; }\n"
        "int main(int argc, char **) { return add(argc) + mul(argc) + mul(2L); }\n"
    )
    subprocess.run(["g++", "-O1", "-g", "add.cc", "-o", "add"], check=True)
    for name, function in (("mul", "mul"), ("add", "add(int)"), ('"mul(int)"', "mul(int)")):
        assert [each[1] for each in planned(f"{ON} uprobe:./add:{name} {{ @[func] = count(); }}")[0]] == [function]


def test_copies_that_begin_together_and_those_that_begin_with_a_loop() -> None:
    Path("twice.c").write_text(TWICE)
    subprocess.run(["gcc", "-O1", "-g", "twice.c", "-o", "twice"], check=True)
    _, warnings = planned(f"{ON} uprobe:./twice:same {{ @ = count(); }}")
    assert warnings == [
        "1 inlined copy begins where another of the function does, so one hit is a call of each: same in twice, line 4"
    ]
    assert fault(f"{ON} uprobe:./twice:skip {{ @ = count(); }}")[0] in [
        f"./twice: 'skip' has no code of its own to probe: skip in spaces, line 5: {reason}"
        for reason in ("its beginning is the head of a loop", "it is entered at several places")
    ]


def test_what_a_copy_cannot_do_is_refused_by_name() -> None:
    assert fault(f"{ON} uretprobe:./gcc:both {{ @ = count(); }}") == (
        "./gcc: both was inlined at 1 place (in one), and an inlined copy does not return",
        "leave inlined = true out for the returns of its own code",
    )
    assert fault(f"{ON} uretprobe:./gcc:nest {{ @ = count(); }}") == (
        "./gcc: nest was inlined at 2 places (in two and first), and an inlined copy does not return",
        "probe the returns of a function that it was inlined into",
    )
    assert planned(f"{ON} uretprobe:./gcc:bot* {{ @ = count(); }}")[1] == [
        "inlined copies do not return, and are left out: those of both"
    ]
    assert fault(f"{ON} uprobe:./gcc:nest {{ @ = sum(arg0); }}") == (
        "arg0 cannot be read at uprobe:./gcc:nest: an inlined copy has no registers for arguments; args.NAME reads one"
        " where it is",
        None,
    )


def test_who_does_not_ask_for_copies_is_told_how() -> None:
    assert fault("uprobe:./gcc:nest { @ = count(); }") == (
        "./gcc: no function 'nest' of its own: it was inlined at 2 places (in first and two)",
        "config = { inlined = true } counts them; or probe one of them, or a line of its text: uprobe:./gcc:FILE:LINE",
    )
    assert fault("uretprobe:./gcc:nest { @ = count(); }")[1] == (
        "probe one of them, or a line of its text: uprobe:./gcc:FILE:LINE"
    )


def test_lines_of_a_function_that_has_no_code_of_its_own() -> None:
    listed, _ = probes(Source("uprobe:./gcc@inlined.c:leaf:* { }"), target=Target())
    assert {"11", "12", "13"} <= {each.name for each in listed} <= {"9", "11", "12", "13", "14", "15"}
