"""A flame graph as one picture. It is whole without its script, which zooms and searches where the picture is opened by
itself in a browser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer.render.stacks.flame.colours import PALETTE, WORDS, of_change, of_kind, place
from tracer.render.stacks.flame.parts import CHARACTER, ROW, data, escaped, part
from tracer.render.stacks.flame.tree import Row, Tree, trees
from tracer.render.stacks.profiles import KINDS, Page, Profile

_WIDTH = 1200
_MARGIN = 10
_HEAD = 44
_BETWEEN = 26
_FOOT = 44
_LEAST = 0.4
"""Pixels; what is narrower is not drawn. The script has the same number."""

_STYLE = (
    "text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#111}"
    ".head{font:600 15px system-ui,sans-serif}.tool{fill:#06c;cursor:pointer}g[tabindex]{cursor:pointer;outline:none}"
)


def document(profiles: Sequence[Profile], page: Page) -> bytes:
    """The picture, with all graphs below each other."""
    graphs = trees(profiles, page)
    return "".join(_pieces(graphs, page)).encode("utf-8", "backslashreplace")


def _pieces(graphs: Sequence[Tree], page: Page) -> Iterator[str]:
    inner = _WIDTH - 2 * _MARGIN
    tops, top = [], _HEAD
    for tree in graphs:
        top += _BETWEEN if len(graphs) > 1 else 0
        tops.append(top)
        top += _rows(tree) * ROW
    height = top + _FOOT
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">\n'
        f'<style>{_STYLE}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<text class="head" x="{_MARGIN}" y="24">{escaped(_cut(page.title or "Flame graph", 700))}</text>\n'
        f'<g id="tools" display="none"><text id="found" x="{_WIDTH - 330}" y="24"/>'
        f'<text id="reset" class="tool" x="{_WIDTH - 140}" y="24">Reset</text>'
        f'<text id="search" class="tool" x="{_WIDTH - 70}" y="24">Search</text></g>\n'
    )
    for number, (tree, top) in enumerate(zip(graphs, tops, strict=True)):
        if len(graphs) > 1:
            yield f'<text x="{_MARGIN}" y="{top - 8}">{escaped(tree.name)}</text>\n'
        yield f'<g id="chart{number}" transform="translate({_MARGIN} {top})" data-width="{inner}">\n'
        yield from _frames(tree, inner)
        yield "</g>\n"
    yield f'<text id="details" x="{_MARGIN}" y="{height - 26}"/>\n'
    yield from _legend(graphs, height - 8)
    yield f'<script type="application/json" id="data">{data(graphs)}</script>\n'
    yield f"<script><![CDATA[{part('flame.js')}]]></script>\n</svg>\n"


def _frames(tree: Tree, width: int) -> Iterator[str]:
    """The rows that can be seen."""
    whole = tree.rows[0].value
    scale = width / whole if whole else 0.0
    rows = _rows(tree)
    ends = [0.0] * (rows + 1)
    hidden = rows
    for row in tree.rows:
        start, wide = ends[row.depth], row.value * scale
        ends[row.depth], ends[row.depth + 1] = start + wide, start
        if row.depth > hidden:
            continue
        hidden = row.depth if wide < _LEAST else rows
        if wide >= _LEAST:
            yield _frame(tree, row, start, (rows - 1 - row.depth) * ROW, wide, whole)


def _frame(tree: Tree, row: Row, start: float, top: int, wide: float, whole: int) -> str:
    name = tree.names[row.name]
    fill = of_change(row.value, row.before) if tree.compared else PALETTE[place(name.text, name.kind)]
    about = f"{name.text} — {row.value:,} {tree.unit}, {100 * row.value / whole:.2f}%"
    if tree.compared:
        about += f", before {row.before:,} ({row.value - row.before:+,})"
    text = _cut(name.text, wide)
    label = f'<text x="{start + 3:.1f}" y="{top + 12}">{escaped(text)}</text>' if text else ""
    return (
        f'<g><title>{escaped(about)}</title><rect x="{start:.1f}" y="{top}" width="{max(wide - 0.5, 0.3):.1f}" '
        f'height="{ROW - 1}" rx="1" fill="{fill}"/>{label}</g>\n'
    )


def _legend(graphs: Sequence[Tree], top: int) -> Iterator[str]:
    if any(tree.compared for tree in graphs):
        yield f'<text x="{_MARGIN}" y="{top}">red: more than before; blue: less</text>\n'
        return
    seen = {name.kind for tree in graphs for name in tree.names[1:]}
    start: float = _MARGIN
    for kind in KINDS:
        if kind in seen:
            yield f'<rect x="{start:.0f}" y="{top - 10}" width="12" height="12" fill="{of_kind(kind)}"/>'
            yield f'<text x="{start + 16:.0f}" y="{top}">{WORDS[kind]}</text>\n'
            start += 16 + CHARACTER * len(WORDS[kind]) + 18


def _rows(tree: Tree) -> int:
    return 1 + max(row.depth for row in tree.rows)


def _cut(text: str, width: float) -> str:
    room = int((width - 6) / CHARACTER)
    return "" if room < 3 else text if len(text) <= room else f"{text[: room - 1]}…"
