"""Calls that were inlined, with `inlined = true`: as many hits as the program counts, with what it was given."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.targets.build import build_rust

pytestmark = pytest.mark.live

ROUNDS = 30
ON = "config = { inlined = true }"


def counted(program: Path) -> dict[str, tuple[int, ...]]:
    """What the program says of each function: its calls, and the sum of what it was given."""
    text = subprocess.run([program, str(ROUNDS)], check=True, capture_output=True, text=True).stdout
    return {name: tuple(map(int, numbers)) for name, *numbers in map(str.split, text.splitlines())}


def stopped(program: Path, function: str) -> int:
    """How often gdb stops at a breakpoint on a function."""
    commands = ("set debuginfod enabled off", f"break {function}", "ignore 1 1000000", f"run {ROUNDS}", "info break")
    words = [word for each in commands for word in ("-ex", each)]
    done = subprocess.run(["gdb", "-q", "-nx", "-batch", *words, program], check=True, capture_output=True, text=True)
    (times,) = re.findall(r"already hit (\d+) times", done.stdout)
    return int(times)


@pytest.mark.parametrize("name", ["inlined", "inlined-clang"])
def test_a_function_and_its_copies_are_hit_as_often_as_it_is_called(
    backend: str, name: str, place: Callable[[str], Path], clean: None
) -> None:
    program = place(name)
    points = ", ".join(f"uprobe:{program}:{each}" for each in ("leaf", "nest", "both", "split"))
    text = f"{ON} {points} {{ @[func, probe] = count(); }}"
    text += f" uprobe:{program}:nest, uprobe:{program}:both, uprobe:{program}:split {{ @sums[func] = sum(args.n); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    known = counted(program)
    assert maps(done) == {
        "@": {f"{each},uprobe:{program}:{each}": known[each][0] for each in ("leaf", "nest", "both", "split")},
        "@sums": {each: known[each][1] for each in ("nest", "both", "split")},
    }, done.err
    assert {each: stopped(program, each) for each in ("leaf", "nest", "both")} == {
        each: known[each][0] for each in ("leaf", "nest", "both")
    }
    without = tracer("--backend", backend, "-f", "json", "-e", f"uprobe:{program}:both {{ @ = count(); }}",
                     "-c", f"{program} {ROUNDS}")  # fmt: skip
    assert maps(without) == {"@": ROUNDS // 5}


@pytest.mark.parametrize("name", ["inlined-cc", "inlined-cc-clang"])
def test_methods_and_templates_of_cpp_are_counted_in_their_copies(
    backend: str, name: str, place: Callable[[str], Path], clean: None
) -> None:
    program = place(name)
    text = f'{ON} uprobe:{program}:"shop::Cart::add" {{ @[func] = count(); @l[line] = count(); }}'
    text += f' uprobe:{program}:cpp:"*::mul<*" {{ @m = count(); }}'
    text += f' uprobe:{program}:"shop::Cart::add" {{ @n = count(); @s = sum(args.price); }}'
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    known, found = counted(program), maps(done)
    assert sum(found.pop("@l").values()) == known["add"][0]
    calls, prices = known["add"]
    if name == "inlined-cc-clang":
        # Of the price n + 7 it keeps nothing at that copy.
        assert "args.price cannot be read at 1 of 3 places, which is left out: optimised out" in done.err
        calls, prices = calls - ROUNDS // 2, prices - sum(n + 7 for n in range(1, ROUNDS, 2))
    assert found == {
        "@": {"shop::Cart::add(int)": known["add"][0]}, "@m": known["mul"][0], "@n": calls, "@s": prices
    }  # fmt: skip
    assert stopped(program, "shop::Cart::add") == known["add"][0]


def test_methods_of_rust_are_counted_in_their_copies(backend: str, clean: None) -> None:
    program = build_rust("inlined", "legacy", 2, 2)
    text = f'{ON} uprobe:{program}:"inlined::Cart::add" {{ @[func] = count(); @s = sum(args.price); }}'
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    known = counted(program)
    assert maps(done) == {"@": {"inlined::Cart::add": known["add"][0]}, "@s": known["add"][1]}, done.err


def test_stacks_name_the_copy_and_its_caller(backend: str, place: Callable[[str], Path], clean: None) -> None:
    program = place("inlined-clang")
    text = f"config = {{ inlined = true; show_debug_info = true }} uprobe:{program}:both {{ @[ustack(2)] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    frame = re.compile(r"(?:\[inlined\] )?[a-z]\w*(?=[+@])")
    found = {tuple(frame.findall(each)[:2]): count for each, count in maps(done)["@"].items()}
    assert found == {("[inlined] both", "one"): ROUNDS, ("both", "main"): ROUNDS // 5}
