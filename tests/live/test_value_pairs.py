"""Every pair of kinds of values as the parts of a key, of a map's value, of a tuple and of a printf, in every format.

A value of a kind is what it is wherever it stands: some are settled only when they are shown (stacks, symbols, users,
times), beside others that are not. The target's one hit has a value of each kind, and both backends show the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import pytest

from tests.harness.cli import Done, tracer
from tests.targets.build import build

pytestmark = pytest.mark.live

_AT_ONCE = 56
"""Maps of one program: the kernel takes 64 of BPF."""

_IN_A_CLAUSE = 10
"""Pairs of one clause: more can take more than the stack that BPF has. The functions of Python take most of that."""


@dataclass(frozen=True)
class Kind:
    """`text` is how a value is printed, None where print() of it alone tells; `json` what it is in JSON, None for the
    text. `in_key` is how it stands in a key of JSON, `folded` in a line of --stacks folded, where that differs from the
    text. `conversion` is how printf takes it, None where it does not.
    """

    expression: str
    text: str | None = None
    json: object = None
    in_key: str | None = None
    folded: str | None = None
    conversion: str | None = "%s"

    @property
    def is_stack(self) -> bool:
        return "stack" in self.expression


THING = "((struct thing *)arg0)"
PYTHON = Kind("ustack(python, 1)", "\n        inner+5\n")
EVERYWHERE = (
    Kind("7", "7", 7, conversion="%d"),
    Kind("(int8)arg1", "-3", -3, conversion="%d"),
    Kind("arg1 == -3", "true", True),
    Kind(f"str({THING}->name)", 'tea, "cup"'),
    Kind(f"(enum colour){THING}->colour", "BLUE", 6),
    Kind(f"{THING}->numbers", "[1,2,3]", [1, 2, 3], conversion=None),
    Kind(f"{THING}->at", "{ .x = 4, .y = -5 }", {"x": 4, "y": -5}, conversion=None),
    Kind(f"buf({THING}->name, 3)", "tea", [116, 101, 97], conversion="%r"),
    Kind(f"ntop({THING}->address)", "127.0.0.1"),
    Kind(f"macaddr({THING}->hardware)", "DE:AD:BE:EF:00:01"),
    Kind('strftime("%j %H", 0 * nsecs)'),
    Kind("func", "inner"),
    Kind('(1, "a")', "(1, a)", [1, "a"], "(1,a)", "1;a", None),
    Kind('(x=1, y="b")', "{ .x = 1, .y = b }", {"x": 1, "y": "b"}, "{.x=1,.y=b}", "1;b", None),
    Kind('usym(reg("ip"))', "inner"),
    Kind("ustack(2)", "\n        inner+5\n        outer+18\n"),
    Kind("ustack(perf, 1)"),
)
ON_BCC = (Kind("username", "root"), Kind("cgroup_path(cgroup)"))

Pair = tuple[Kind, Kind]


def _statements(number: int, pair: Pair) -> str:
    one, other = (kind.expression for kind in pair)
    if pair[0].is_stack or pair[1].is_stack:  # a value under such a key would have to be known at the hit
        kept = f"@k{number}[{one}, {other}] = count(); @v{number} = ({one}, {other});"
    else:
        kept = f"@k{number}[{one}, {other}] = ({other}, {one});"
    formats = [kind.conversion for kind in pair]
    printf = f'printf("{formats[0]}|{formats[1]}\\n", {one}, {other});' if None not in formats else ""
    return f"{kept} print(({one}, {other})); {printf}\n"


def _groups(pairs: list[Pair]) -> list[list[Pair]]:
    groups: list[list[Pair]] = [[]]
    size = 0
    for pair in pairs:
        maps = 1 + (pair[0].is_stack or pair[1].is_stack)
        if size + maps > _AT_ONCE:
            groups.append([])
            size = 0
        groups[-1].append(pair)
        size += maps
    return groups


def _run(backend: str, format: str, statements: Sequence[str], *options: str) -> Done:
    path = build("pairs")
    together = 3 if any("python" in each for each in statements) else _IN_A_CLAUSE
    clauses = (statements[at : at + together] for at in range(0, len(statements), together))
    program = "\n".join(f"usdt:{path}:pairs:hit {{\n{''.join(each)}}}" for each in clauses)
    return tracer(
        "-q", "--backend", backend, "-f", format, *options, "-e", program, "-c", str(path),
    )  # fmt: skip


def _texts(backend: str, kinds: Sequence[Kind]) -> dict[str, str]:
    """The text of each expression, from a print() of it alone where it is not written above."""
    unknown = [kind.expression for kind in kinds if kind.text is None]
    done = _run(backend, "json", [f"print({expression});\n" for expression in unknown])
    assert (done.status, done.err) == (0, "")
    shown = [json.loads(line)["data"] for line in done.out.splitlines()]
    return {
        **{kind.expression: kind.text for kind in kinds if kind.text is not None},
        **dict(zip(unknown, shown, strict=True)),
    }


def _expected_text(group: list[Pair], texts: dict[str, str]) -> tuple[str, dict[str, str]]:
    said, maps = "", {}
    for number, (one, other) in enumerate(group):
        a, b = texts[one.expression], texts[other.expression]
        said += f"({a}, {b})\n"
        if None not in (one.conversion, other.conversion):
            said += f"{a}|{b}\n"
        if one.is_stack or other.is_stack:
            maps[f"@k{number}"] = f"@k{number}[{a}, {b}]: 1\n"
            maps[f"@v{number}"] = f"@v{number}: ({a}, {b})\n"
        else:
            maps[f"@k{number}"] = f"@k{number}[{a}, {b}]: ({b}, {a})\n"
    return said, maps


def _expected_json(group: list[Pair], texts: dict[str, str]) -> tuple[list[object], dict[str, object]]:
    def value(kind: Kind) -> object:
        return texts[kind.expression] if kind.json is None else kind.json

    said: list[object] = []
    maps: dict[str, object] = {}
    for number, (one, other) in enumerate(group):
        said.append({"type": "value", "data": [value(one), value(other)]})
        a, b = texts[one.expression], texts[other.expression]
        if None not in (one.conversion, other.conversion):
            said.append({"type": "printf", "data": f"{a}|{b}\n"})
        key = f"{one.in_key or a},{other.in_key or b}"
        if one.is_stack or other.is_stack:
            maps[f"@k{number}"] = {key: 1}
            maps[f"@v{number}"] = [value(one), value(other)]
        else:
            maps[f"@k{number}"] = {key: [value(other), value(one)]}
    return said, maps


def _check(backend: str, format: str, pairs: list[Pair]) -> None:
    texts = _texts(backend, list({kind.expression: kind for pair in pairs for kind in pair}.values()))
    for group in _groups(pairs):
        done = _run(backend, format, [_statements(number, pair) for number, pair in enumerate(group)])
        assert (done.status, done.err) == (0, "")
        if format == "text":
            said, maps = _expected_text(group, texts)
            assert done.text == said + "".join(maps[name] for name in sorted(maps))
            continue
        lines = [json.loads(line) for line in done.out.splitlines()]
        shown = {name: value for line in lines if line["type"] == "map" for name, value in line["data"].items()}
        assert ([line for line in lines if line["type"] != "map"], shown) == _expected_json(group, texts)


@pytest.mark.parametrize("format", ["text", "json"])
def test_every_pair_of_kinds_is_shown_as_each_is_alone(backend: str, format: str, clean: None) -> None:
    kinds = (*EVERYWHERE, *ON_BCC) if backend == "bcc" else EVERYWHERE
    _check(backend, format, list(combinations_with_replacement(kinds, 2)))


@pytest.mark.parametrize("format", ["text", "json"])
def test_stacks_with_functions_of_python_stand_beside_every_kind(format: str, clean: None) -> None:
    _check("bcc", format, [(kind, PYTHON) for kind in (*EVERYWHERE, *ON_BCC, PYTHON)])


def test_folded_stacks_stand_beside_values_of_every_kind(backend: str, clean: None) -> None:
    kinds = [kind for kind in EVERYWHERE if not kind.is_stack]
    texts = _texts(backend, kinds)
    body = [f"@k{n:02}[{kind.expression}, ustack(2)] = count();\n" for n, kind in enumerate(kinds)]
    done = _run(backend, "text", body, "--stacks", "folded")
    assert (done.status, done.err) == (0, "")
    parts = [kind.folded or texts[kind.expression] for kind in kinds]
    assert done.text == "".join(f"@k{n:02};{part};outer;inner 1\n" for n, part in enumerate(parts))
