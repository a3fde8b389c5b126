"""Functions by the names that people write, on a program whose calls are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "Cart<int>::*",
            {"Cart<int>::add(int)": 100, "Cart<int>::print() const": 7, "Cart<int>::operator[](int)": 9},
        ),
        ("Cart<long>::add(long)", {"Cart<long>::add(long)": 3}),
        ("*(unsigned char)", {"Cart<unsigned char>::add(unsigned char)": 5}),
        ("void twice<int>(int)", {"void twice<int>(int)": 4}),
        ("twice<*>", {"void twice<int>(int)": 4, "void twice<char>(char)": 2}),
        ("(anonymous namespace)::hidden", {"(anonymous namespace)::hidden(int)": 6}),
        ("run(int)::{lambda(int)#1}::operator()", {"run(int)::{lambda(int)#1}::operator()(int) const": 8}),
        ("Cart<int>::operator[](int)", {"Cart<int>::operator[](int)": 9}),
        ("cut[abi:v2](char const*)", {"cut[abi:v2](char const*)": 10}),
        ('operator\\"\\" _kg', {'operator"" _kg(unsigned long long)': 11}),
    ],
)
@pytest.mark.parametrize("kind", ["uprobe", "uretprobe"])
def test_names_of_c_plus_plus_mean_the_functions(
    kind: str, name: str, expected: dict[str, int], backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("carts")
    program = f'{kind}:{path}:"{name}" {{ @[func] = count(); }}'
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(path))
    assert (done.status, maps(done)["@"]) == (0, expected), done.err
    listed = tracer("list", f'{kind}:{path}:"{name}"')
    assert (listed.status, len(listed.text.splitlines())) == (0, len(expected))
