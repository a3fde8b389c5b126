"""The hits of tests/targets/mixer.c, and random programs over them with the answers that they must give."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tracer.results.values import Average, MapValue

_MASK = (1 << 64) - 1
TYPES = (8, -8, 16, -16, 32, -32, 64, -64)
"""Of the arguments: bits, negative for a signed one."""

Hit = tuple[int, ...]
"""The arguments as the language has them: extended by their sign, then unsigned 64 bits."""

_Value = tuple[str, Callable[[Hit], int], bool]
_Condition = tuple[str, Callable[[Hit], bool]]


def signed(value: int) -> int:
    """Unsigned 64 bits read as signed."""
    return value - (1 << 64) if value >> 63 else value


@dataclass
class _Numbers:
    state: int

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def some(self, type: int) -> int:
        which, value = self.next(), self.next()
        value = value if which % 4 == 0 else (value % 9 - 4) & _MASK
        bits = abs(type)
        value &= (1 << bits) - 1
        return (value - (1 << bits)) & _MASK if type < 0 and value >> (bits - 1) else value


def hits(seed: int, rounds: int) -> dict[str, list[Hit]]:
    """The hits of each probe, by what stands for it in a program."""
    numbers = _Numbers(seed)
    found: dict[str, list[Hit]] = {"usdt:{}:mixer:round": [], "usdt:{}:mixer:third": [], "uprobe:{}:wide": []}
    returned: list[Hit] = []
    for number in range(rounds):
        row = tuple(numbers.some(type) for type in TYPES)
        found["usdt:{}:mixer:round"].append(row)
        if number % 3 == 0:
            found["usdt:{}:mixer:third"].append(row[::-1])
        found["uprobe:{}:wide"].append((row[6], row[7], row[5]))
        returned.append(((row[6] * 3 + row[7] - row[5]) & _MASK,))
    return {**found, "uretprobe:{}:wide": returned}


ARGUMENTS = {
    "usdt:{}:mixer:round": TYPES,
    "usdt:{}:mixer:third": TYPES[::-1],
    "uprobe:{}:wide": (64, 64, 64),
    "uretprobe:{}:wide": (64,),
}
MAX_KEYS = 2048
"""Enough for all keys of 500 rounds, and so few that each of four clauses can be an lhist() by key."""


@dataclass
class Made:
    """A program, and what its maps hold after `run`."""

    text: str = f"config = {{ max_map_keys = {MAX_KEYS} }}\n"
    maps: dict[str, dict[tuple[int, ...], MapValue]] = field(default_factory=dict)

    def add(self, name: str, key: tuple[int, ...], change: Callable[[MapValue | None], MapValue]) -> None:
        table = self.maps.setdefault(name, {})
        table[key] = change(table.get(key))


def made(random: Random, path: str, all_hits: Mapping[str, list[Hit]]) -> Made:
    """A program of some clauses, each of which a hist trigger or a counter does. Maps of one kind are one map."""
    program = Made()
    for _ in range(random.randint(1, 4)):
        probe = random.choice(list(ARGUMENTS))
        types = ARGUMENTS[probe]
        condition = _condition(random, probe, types) if random.random() < 0.6 else None
        linear = random.random() < 0.3
        chosen = random.sample(range(len(types)), min(random.randint(0, 2 if linear else 3), len(types)))
        keys = [_value(random, probe, index) for index in chosen]
        if linear:
            statements = [_powers(random, probe) if random.random() < 0.5 else _linear(random, probe, keys)]
        else:
            statements = list(_others(random, probe, keys))
        where = f"/{condition[0]}/ " if condition else ""
        program.text += f"{probe.format(path)} {where}{{ {' '.join(text for text, _ in statements)} }}\n"
        for hit in all_hits[probe]:
            if condition is None or condition[1](hit):
                for _, run in statements:
                    run(program, hit)
    return program


def _value(random: Random, probe: str, index: int) -> _Value:
    name = "retval" if probe.startswith("uret") else f"arg{index}"
    if random.random() < 0.5:
        return f"(int64){name}", lambda hit: signed(hit[index]), True
    if ARGUMENTS[probe][index] < 0:
        return name, lambda hit: signed(hit[index]), True
    return name, lambda hit: hit[index], False


_Statement = tuple[str, Callable[[Made, Hit], None]]


def _others(random: Random, probe: str, keys: list[_Value]) -> Iterator[_Statement]:
    """One to three maps of the same keys; at most two values are summed."""
    key = _Key(keys)
    values = [_value(random, probe, random.randrange(len(ARGUMENTS[probe]))) for _ in range(2)]
    for function in random.sample(["count", "sum", "avg", "stats", "++", "+="], random.randint(1, 3)):
        text, of, sign = random.choice(values)
        name = f"@{_WORDS.get(function, function)}_{key.kind}{'i' if sign else 'u'}{key.text}"
        if function in ("count", "++"):
            statement, of, change = f"{name} = count();" if function == "count" else f"{name}++;", _one, _sum_of(True)
        elif function == "+=":
            statement, change = f"{name} += {text if sign else f'(int64){text}'};", _sum_of(True)
        elif function == "sum":
            statement, change = f"{name} = sum({text});", _sum_of(sign)
        else:
            statement, change = f"{name} = {function}({text});", _average_of(sign)
        yield statement, _adder(name, key, of, change)


_WORDS = {"++": "n", "+=": "m"}


def _one(hit: Hit) -> int:
    return 1


def _powers(random: Random, probe: str) -> _Statement:
    """A hist() without a key: by key its tables would be too large for four of them."""
    text, of, _ = _value(random, probe, random.randrange(len(ARGUMENTS[probe])))

    def bucket(hit: Hit) -> int:
        value = signed(of(hit))
        return 0 if value < 0 else value.bit_length() + 1

    return f"@powers = hist({text});", _adder("@powers", _Key([]), bucket, _bucketed)


def _bucketed(old: Any, new: int) -> dict[int, int]:
    held = dict(old or {})
    held[new] = held.get(new, 0) + 1
    return held


def _linear(random: Random, probe: str, keys: list[_Value]) -> _Statement:
    key = _Key(keys)
    step = random.choice([1, 2, 3, 10, 1000, 1 << 40])
    low = step * random.choice([0, 0, 1, 5, 200])
    high = low + step * random.randint(1, 12) + random.randrange(step)
    text, of, _ = _value(random, probe, random.randrange(len(ARGUMENTS[probe])))
    name = f"@h{low}_{high}_{step}_{key.kind}{key.text}"

    def bucket(hit: Hit) -> int:
        value = signed(of(hit))
        if value < low:
            return 0
        return (high - low) // step + 1 if value >= high else (value - low) // step + 1

    return f"{name} = lhist({text}, {low}, {high}, {step});", _adder(name, key, bucket, _bucketed)


class _Key:
    def __init__(self, parts: list[_Value]) -> None:
        self.text = f"[{', '.join(text for text, _, _ in parts)}]" if parts else ""
        self.kind = "".join("i" if sign else "u" for _, _, sign in parts)
        self.parts = [of for _, of, _ in parts]

    def of(self, hit: Hit) -> tuple[int, ...]:
        return tuple(of(hit) for of in self.parts)


_Change = Callable[[Any, int], MapValue]
"""From what a key holds, None for nothing, and the value of a hit to what it holds then."""


def _adder(name: str, key: _Key, of: Callable[[Hit], int], change: _Change) -> Callable[[Made, Hit], None]:
    table = name.partition("[")[0]
    return lambda program, hit: program.add(table, key.of(hit), lambda old: change(old, of(hit)))


def _sum_of(sign: bool) -> _Change:
    def change(old: Any, new: int) -> int:
        total = ((old or 0) + new) & _MASK
        return signed(total) if sign else total

    return change


def _average_of(sign: bool) -> _Change:
    add = _sum_of(sign)

    def change(old: Any, new: int) -> Average:
        held = old or Average(0, 0)
        total = add(held.total, new)
        assert isinstance(total, int)
        return Average(held.hits + 1, total)

    return change


def _condition(random: Random, probe: str, types: tuple[int, ...], depth: int = 2) -> _Condition:
    """A predicate that the kernel's filter takes whole."""
    kind = random.choice(["is", "is", "and", "or", "not"]) if depth else "is"
    if kind == "not":
        text, of = _condition(random, probe, types, depth - 1)
        return f"!({text})", lambda hit: not of(hit)
    if kind in ("and", "or"):
        one, other = (_condition(random, probe, types, depth - 1) for _ in range(2))
        if kind == "and":
            return f"({one[0]} && {other[0]})", lambda hit: one[1](hit) and other[1](hit)
        return f"({one[0]} || {other[0]})", lambda hit: one[1](hit) or other[1](hit)
    index = random.randrange(len(types))
    name = "retval" if probe.startswith("uret") else f"arg{index}"
    bits = abs(types[index])
    constant = random.choice([0, 1, 3, random.randrange(1 << min(bits - 1, 31))])
    symbol = random.choice(list(_COMPARE))
    if types[index] < 0:
        constant = random.choice([constant, -constant])
        compare = _COMPARE[symbol]
        return f"{name} {symbol} {constant}", lambda hit: compare(signed(hit[index]), constant)
    compare = _COMPARE[symbol]
    return f"{name} {symbol} {constant}", lambda hit: compare(hit[index], constant)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
