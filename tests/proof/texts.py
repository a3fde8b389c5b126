"""Random programs as text: structs, pointers, arrays, records, blocks, macros and functions as they are written.

Each is made twice: with its macros, its functions and its compound assignments, and with what they stand for in their
place, so that the passes before the typed program have a second opinion too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.contract.fuzz.expressions import Expressions
from tests.contract.fuzz.programs import assignments
from tests.contract.fuzz.statements import Statements
from tests.contract.fuzz.vocabulary import POINTERS, Dice, Kind, Map, Place
from tests.proof.declarations import Declarations
from tests.proof.world import REGISTERS
from tracer.dataclass import replace
from tracer.errors import ProgramError, Source
from tracer.kinds.site import ArgSpec, FileSite, Reg
from tracer.lang import features
from tracer.lang.analyse import analyse
from tracer.lang.syntax.parser import parse
from tracer.plan.lower import lower
from tracer.plan.model import Plan

TYPES = """
enum code { NONE, SOME = 7, MANY };
struct pair { int32_t a; uint8_t b; uint64_t c; };
struct bits { uint32_t low:3, high:13; int32_t sign:5; int16_t last; };
struct named { struct pair of; char name[5]; uint8_t bytes[4]; struct named *next; struct pair two[2]; };
union both { int64_t whole; uint8_t parts[8]; };
"""
_MEMBERS = {
    "pair": ("a", "b", "c"),
    "bits": ("low", "high", "sign", "last"),
    "named": ("of.a", "of.c", "bytes[1]", "bytes[INDEX]", "two[1].a", "two[INDEX].c", "name[2]", "next->of.b"),
    "both": ("whole", "parts[3]", "parts[INDEX]"),
}
_SIZED = ("struct pair", "struct bits", "struct named", "union both", "int16", "uint64", "struct named *")

MACROS = {
    "twice": (("x",), "x + x"),
    "least": (("x", "y"), "if (x < y) { x } else { y }"),
    "kept": (("x", "y"), "let $kept = x; $kept * y - $kept"),
    "chosen": (("x", "y"), "let $one = (int64)(x); let $other = (int64)(y); $one > 3 ? $one : $other"),
    "within": (("x",), "twice(x) & least(x, 100)"),
}
"""Name → parameters and body, as the language has them: a parameter stands for its whole expression."""
_I = "int64"
FUNCTIONS = {
    "larger": (
        ("$x", "$y"),
        "if ($x > $y) { return $x; } return $y;",
        "$x > $y ? $x : $y",
    ),
    "sort": (
        ("$x",),
        "if ($x < 0) { if ($x < -100) { return 1; } return 2; } else if ($x == 0) { return 3; }"
        " return 4 + larger($x, 9);",
        "$x < -100 ? 1 : $x < 0 ? 2 : $x == 0 ? 3 : 4 + ($x > 9 ? $x : 9)",
    ),
    "lowest": (
        ("$x",),
        "for ($i : 0..8) { if (($x >> $i) & 1) { return $i; } } return -1;",
        "$k = (int64)-1; for ($i : 0..8) { if (($x >> $i) & 1) { $k = $i; break; } } $k",
    ),
    "nested": (
        ("$x", "$y"),
        "for ($i : 0..3) { let $j = 0; while ($j < 3) { $j++; if ($i * $j == ($x & 7)) { return $i; } $y += $j; }"
        " $y--; } if ($y > 50) { $y -= 1; if ($y % 2) { return -3; } $y -= 3; } return $y;",
        "let $k = (int64)0; let $done = false; for ($i : 0..3) { let $j = 0; while ($j < 3) { $j++;"
        " if ($i * $j == ($x & 7)) { $k = $i; $done = true; break; } $y += $j; } if ($done) { break; } $y--; }"
        " $done ? $k : $y > 50 ? (($y - 1) % 2 ? -3 : $y - 4) : $y",
    ),
    "rounds": (
        ("$x",),
        "let $n = 0; unroll(3) { $n += $x & 3; if ($n > 4) { return $n * 10; } } return $n;",
        "let $n = ($x & 3); if ($n <= 4) { $n += ($x & 3); } if ($n <= 4) { $n += ($x & 3); } $n > 4 ? $n * 10 : $n",
    ),
}
"""Name → parameters, which are int64, body, and what a call stands for."""
_OPEN, _BETWEEN, _CLOSE = "«¦»"
"""A call of a macro or a function in a text that can still become either: «name¦argument¦argument»."""
_CHANGE = re.compile("⟪(.*?)‖(.*?)‖(.*?)⟫")
"""`target op= value` in such a text, which is also `target = target op value`: ⟪target‖op‖value⟫."""


class Changes(Statements):
    """Statements, with compound assignments that can be written either way."""

    def changed(self, target: str, op: str, value: str) -> str:
        if any(step in target + value for step in ("++", "--")):  # of the two ways one would step at another time
            return super().changed(target, op, value)
        return f"⟪{target}‖{op}‖{value}⟫;"


class Written(Expressions):
    """Expressions with what the typed generator has no words for."""

    def integer(self, depth: int) -> str:
        if depth <= 0 or self.dice.chance(70):
            return super().integer(depth)
        deeper = depth - 1
        match self.dice.randrange(10):
            case 0 | 1:
                return self.member(deeper)
            case 2:
                kind = self.dice.pick("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
                index = self.dice.pick("0", "1", "2", "(-1)", self.index(deeper))
                return self.dice.pick(
                    f"(({kind} *){self.pointer()})[{index}]", f"(*(({kind} *){self.pointer()} + {index}))"
                )
            case 3:
                whole, item, count = self.dice.choice(
                    (("uint32", "uint8", 4), ("uint64", "int16", 4), ("int64", "uint32", 2))
                )
                index = f"(uint64)({self.integer(deeper)}) % {count}"
                if self.dice.chance(20):
                    index = self.dice.pick(self.leaf(), f"({self.leaf()} & 7)")
                return f"(({item}[{count}])({whole})({self.integer(deeper)}))[{index}]"
            case 4:
                parts = [f"{name}={self.of('i', deeper)}" for name in "pqr"]
                return f"({', '.join(parts)}).{self.dice.pick('p', 'q', 'r')}"
            case 5:
                name = f"$b{self.dice.randrange(1000)}"
                start, op = self.of("i", deeper), self.dice.pick("+", "*")
                return f"({{ let {name} = {start}; {name}++; {name} {op} {name} }})"
            case 6:
                return f"(sizeof({self.dice.pick(*_SIZED)}) + {self.leaf()})"
            case 7:
                return f"(int64)({self.dice.pick('NONE', 'SOME', 'MANY', '(enum code)7')})"
            case 8:
                return self.call(MACROS, deeper)
            case _:
                return self.call(FUNCTIONS, deeper)

    def pointer(self) -> str:
        return self.dice.pick(*self.place.ints)

    def index(self, depth: int, count: int = 4) -> str:
        return f"((uint64)({self.integer(depth)}) % {count})"

    def member(self, depth: int) -> str:
        kind = self.dice.choice(list(_MEMBERS))
        word = "union" if kind == "both" else "struct"
        place = self.dice.choice(_MEMBERS[kind])
        count = 2 if "two[" in place else 4
        index = self.index(0, count) if self.dice.chance(80) else f"({self.leaf()} & {2 * count - 1})"
        place = place.replace("INDEX", index)
        base = f"(({word} {kind} *){self.pointer()})"
        shift = self.dice.pick("", "", f" + {self.dice.randrange(1, 3)}", " - 1")
        return f"({base}{shift})->{place}" if shift else f"{base}->{place}"

    def call(self, callees: Mapping[str, Sequence[object]], depth: int) -> str:
        name = self.dice.choice(list(callees))
        parameters = callees[name][0]
        assert isinstance(parameters, tuple)
        arguments = [self.of("i", depth) for _ in parameters]
        return f"(int64)({_OPEN}{_BETWEEN.join([name, *arguments])}{_CLOSE})"

    def text(self, depth: int) -> str:
        if depth > 0 and self.dice.chance(15):
            return f"((struct named *){self.pointer()})->name"
        return super().text(depth)

    def of(self, kind: Kind, depth: int) -> str:
        if isinstance(kind, tuple) and depth > 0 and self.dice.chance(15):
            name = f"$b{self.dice.randrange(1000)}"
            return f"({{ let {name} = {super().of(kind, depth - 1)}; {name} }})"
        return super().of(kind, depth)


@dataclass(frozen=True)
class Text:
    """A program as text and its two plans: of the text with its macros, and of the text without any."""

    text: str
    plan: Plan
    expanded: Plan


def make_text(rng: random.Random, points: list[int]) -> Text:
    """One that BCC takes."""
    while True:
        sites = Declarations(rng, points).places()
        if any(spec.is_float for site in sites for spec in site.args):
            continue
        if rng.random() < 0.7:  # addresses are whole
            pointers = tuple(ArgSpec("", 8, False, Reg(name)) for name in rng.sample(REGISTERS, 3))
            sites = tuple(replace(site, args=pointers) for site in sites)
        text = _written(Dice(rng.getrandbits(40)))
        try:
            whole = _plan(_with_macros(text), sites)
        except ProgramError:
            continue
        if not any(need.feature is features.KEYS_OF_CLEARED for need in whole.needs):
            return Text(_with_macros(text), whole, _plan(_expanded(text), sites))


def _written(dice: Dice) -> str:
    place = Place("uprobe:/bin/shop:sell", ("arg0", "arg1", "arg2"), dice.pick("arg0", "arg1", "arg2"))
    values = Written(dice, _maps(dice), [], place)
    statements = Changes(values)
    statements.budget = 12
    guard = f" /{values.boolean(2)}/" if dice.chance(25) else ""
    return f"{place.probe}{guard} {{ {statements.block(2, dice.randrange(1, 5))} {' '.join(assignments(statements))} }}"


def _maps(dice: Dice) -> list[Map]:
    made, values = [], Expressions(dice)
    for number in range(dice.randrange(1, 4)):
        plain = ("int64", "uint64", dice.choice(POINTERS), "s", "t")
        holds = dice.pick(*plain, "count", "sum", "avg", "max", "stats", "hist", "lhist")
        key: tuple[Kind, ...] = tuple(dice.pick("i", "i", "s", "b") for _ in range(dice.choice((0, 1, 1, 2))))
        types = tuple(dice.pick("int64", "uint64") if kind == "i" else "" for kind in key)
        size = dice.randrange(0, 6) if holds == "hist" else dice.randrange(1, 40)
        made.append(Map(f"@{holds[0]}{number}", key, types, holds, size, values.tuple_kind(1)))
    return made


def _with_macros(text: str) -> str:
    written = _CHANGE.sub(r"\1 \2= \3", text).replace(_OPEN, "").replace(_CLOSE, ")")
    for name in (*MACROS, *FUNCTIONS):
        written = written.replace(f"{name}{_BETWEEN}", f"{name}(")
    macros = " ".join(f"macro {name}({', '.join(names)}) {{ {body} }}" for name, (names, body) in MACROS.items())
    functions = " ".join(
        f"fn {name}({', '.join(f'{each}: {_I}' for each in names)}): {_I} {{ {body} }}"
        for name, (names, body, _) in FUNCTIONS.items()
    )
    return f"{TYPES}{macros} {functions} {written.replace(_BETWEEN, ', ')}"


def _expanded(text: str) -> str:
    """With plain assignments in place of the compound ones, and blocks in place of the calls; the innermost first."""
    text = _CHANGE.sub(r"\1 = \1 \2 (\3)", text)
    while _CLOSE in text:
        end = text.index(_CLOSE)
        start = text.rindex(_OPEN, 0, end)
        name, *arguments = text[start + 1 : end].split(_BETWEEN)
        text = f"{text[:start]}{_block(name, arguments)}{text[end + 1 :]}"
    return f"{TYPES}{text}"


_names = 0


def _block(name: str, arguments: list[str]) -> str:
    """What a macro or a function stands for; its own variables get names that nothing else has."""
    global _names
    _names += 1
    if name in FUNCTIONS:
        names, _, body = FUNCTIONS[name]
        lets = "".join(f"let {own}_{_names} = (int64)({each}); " for own, each in zip(names, arguments, strict=True))
        words = [f"{word}_{_names}" if word.startswith("$") else word for word in _words(body)]
        return f"({{ {lets}{''.join(words)} }})"
    names, body = MACROS[name]
    for own in ("$kept", "$one", "$other"):
        body = body.replace(own, f"{own}_{_names}")
    if name == "within":
        (x,) = arguments
        return f"({_block('twice', [x])} & {_block('least', [x, '100'])})"
    words = [f"({arguments[names.index(word)]})" if word in names else word for word in _words(body)]
    return f"({{ {''.join(words)} }})"


def _words(body: str) -> list[str]:
    """Names and what stands between them."""
    found = [""]
    for letter in body:
        in_word = letter.isalnum() or letter in "_$"
        if found[-1] and (found[-1][-1].isalnum() or found[-1][-1] in "_$") == in_word:
            found[-1] += letter
        else:
            found.append(letter)
    return found


def _plan(text: str, sites: tuple[FileSite, ...]) -> Plan:
    config = "config = { stack_unwind = fp } "
    tree = parse(Source(config + text))
    return lower(analyse(tree, {0: sites}, {}))
