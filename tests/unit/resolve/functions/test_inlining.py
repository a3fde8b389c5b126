"""Where functions were inlined, beside what the program's text says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracer.errors import TracerError
from tracer.resolve.binary import Binary
from tracer.resolve.functions.inlining import Inlined, at_places, inlined_by_name, inlined_of
from tracer.resolve.functions.lookup import not_found

HEADER = "static inline int shared(int x) { return x * 5 + 1; }\n"
FIRST = """
#include "shared.h"
static inline int small(int x) { return x * 3 + 1; }
int both(int x) { return x * 7 + 2; }
__attribute__((noinline)) int serve(int x) { return small(x) + both(x) + shared(x); }
__attribute__((noinline)) int other(int x) { return small(x + 1) * small(x + 2) + both(x * 2); }
__attribute__((noinline)) int alone(int x) { return x + 9; }
int more(int x);
int main(int c, char **v) { return serve(c) + other(c) + alone(c) + more(c); }
"""
SECOND = """
#include "shared.h"
__attribute__((noinline)) int more(int x) { return shared(x + 3); }
int apart(int x);
"""
FORMS = {
    "plain": ("-O2", "-g"),
    "dwarf-4": ("-O2", "-gdwarf-4"),
    "dwarf-3": ("-O2", "-gdwarf-3"),
    "lto": ("-O2", "-g", "-flto"),
    "split": ("-O2", "-g", "-gsplit-dwarf"),
    "types": ("-O2", "-g", "-fdebug-types-section"),
}


@pytest.fixture(scope="module", params=FORMS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("inlining")
    for name, text in ("shared.h", HEADER), ("first.c", FIRST), ("second.c", SECOND):
        (place / name).write_text(text)
    command = ["gcc", *FORMS[request.param], "-fno-ipa-icf", "-fno-ipa-cp", "-o", "program", "first.c", "second.c"]
    subprocess.run(command, check=True, cwd=place)
    return place / "program"


def test_the_places_are_those_of_the_text(program: Path) -> None:
    path = str(program)
    small = inlined_by_name(path, "small")
    assert small is not None and (small.places, sorted(small.callers)) == (3, ["other", "serve"])
    shared = inlined_by_name(path, "shared")
    assert shared is not None and (shared.places, sorted(shared.callers)) == (2, ["more", "serve"])
    assert inlined_by_name(path, "alone") is None
    assert inlined_by_name(path, "nothing") is None


def test_a_function_that_has_code_of_its_own_too(program: Path) -> None:
    binary = Binary(str(program))
    found = binary.symbols.named("both")
    if found:  # link-time optimisation leaves it out
        both = inlined_of(str(program), found[0].address)
        assert both is not None and (both.places, sorted(both.callers)) == (2, ["other", "serve"])
    (alone,) = binary.symbols.named("alone")
    assert inlined_of(str(program), alone.address) is None


def test_what_was_split_off_and_put_back_or_recurs_is_no_other_place(tmp_path: Path) -> None:
    """As in most wrappers of libm: whoever runs that place came by the start of the function."""
    text = """
    int put(int);
    int checked(int x) {
      if (__builtin_expect(x < 0, 0)) { put(1); put(x + 3); put(x - 8); put(x ^ 5); return put(x * x); }
      return x * 3;
    }
    extern int also(int) __attribute__((alias("checked")));
    int walk(int *p) { return p ? put(p[2]) + walk((int *)(long)p[0]) + walk((int *)(long)p[3]) : 0; }
    """
    (tmp_path / "wraps.c").write_text(text)
    (tmp_path / "main.c").write_text("int put(int x) { return x; } int main(void) { return 0; }")
    subprocess.run(["gcc", "-O2", "-g", "-o", "wraps", "wraps.c", "main.c"], check=True, cwd=tmp_path)
    path = tmp_path / "wraps"
    dump = ["readelf", "--debug-dump=info", str(path)]
    shown = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    assert shown.count("DW_TAG_inlined_subroutine") > 1
    for name in "checked", "walk":
        (function,) = Binary(str(path)).symbols.named(name)
        assert inlined_of(str(path), function.address) is None, name


def test_that_a_name_has_no_code_is_said_with_the_places(program: Path) -> None:
    error = not_found(Binary(str(program)), "shared")
    assert isinstance(error, TracerError)
    assert "no function 'shared' of its own: it was inlined at 2 places (in " in error.message
    assert error.hint is not None and error.hint.endswith(":FILE:LINE")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Inlined(1, ("main",)), "at 1 place (in main)"),
        (Inlined(2, ()), "at 2 places"),
        (Inlined(4, ("a", "b", "c")), "at 4 places (in a, b and c)"),
        (Inlined(9, ("a", "b", "c", "d")), "at 9 places (in a, b and 2 more)"),
        (Inlined(1, ("a\nb",)), "at 1 place (in a\\nb)"),
    ],
)
def test_the_words(found: Inlined, words: str) -> None:
    assert at_places(found) == words
