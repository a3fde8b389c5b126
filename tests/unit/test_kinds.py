"""What differs by kind of probe is asked of the kind's object: the code outside the kinds compares no kind's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tracer.kinds.registry import KINDS, KINDS_OF_SITES
from tracer.kinds.site import Site

ROOT = Path(__file__).parents[2]
HOMES = ("tracer/kinds/", "tracer/backends/bcc/attach/", "tracer/backends/ftrace/attach/")
"""Where a kind may know itself: its object, and its attacher in a backend."""

_SITES: list[type] = [Site, *Site.__subclasses__()]
SORTS = frozenset(each.__name__ for each in _SITES)

LEXERS = (
    "tracer/lang/syntax/", "tracer/lang/printing/formatted.py", "tracer/foreign/filter.py",
    "tracer/cli/questions/text.py",
)  # fmt: skip
"""Where a token has a kind too, and "end" is one."""

COMMANDS = "tracer/cli/arguments.py"
"""Where `uprobe` and `usdt` are commands."""

NAMES = frozenset((*KINDS, *KINDS_OF_SITES, *(kind.clause.name for kind in KINDS.values())))
OTHERS = frozenset(("end", "ret", "probe", "call", "self"))
"""Names that other things have too (instructions, built-ins): they count beside something named `kind`."""


def comparisons(source: str) -> Iterator[tuple[int, str]]:
    """Where a kind's name is compared, looked up or matched, or the sort of a site is asked by its class."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, comparators=others):
                parts = (left, *others)
                about = any(ast.unparse(part).endswith(("kind", "kinds")) for part in parts)
                texts = {name for part in parts for name in _names(part)}
                yield from ((node.lineno, name) for name in texts & (NAMES if about else NAMES - OTHERS))
            case ast.MatchValue(value=ast.Constant(value=str(name))) if name in NAMES - OTHERS:
                yield node.lineno, name
            case ast.Dict(keys=keys):
                yield from ((node.lineno, name) for key in keys if key for name in {*_names(key)} & (NAMES - OTHERS))
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
                names = {each.id for each in ast.walk(classes) if isinstance(each, ast.Name)}
                names |= {each.attr for each in ast.walk(classes) if isinstance(each, ast.Attribute)}
                yield from ((node.lineno, name) for name in names & SORTS)
            case ast.MatchClass(cls=ast.Name(id=str(name)) | ast.Attribute(attr=str(name))) if name in SORTS:
                yield node.lineno, name
            case ast.Call(func=ast.Attribute(attr="startswith" | "removeprefix"), args=[ast.Constant(value=str(text))]):
                yield from ((node.lineno, text) for name in NAMES if text.startswith(f"{name}:"))


def _names(part: ast.expr) -> Iterator[str]:
    match part:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for each in parts:
                yield from _names(each)
        case ast.Call(args=[inner]):
            yield from _names(inner)


def test_no_code_outside_the_kinds_compares_a_kind() -> None:
    found = [
        f"{name}:{line} compares '{what}'"
        for path in sorted((ROOT / "tracer").rglob("*.py"))
        if not (name := str(path.relative_to(ROOT))).startswith(HOMES)
        for line, what in comparisons(path.read_text())
        if (what != "end" or not name.startswith(LEXERS)) and (what not in ("uprobe", "usdt") or name != COMMANDS)
    ]
    assert found == []


def test_the_walk_sees_each_way_of_asking_for_a_kind() -> None:
    ways = (
        'site.kind == "usdt"',
        'kind != "interval"',
        'clause.kind in ("probe", "other")',
        '{"ret", "x"} <= kinds',
        'x = {"uprobe": 1}[site.kind]',
        'match kind:\n    case "uretprobe": pass',
        'site.probe.startswith("usdt:")',
        'isinstance(site, Site | Other)',
        'isinstance(site, (str, site.FileSite))',
        'match site:\n    case Clock(period_ns=1): pass',
    )
    assert [way for way in ways if not list(comparisons(way))] == []
    assert {"Site", "FileSite", "Clock"} <= SORTS
    assert list(comparisons('name == "probe" or self.text == "end" or replace(site, kind="usdt")')) == []
