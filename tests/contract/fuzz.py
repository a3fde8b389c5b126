"""Random valid programs over the target `depot`, each a function of its seed.

Expressions are made by type: `Kind` is "i" (an integer of some width and sign), "b" (bool), "s" (string) or a tuple of
kinds. What is assigned is cast to the type its target has, so that nearly every program passes the analysis; the few
that do not are left out by `valid_program`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from tests.contract.depot import ROUNDS
from tests.contract.replay import Compile, replay
from tests.harness.cli import tracer
from tests.naive import Naive
from tests.targets.build import build
from tracer.errors import ProgramError, Source
from tracer.interp.compile import compile_clause
from tracer.interp.runtime import Compiled, Runtime
from tracer.lang.typed import Clause, Program
from tracer.pipeline import plan as plan_of
from tracer.plan.model import Variant

Kind = Union[str, tuple["Kind", ...]]  # noqa: UP007 - recursive

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ARITHMETIC = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    31,
    63,
    64,
    65,
    100,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
TEXTS = (
    "",
    "a",
    "bolts",
    "copper",
    "copper wire",
    "glue",
    "o",
    "0123456789",
    "eight8ch",
    "sevench",
    "x" * 63,
    "y" * 64,
    "abcdefghijklmnopqrstuvwxyz" * 3,
    "z" * 255,
    "w" * 256,
)
SIZES = (65, 72, 100, 128, 256, 257, 300, 1024)
"""Values of max_strlen around which keys change their table."""


@dataclass(frozen=True)
class Place:
    """A probe: how it is written, its integer arguments, and its argument that points to a string."""

    probe: str
    ints: tuple[str, ...]
    text: str | None = None
    guard: str | None = None
    bytes: int = 4

    @property
    def user(self) -> bool:
        """Whether it runs in user space, where any map may be read at any time."""
        return self.probe in ("BEGIN", "END")


NUMERALS = ("0", "1", "2", "3", "9", "255", "(-1)", "(-4)", "(-128)")
USER_PLACES = (Place("BEGIN", NUMERALS), Place("END", NUMERALS))
PLACES = (
    Place("usdt:T:depot:parcel", ("arg0", "arg2", "arg3", "arg4"), "arg1"),
    Place("usdt:T:depot:parcel", ("arg0", "arg2", "arg3", "arg4"), "arg1"),
    Place("usdt:T:depot:widths", tuple(f"arg{i}" for i in range(8))),
    Place("usdt:T:depot:move", ("arg0", "arg1")),
    Place("usdt:T:depot:label", ("arg0",), "arg1", "arg0 != 1", 0),
    Place("usdt:T:depot:label", ("arg0",), "arg1", "arg0 > 3 && arg0 != 5"),
    Place("usdt:T:depot:fixed", ("arg0", "arg1", "arg2", "arg3")),
    Place("usdt:T:depot:wide", tuple(f"arg{i}" for i in range(12))),
    Place("usdt:T:depot:gauge", ("arg0", "arg1")),
    Place("uprobe:T:six", ("arg0", "(int32)arg1", "(uint16)arg2", "(int8)arg3", "arg4", "(uint32)arg5")),
    Place("uprobe:T:price", ("(int32)arg0", "(uint32)arg1")),
    Place("uretprobe:T:price", ("retval",)),
    Place("uretprobe:T:sign_of", ("(int32)retval", "(uint8)retval")),
    Place("uretprobe:T:fact", ("retval",)),
)


@dataclass
class Map:
    """A map: the kinds of its key's parts with the types they are cast to, and what it holds. A `quiet` one is only
    added to by probes, with keys that are mostly bounded.
    """

    name: str
    key: tuple[Kind, ...]
    key_types: tuple[str, ...]
    holds: str  # "int64", "uint64", "s", "t", or an aggregation
    size: int = 64
    tuple: Kind = ()
    quiet: bool = False


@dataclass
class Fuzz:
    """The generator of one program."""

    random: random.Random
    depth: int = 4
    maps: list[Map] = field(default_factory=list)
    scopes: list[list[tuple[str, Kind, str]]] = field(default_factory=list)
    place: Place = PLACES[0]
    names: int = 0
    loops: int = 0
    budget: int = 0

    # --- choices

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def pick(self, *items: str) -> str:
        return self.random.choice(items)

    def name(self) -> str:
        self.names += 1
        return f"$v{self.names}"

    # --- expressions

    def integer(self, depth: int) -> str:
        """Any integer."""
        if depth <= 0 or self.chance(12):
            return self.leaf()
        deeper = depth - 1
        match self.random.randrange(20):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                return self.arithmetic(deeper)
            case 7 | 8 | 9:
                return f"({self.pick(*INTS)})({self.integer(deeper)})"
            case 10:
                return f"({self.pick('-', '~')}{self.integer(deeper)})"
            case 11 | 12:
                return f"({self.boolean(deeper)} ? {self.integer(deeper)} : {self.integer(deeper)})"
            case 13:
                return f"(int64)({self.boolean(deeper)})"
            case 14:
                return self.step() or self.leaf()
            case 15:
                return self.map_value(deeper, "i") or self.leaf()
            case 16:
                length = self.random.choice((0, 1, 3, 7, 8, 9, 15, 63))
                return self.pick(
                    f"strlen({self.text(deeper)})", f"strncmp({self.text(deeper)}, {self.text(deeper)}, {length})"
                )
            case 17 if self.readable():
                return f"len({self.random.choice(self.readable()).name})"
            case 18 if self.place.text and self.place.bytes:
                kind = self.pick("int8", "uint8", "int16", "uint16", "int32", "uint32")
                return f"*({kind} *)({self.place.text} + {self.random.randrange(2)})"
            case _:
                return self.arithmetic(deeper)

    def arithmetic(self, depth: int) -> str:
        op = self.random.choice(ARITHMETIC)
        left, right = self.integer(depth), self.integer(depth)
        if op in ("/", "%") and self.chance(60):
            right = f"({self.leaf()} - {self.random.choice((0, 1, 2, 3, 7))})"
        if op in ("<<", ">>") and self.chance(60):
            right = f"(({right}) % {self.random.choice((8, 31, 64, 70))})"
        return f"({left} {op} {right})"

    def leaf(self) -> str:
        found = [name for scope in self.scopes for name, kind, _ in scope if kind == "i"]
        if found and self.chance(40):
            return self.random.choice(found)
        if self.chance(55):
            return self.random.choice(self.place.ints)
        number = self.random.choice(NUMBERS)
        return f"{number}" if number < 2**63 or self.chance(50) else f"(uint64){number}"

    def step(self) -> str | None:
        """`$x++` and its kin, `@x[k]++`."""
        op = self.pick("++", "--")
        found = [name for scope in self.scopes for name, kind, type in scope if kind == "i" and type != "loop"]
        maps = [each for each in self.readable() if each.holds in ("int64", "uint64")]
        if maps and (self.chance(40) or not found):
            target = self.reference(self.random.choice(maps), 1)
        elif found:
            target = self.random.choice(found)
        else:
            return None
        return f"{target}{op}" if self.chance(50) else f"{op}{target}"

    def boolean(self, depth: int) -> str:
        """A condition."""
        if depth <= 0:
            return f"({self.leaf()} {self.random.choice(COMPARISONS)} {self.leaf()})"
        deeper = depth - 1
        match self.random.randrange(14):
            case 0 | 1 | 2 | 3:
                return f"({self.integer(deeper)} {self.random.choice(COMPARISONS)} {self.integer(deeper)})"
            case 4 | 5 | 6:
                return f"({self.boolean(deeper)} {self.pick('&&', '||')} {self.boolean(deeper)})"
            case 7:
                return f"(!{self.boolean(deeper)})"
            case 8:
                return f"(bool)({self.integer(deeper)})"
            case 9:
                return f"({self.text(deeper)} {self.pick('==', '!=')} {self.text(deeper)})"
            case 10:
                return f"strcontains({self.text(deeper)}, {self.text(0)})"
            case 11 if self.readable():
                each = self.random.choice(self.readable())
                if each.key:
                    return f"has_key({each.name}, {self.key(each, deeper)})"
                return f"({self.integer(deeper)} && {self.boolean(deeper)})"
            case 12:
                kind = self.tuple_kind(1)
                return f"({self.of(kind, deeper)} {self.pick('==', '!=')} {self.of(kind, deeper)})"
            case _:
                found = [name for scope in self.scopes for name, kind, _ in scope if kind == "b"]
                return self.random.choice(found) if found else f"({self.leaf()} && {self.leaf()})"

    def text(self, depth: int) -> str:
        """A string of any size."""
        found = [name for scope in self.scopes for name, kind, _ in scope if kind == "s"]
        match self.random.randrange(9):
            case 0 | 1 | 2 if self.place.text:
                offset = self.pick("", "", " + 1") if self.place.bytes else ""
                size = self.pick("", "", ", 1", ", 2", ", 8", ", 9", ", 16", ", 33", ", 64", ", 65", ", 100", ", 128")
                return f"str({self.place.text}{offset}{size})"
            case 3 | 4 if found:
                return self.random.choice(found)
            case 5 if depth > 0:
                return f"({self.boolean(depth - 1)} ? {self.text(depth - 1)} : {self.text(depth - 1)})"
            case 6 if depth > 0:
                return self.map_value(depth, "s") or '"none"'
            case 7 if not self.place.user:
                # The replay does not tell the functions apart into which `move` was inlined.
                return self.pick("comm", "probe", "probe" if "move" in self.place.probe else "func")
            case _:
                return f'"{self.random.choice(TEXTS)}"'

    def tuple_kind(self, depth: int) -> Kind:
        kinds: list[Kind] = []
        for _ in range(self.random.randrange(2, 4)):
            kinds.append(self.tuple_kind(depth - 1) if depth > 0 and self.chance(20) else self.pick("i", "i", "s", "b"))
        return tuple(kinds)

    def of(self, kind: Kind, depth: int) -> str:
        """An expression of a kind; integers in int64, so that tuples of one kind agree."""
        if kind == "i":
            return f"(int64)({self.integer(depth)})"
        if kind == "s":
            return self.text(depth)
        if kind == "b":
            return f"(bool)({self.boolean(depth)})"
        found = [name for scope in self.scopes for name, other, _ in scope if other == kind]
        if found and self.chance(50):
            return self.random.choice(found)
        if self.chance(15):
            return f"({self.boolean(depth - 1)} ? {self.of(kind, depth - 1)} : {self.of(kind, depth - 1)})"
        found_map = self.map_value(depth, kind) if self.chance(20) else None
        return found_map or f"({', '.join(self.of(item, depth - 1) for item in kind)})"

    # --- maps

    def readable(self) -> list[Map]:
        """The maps that may be read, or assigned, here."""
        return [each for each in self.maps if self.place.user or not each.quiet]

    def bounded(self, depth: int) -> str:
        """An integer of few values, for the eyes of `backends.bcc.dense` or not."""
        small = self.random.choice((1, 2, 3, 5, 7, 15, 100))
        if depth <= 0:
            return self.pick(f"{small}", f"(-{small})", f"({self.leaf()} & {small})", f"({self.leaf()} % {small})")
        match self.random.randrange(11):
            case 0 | 1:
                return f"(({self.integer(1)}) & {small})"
            case 2 | 3:
                return f"(({self.integer(1)}) % {small})"
            case 4:
                return f"(({self.bounded(depth - 1)}) {self.pick(*ARITHMETIC)} ({self.bounded(depth - 1)}))"
            case 5:
                return f"(({self.bounded(depth - 1)}) {self.pick('/', '>>', '%')} {small})"
            case 6:
                return f"(({self.bounded(depth - 1)}) {self.pick('+', '-', '*', '|', '^', '&')} {small})"
            case 7:
                return f"({self.boolean(1)} ? {self.bounded(depth - 1)} : {self.bounded(depth - 1)})"
            case 8:
                return f"({self.pick(*INTS)})({self.bounded(depth - 1)})"
            case 9:
                return f"(({self.pick('int8', 'uint8')})({self.leaf()}))"
            case _:
                return f"{self.random.choice(NUMBERS[:12])}"

    def choice_of_texts(self, depth: int) -> str:
        """One of a few texts that stand in the program."""
        if depth > 0 and self.chance(40):
            then, otherwise = self.choice_of_texts(depth - 1), self.choice_of_texts(depth - 1)
            return f"({self.boolean(1)} ? {then} : {otherwise})"
        return f'"{self.random.choice(TEXTS)}"'

    def key(self, each: Map, depth: int) -> str:
        parts = []
        for kind, type in zip(each.key, each.key_types, strict=True):
            if each.quiet and kind == "i" and self.chance(97):
                parts.append(f"({type})({self.bounded(2)})")
            elif each.quiet and kind == "s" and each.size % 3:
                parts.append(self.choice_of_texts(2))
            elif kind == "i":
                small = f"({self.integer(depth)}) % {self.random.choice((2, 3, 5, 10))}"
                parts.append(f"({type})({small})" if self.chance(80) else f"({type})({self.integer(depth)})")
            else:
                parts.append(self.of(kind, depth))
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def reference(self, each: Map, depth: int) -> str:
        return f"{each.name}[{self.key(each, depth)}]" if each.key else each.name

    def map_value(self, depth: int, kind: Kind) -> str | None:
        holds = {"i": ("int64", "uint64", "count", "sum", "min", "max", "avg", "stats"), "s": ("s",)}
        maps = [
            each
            for each in self.readable()
            if (each.holds in holds[kind] if isinstance(kind, str) else each.holds == "t" and each.tuple == kind)
        ]
        return self.reference(self.random.choice(maps), depth - 1) if maps else None

    def update(self) -> str:
        """A statement that changes a map."""
        each = self.random.choice(self.maps)
        target = self.reference(each, 2)
        if each.key and self.chance(6) and each in self.readable():
            return f"delete({each.name}, {self.key(each, 2)});"
        match each.holds:
            case "int64" | "uint64" if each not in self.readable():
                value = f"({each.holds})({self.integer(3)})"
                return f"{target}{self.pick('++', '++', '--', f' += {value}', f' -= {value}')};"
            case "int64" | "uint64":
                match self.random.randrange(4):
                    case 0:
                        return f"{target}{self.pick('++', '--')};"
                    case 1:
                        op = self.pick("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")
                        return f"{target} {op}= ({each.holds})({self.leaf()} + {self.integer(2)});"
                    case _:
                        return f"{target} = ({each.holds})({self.integer(3)});"
            case "s":
                return f"{target} = {self.text(2)};"
            case "t":
                return f"{target} = {self.of(each.tuple, 2)};"
            case "count":
                return f"{target} = count();"
            case "hist":
                return f"{target} = hist((int64)({self.integer(3)}), {each.size});"
            case "lhist":
                return f"{target} = lhist((int64)({self.integer(3)}), {-each.size}, {each.size * 3}, {each.size});"
            case function:
                sign = "int64" if each.size % 2 else "uint64"
                return f"{target} = {function}(({sign})({self.integer(3)}));"

    # --- statements

    def block(self, depth: int, count: int) -> str:
        self.scopes.append([])
        text = " ".join(self.statement(depth) for _ in range(count))
        self.scopes.pop()
        return text

    def statement(self, depth: int) -> str:
        self.budget -= 1
        match self.random.randrange(24):
            case 0 | 1 | 2 | 3:
                return self.declare()
            case 4 | 5 | 6:
                return self.set_variable()
            case 7 if depth > 0 and self.budget > 0:
                return f"if ({self.boolean(3)}) {{ {self.block(depth - 1, self.random.randrange(1, 4))} }}"
            case 8 if depth > 0 and self.budget > 0:
                then = self.block(depth - 1, self.random.randrange(1, 3))
                return f"if ({self.boolean(3)}) {{ {then} }} else {{ {self.block(depth - 1, 2)} }}"
            case 9 if depth > 0 and self.budget > 0 and self.loops < 2:
                return self.loop(depth)
            case 10 if depth > 0 and self.budget > 0:
                loops, self.loops = self.loops, 9
                text = f"unroll({self.random.randrange(1, 4)}) {{ {self.block(0, 2)} }}"
                self.loops = loops
                return text
            case 11 | 12 | 13 if self.loops == 0:
                return self.show()
            case 14:
                step = self.step()
                return f"{step};" if step else self.update()
            case 15 if self.chance(10):
                return "return;"
            case 16 if self.chance(60) and self.loops in (1, 2):
                return f"if ({self.boolean(2)}) {{ {self.pick('break', 'continue')}; }}"
            case _:
                return self.update()

    def declare(self) -> str:
        name = self.name()
        match self.random.randrange(8):
            case 0 | 1:
                text = f"{name} = {self.text(2)};"
                self.scopes[-1].append((name, "s", ""))
            case 2:
                kind = self.tuple_kind(1)
                text = f"{name} = {self.of(kind, 3)};"
                self.scopes[-1].append((name, kind, ""))
                self.items(name, kind)
            case 3:
                text = f"{name} = {self.of('b', 3)};"
                self.scopes[-1].append((name, "b", ""))
            case _:
                type = self.pick(*INTS, "int64", "uint64")
                text = f"{name} = ({type})({self.integer(3)});"
                self.scopes[-1].append((name, "i", type))
        return text

    def items(self, name: str, kind: Kind) -> None:
        for index, item in enumerate(kind):
            if isinstance(item, str):
                self.scopes[-1].append((f"{name}.{index}", item, "loop"))
            else:
                self.items(f"{name}.{index}", item)

    def set_variable(self) -> str:
        found = [each for scope in self.scopes for each in scope if each[2] != "loop"]
        if not found:
            return self.declare()
        name, kind, type = self.random.choice(found)
        if kind == "i":
            if self.chance(30):
                return f"{name} {self.random.choice(ARITHMETIC)}= ({type})({self.leaf()} * {self.integer(2)});"
            return f"{name} = ({type})({self.integer(3)});"
        return f"{name} = {self.of(kind, 3)};"

    def loop(self, depth: int) -> str:
        name = self.name()
        self.loops += 1
        self.scopes.append([(name, "i", "loop")])
        body = self.block(min(depth - 1, 1), self.random.randrange(1, 4))
        self.scopes.pop()
        self.loops -= 1
        count = self.random.randrange(0, 6)
        if self.chance(50):
            start = self.pick("0", "1", "-2", "(int64)(int8)arg0" if "arg0" in self.place.ints else "2")
            return f"for ({name} : {start}..{start} + {count}) {{ {body} }}"
        return f"{name} = (int64)0; while ({name} < {count}) {{ {name}++; {body} }}"

    def show(self) -> str:
        """print or printf."""
        match self.random.randrange(5):
            case 0:
                return f"print((int64)({self.integer(3)}));"  # print(@x) would be a snapshot, of some later moment
            case 1:
                return f"print((1, {self.of(self.tuple_kind(1), 3)}));"
            case 2:
                return f"print((2, {self.text(2)}));"
            case _:
                parts, values = [], []
                for _ in range(self.random.randrange(1, 6)):
                    flags = self.pick("", "", "-", "0", "+", " ", "#")
                    width = self.pick("", "", "1", "5", "20")
                    if self.chance(35):
                        parts.append(f"%{flags if flags == '-' else ''}{width}{self.pick('', '', '.3', '.0')}s")
                        values.append(self.text(2) if self.chance(80) else self.boolean(2))
                    elif self.chance(8):
                        parts.append("%%")
                    else:
                        length = self.pick("", "", "l", "ll", "h", "hh")
                        letter = self.pick("d", "d", "u", "x", "X", "o", "i", "p")
                        if letter == "p":
                            length = ""
                        parts.append(f"%{flags}{width}{length}{letter}")
                        values.append(self.integer(3) if self.chance(85) else self.boolean(2))
                return f'printf("{" ".join(parts)}\\n"{"".join(f", {value}" for value in values)});'

    # --- programs

    def make_maps(self) -> None:
        for number in range(self.random.randrange(4, 9)):
            holds = self.pick(
                "int64", "int64", "uint64", "s", "t", "count", "sum", "avg", "min", "max", "stats", "hist", "lhist"
            )
            key = tuple(
                self.tuple_kind(0) if self.chance(12) else self.pick("i", "i", "i", "s", "b")
                for _ in range(self.random.choice((0, 1, 1, 1, 2, 3)))
            )
            if len(key) == 1 and not isinstance(key[0], str):
                key = (*key, "i")
            types = tuple(self.pick("int64", "uint64") if kind == "i" else "" for kind in key)
            size = self.random.randrange(0, 6) if holds == "hist" else self.random.randrange(1, 40)
            quiet = holds not in ("s", "t") and self.chance(50)
            self.maps.append(Map(f"@{holds[0]}{number}", key, types, holds, size, self.tuple_kind(1), quiet))

    def clause(self, size: int) -> str:
        self.place = self.random.choice(PLACES)
        guard = self.place.guard
        if self.chance(45):
            condition = self.boolean(3)
            guard = f"{guard} && {condition}" if guard else condition
        self.budget = 3 * size
        body = self.block(3, size)
        return f"{self.place.probe}{f' /{guard}/' if guard else ''} {{ {body} }}"

    def user_clause(self, place: Place) -> str:
        """A BEGIN or END that uses the maps."""
        self.place = place
        parts = []
        maps = self.maps
        if place.probe == "BEGIN":
            # On bcc, probes cannot read what user space aggregates.
            self.maps = [each for each in maps if each.quiet or each.holds in ("int64", "uint64", "s", "t")]
        for _ in range(self.random.randrange(1, 8) if self.maps else 0):
            each = self.random.choice(self.maps)
            keyed = f"[{self.key(each, 1)}]" if each.key else ""
            match self.random.randrange(9):
                case 0:
                    parts.append(f"delete({each.name}{keyed});")
                case 1:
                    parts.append(f"{self.pick('clear', 'zero')}({each.name});")
                case 2:
                    parts.append(f"print({each.name}{self.pick('', ', 2', ', 3, 2')});")
                case 3:
                    parts.append(f"print(len({each.name}));")
                case 4 if each.key and each.holds not in ("hist", "lhist", "stats"):
                    parts.append(f"for ($kv : {each.name}) {{ print($kv); }}")
                case 5 if each.key:
                    parts.append(f"print(has_key({each.name}, {keyed[1:-1]}));")
                case _:
                    parts.append(self.update())
        self.maps = maps
        return f"{place.probe} {{ {' '.join(parts)} }}"

    def program(self, clauses: int, size: int) -> str:
        """A program of so many clauses of about so many statements."""
        self.make_maps()
        parts = [self.clause(size) for _ in range(clauses)]
        parts += [self.user_clause(place) for place in USER_PLACES if self.chance(50)]
        if self.chance(30):
            parts.insert(0, f"config = {{ max_strlen = {self.random.choice(SIZES)} }}")
        self.place = PLACES[0]
        # Every map is assigned somewhere, or reading it would be an error.
        maps = self.maps
        sets = []
        for self.maps in ([each] for each in maps):
            statement = self.update()
            while statement.startswith("delete"):
                statement = self.update()
            sets.append(statement)
        self.maps = maps
        if self.chance(25):
            sets.append(f"if (arg0 == {self.random.randrange(5, 40)}) {{ exit({self.random.randrange(4)}); }}")
        return " ".join([*parts, f"usdt:T:depot:parcel {{ {' '.join(sets)} }}"])


def program(seed: int, clauses: int = 5, size: int = 7) -> str:
    """The program of a seed; `T` stands for the path of the target."""
    return Fuzz(random.Random(seed)).program(clauses, size)


def valid_program(seed: int, clauses: int) -> str:
    """The first program from a seed on that passes the analysis."""
    for attempt in range(50):
        text = program(100 * seed + attempt, clauses)
        try:
            plan_of(Source(located(text)))
        except ProgramError:
            continue
        return text
    raise AssertionError("the generator makes no valid programs")


# --- comparing


@dataclass(frozen=True)
class Answer:
    """How a program ended on one leg: its output, its exit status, what it lost (cut strings as whether, not how many:
    where one string is written twice, one leg may read it once), and what else it said.
    """

    out: bytes
    status: int
    lost: tuple[tuple[str, int], ...]
    said: str = ""


_LOSSES = {
    "unreadable": re.compile(r"^tracer: (\d+) hits? left out: an argument or string could not be read there.*\n", re.M),
    "truncated": re.compile(r"^tracer: (\d+) strings? cut to .*\n", re.M),
    "loops": re.compile(r"^tracer: (\d+) loops? stopped at the limit .*\n", re.M),
}


def located(text: str) -> str:
    """A program with the target's path in place."""
    return text.replace(":T:", f":{build('depot')}:")


def replayed(text: str, compile: Compile) -> Answer:
    """The answer of the interpreter, or of the reference, to the hits by arithmetic."""
    answer = replay(located(text), "text", ROUNDS, compile)
    loss = answer.outcome.loss
    found = {"unreadable": loss.unreadable, "truncated": bool(loss.truncated), "loops": loss.loops}
    rest = "".join(f"{name} {getattr(loss, name)}" for name in ("events", "keys", "stacks") if getattr(loss, name))
    return Answer(answer.out, answer.outcome.code, tuple(found.items()), rest)


def traced(text: str, backend: str) -> Answer:
    """The answer of a backend, through the command line."""
    done = tracer("run", "--backend", backend, "-e", located(text), "-c", f"{build('depot')} {ROUNDS}")
    err, found = done.err, {}
    for name, pattern in _LOSSES.items():
        match = pattern.search(err)
        found[name] = int(match[1]) if match else 0
        err = pattern.sub("", err)
    found["truncated"] = bool(found["truncated"])
    # Warnings come before the line that counts the probes, complaints after it; a refusal has no such line.
    before, attached, rest = re.split(r"(?m)^(Attached \d+ probes?\n)", err) if "Attached" in err else (err, "", "")
    if not attached:
        rest = "".join(line for line in before.splitlines(True) if "error: " in line) or before[-2000:]
    return Answer(done.out, done.status, tuple(found.items()), rest)


def _walk(program: Program, clause: Clause, variant: Variant | None, runtime: Runtime) -> Compiled:
    return Naive(program, clause, runtime, variant)


def answers(text: str, legs: Sequence[str]) -> dict[str, Answer]:
    """The answers of some of `reference`, `interpreter`, `bcc` and `ftrace`.

    Raises `ProgramError` for an invalid program.
    """
    replays: dict[str, Compile] = {"reference": _walk, "interpreter": compile_clause}
    return {leg: replayed(text, replays[leg]) if leg in replays else traced(text, leg) for leg in legs}


TOO_MUCH = "this clause is too much for bcc: "
"""What bcc says of a clause that is too large for BPF: an answer too."""
