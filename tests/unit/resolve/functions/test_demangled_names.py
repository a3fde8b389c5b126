"""Names as people write them, against binutils: what `nm -C` prints means the function that it stands at."""

from __future__ import annotations

import fnmatch
import os
import random
import re
import subprocess
from functools import cache

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.programs import NAMES_CC
from tracer.lang.syntax.attach import read
from tracer.resolve.binary import Binary
from tracer.resolve.functions.demangled_names import _SAID, needed_words, spellings, without_parameters
from tracer.resolve.functions.lookup import find_functions, is_demangled
from tracer.resolve.symbols.demangle import demangler

LIBSTDCXX = os.path.realpath("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
LIBJVM = "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so"
NODE = "/usr/bin/node"
LARGE = [each for each in (LIBSTDCXX, LIBJVM, NODE) if each != NODE or os.path.exists(NODE)]

Row = tuple[str, str, int]


@cache
def rows(path: str) -> list[Row]:
    """Of each function its name, the readable name and the address, as nm prints them, versions cut off."""
    flags = ["-D"] if path == LIBSTDCXX else []
    commands = [["nm", "-p", *flags, path], ["nm", "-p", "-C", *flags, path]]
    texts = [subprocess.run(each, capture_output=True, text=True, check=True).stdout.splitlines() for each in commands]
    functions = {(each.name, each.address) for each in Binary(path).symbols.functions}
    found = []
    for plain, readable in zip(*texts, strict=True):
        name = plain[19:].partition("@")[0]
        if plain[17] in "TtWw" and plain[:16].strip() and (name, int(plain[:16], 16)) in functions:
            found.append((name, readable[19:].partition("@")[0], int(plain[:16], 16)))
    return found


@cache
def binary(path: str) -> Binary:
    return Binary(path)


def found(path: str, pattern: str) -> set[int]:
    return {each.address for each in find_functions(binary(path), pattern)}


def bare_names(every: list[Row]) -> list[str]:
    """Without parameters and return types, by c++filt."""
    names = "\n".join(row[0] for row in every)
    return subprocess.run(["c++filt", "-p"], input=names, capture_output=True, text=True, check=True).stdout.split("\n")


@pytest.fixture(scope="module")
def names(build: Build) -> str:
    return str(build(NAMES_CC, "-O2", language="c++"))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("Cart<int>::add", {"Cart<int>::add(int)"}),
        ("Cart<int>::add(int)", {"Cart<int>::add(int)"}),
        ("Cart<*>::add", {"Cart<int>::add(int)", "Cart<long>::add(long)", "Cart<unsigned char>::add(unsigned char)"}),
        ("Cart<unsigned char>::p*", {"Cart<unsigned char>::print() const"}),
        ("*(unsigned char)", {"Cart<unsigned char>::Cart(unsigned char)", "Cart<unsigned char>::add(unsigned char)"}),
        ("void f<int>(int)", {"void f<int>(int)"}),
        ("f<int>(int)", {"void f<int>(int)"}),
        ("void f<int>", {"void f<int>(int)"}),
        ("f<int>", {"void f<int>(int)"}),
        ("f<i*", {"void f<int>(int)"}),
        ("num<*>", {"int num<3, true>()", "int num<-4, false>()"}),
        ("char Cart<int>::as<char>", {"char Cart<int>::as<char>(char)"}),
        ("plain", {"plain(char*)", "plain(char const*)"}),
        ("plain(char*)", {"plain(char*)"}),
        ("pla*", {"plain(char*)", "plain(char const*)"}),
        ("pla*(*)", {"plain(char*)", "plain(char const*)"}),
        ("sized(char const (&) [4])", {"sized(char const (&) [4])"}),
        ("*size?(char const (&) [4])", {"sized(char const (&) [4])"}),
        ("*size?(char const (&) [34])", set()),
        ("tagged[abi:v2]", {"tagged[abi:v2]()"}),
        ("tag*[abi:v2]()", {"tagged[abi:v2]()"}),
        ("(anonymous namespace)::hidden", {"(anonymous namespace)::hidden(int)"}),
        ("(anonymous namespace)::h*n", {"(anonymous namespace)::hidden(int)"}),
        ("Cart<int>::operator[]", {"Cart<int>::operator[](int)"}),
        ("Cart<int>::operator*", {"Cart<int>::operator*(int)"}),
        ("Cart<int>::operator()(int, int)", {"Cart<int>::operator()(int, int)"}),
        ("Cart<int>::operator()", {"Cart<int>::operator()(int, int)"}),
        ("Cart<int>::operator<(Cart<int> const&) const", {"Cart<int>::operator<(Cart<int> const&) const"}),
        (
            "Cart<int>::operator<< <*>",
            {"bool Cart<int>::operator<< <char>(char)", "bool Cart<int>::operator<< <int>(int)"},
        ),
        ("Cart<int>::operator int*", {"Cart<int>::operator int*()"}),
        ('operator"" _kg', {'operator"" _kg(unsigned long long)'}),
        ("main::{lambda(int)#1}::operator()(int) const", {"main::{lambda(int)#1}::operator()(int) const"}),
        ("main::{lambda(*)#1}::operator()", {"main::{lambda(int)#1}::operator()(int) const"}),
        ("Cart<int>::~Cart", {"Cart<int>::~Cart()"}),
        ("~Cart", set()),
        ("Both::turn", {"Both::turn()"}),
        ("non-virtual thunk to Both::turn", {"non-virtual thunk to Both::turn()"}),
        ("copied", {"copied(int, int) [clone .constprop.0]"}),
        ("split(int) [clone .cold]", {"split(int) [clone .cold]"}),
        ("split", {"split(int)"}),
        ("split*", {"split(int)"}),
        ("split*.cold]", {"split(int) [clone .cold]"}),
        ("pure_c", {"pure_c"}),
        ("pure_*", {"pure_c"}),
        ("Cart<int>::ad", set()),
    ],
)
def test_a_name_means_the_functions_that_nm_names_so(names: str, pattern: str, expected: set[str]) -> None:
    readable = {address: text for _, text, address in rows(names)}
    assert {readable[address] for address in found(names, pattern)} == expected


def test_every_name_that_nm_and_c_filt_print_is_found(names: str) -> None:
    every = rows(names)
    for (_, readable, _), bare in zip(every, bare_names(every), strict=False):
        assert found(names, readable) == {address for _, text, address in every if text == readable}, readable
        assert found(names, bare) >= found(names, readable) or ".cold" in readable, bare


def test_cpp_before_the_name_means_those_of_c_plus_plus_too(names: str) -> None:
    point, _ = read(f'uprobe:{names}:cpp:"*int*"', 0)
    assert point.cpp and point.name == "*int*"
    with_cpp = {each.address for each in find_functions(binary(names), "*int*", cpp=True)}
    assert with_cpp == {address for name, text, address in rows(names) if "int" in text and ".cold" not in name}
    assert found(names, "*int*") == {address for name, _, address in rows(names) if "int" in name} != with_cpp


@pytest.mark.parametrize("path", LARGE)
def test_patterns_made_of_the_names_match_what_nm_prints(path: str) -> None:
    every = [row for row in rows(path) if row[0].startswith("_Z") and "_GLOBAL__sub" not in row[0]]
    choose = random.Random(path)
    for number in range(12 if path == LIBSTDCXX else 4):  # the others take a second for each
        _, readable, _ = choose.choice(every)
        begin = choose.randrange(len(readable))
        end = choose.randrange(begin, len(readable)) + 1
        brackets = re.findall(r"<[^<>]*>|\([^()]*\)", readable)
        piece = choose.choice(brackets) if brackets and number % 2 else readable[begin : min(end, begin + 30)]
        pattern = f"*{piece}*" if number % 4 < 3 else f"*{readable[begin:]}*"
        if not is_demangled(pattern):
            pattern = f"*{piece}*(*"
        glob = re.sub(r"\[(?=\]|abi:|clone )|(?<= )\[(?=\d+\])", "[[]", pattern)
        matches = re.compile(fnmatch.translate(glob)).match
        expected = {address for name, text, address in every if matches(text) and ".cold" not in name}
        assert found(path, pattern) == expected, pattern
        exact = {address for _, text, address in every if text == readable}
        assert found(path, readable) == exact != set(), readable


@pytest.mark.parametrize("path", LARGE)
def test_the_test_before_demangling_passes_over_nothing(path: str) -> None:
    demangle, said = demangler(), set(_SAID.split())
    for name, readable, _ in rows(path)[:: 1 if path == LIBSTDCXX else 7]:
        assert (demangle(name) or name) == readable
        missing = [word for word in needed_words(readable) if word not in name]
        assert not missing or name[:2] != "_Z", (name, missing)
        for word in needed_words(f"*{readable[len(readable) // 3 : len(readable) // 3 + 9]}*"):
            assert word in name or name[:2] != "_Z", (name, word)
    assert "int" in said and "Cart" not in said


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("f()", "f"),
        ("ns::f(int, char*) const", "ns::f"),
        ("operator()(int)", "operator()"),
        ("f(void (*)(int))", "f"),
        ("plain", "plain"),
        ("odd)", "odd)"),
        ("f(int) [clone .isra.0]", "f"),
        ("(anonymous namespace)::f", "(anonymous namespace)::f"),
    ],
)
def test_parameters_are_cut_off_at_their_own_parenthesis(name: str, expected: str) -> None:
    assert without_parameters(name) == expected


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void f<int>(int)", "f<int>"),
        ("std::vector<int, char> const& ns::f<int>(int) const", "ns::f<int>"),
        ("bool std::operator< <char, int>(A<char> const&)", "std::operator< <char, int>"),
        ("A::operator unsigned long()", "A::operator unsigned long"),
        (
            "auto f(int) const::{lambda(auto:1)#1}::operator()<int>(int) const",
            "f(int) const::{lambda(auto:1)#1}::operator()<int>",
        ),
        ("operator new[](unsigned long)", "operator new[]"),
        ("non-virtual thunk to A::f()", "non-virtual thunk to A::f"),
        ("transaction clone for A::f()", "transaction clone for A::f"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
    ],
)
def test_return_types_are_told_from_names(name: str, bare: str) -> None:
    assert spellings(name)[3] == bare
