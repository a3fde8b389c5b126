"""The parts of a page and of a picture: the script, the style, and the graphs as data that is nothing but data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tracer.render.stacks.flame.colours import PALETTE, WORDS, of_kind, place
from tracer.render.stacks.flame.tree import Tree
from tracer.render.stacks.profiles import KINDS, printable

ROW = 17
"""Pixels that a frame is high; the script has the same number, and the next."""
CHARACTER = 6.7
"""Pixels that a character is wide."""

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@cache
def part(name: str) -> str:
    """A file that lies beside this one."""
    return (Path(__file__).parent / name).read_text("utf-8")


def data(trees: Sequence[Tree]) -> str:
    """The graphs as JSON, in which no mark of HTML or XML is left."""
    document = {
        "palette": PALETTE,
        "kinds": [[WORDS[kind], of_kind(kind)] for kind in KINDS],
        "maps": [
            {
                "name": printable(tree.name),
                "unit": printable(tree.unit),
                "compared": tree.compared,
                "leftOut": tree.left_out,
                "names": [
                    [printable(name.text), KINDS.index(name.kind), place(name.text, name.kind), printable(name.path)]
                    for name in tree.names
                ],
                "depth": [row.depth for row in tree.rows],
                "frame": [row.name for row in tree.rows],
                "value": [row.value for row in tree.rows],
                "before": [row.before for row in tree.rows] if tree.compared else [],
            }
            for tree in trees
        ],
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return "".join([_ESCAPES.get(character, character) for character in text])


def escaped(text: str) -> str:
    """Text for HTML and XML, also between quotes."""
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(mark, entity)
    return printable(text)
