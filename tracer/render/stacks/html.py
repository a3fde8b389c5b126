"""A flame graph as one page of HTML that works wherever it lies: nothing is loaded, and its own script alone runs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from tracer.render.stacks.flame.parts import data, escaped, part
from tracer.render.stacks.flame.tree import trees
from tracer.render.stacks.profiles import Page, Profile

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{style_hash}'; \
script-src '{script_hash}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<div class="tools">
<select id="map" aria-label="map" hidden></select>
<input id="search" type="search" placeholder="Search: a word or /expression/" aria-label="search">
<button id="reset" type="button" disabled>Reset zoom</button>
<label><input id="flip" type="checkbox"> root on top</label>
<label id="beside" hidden><input id="before" type="checkbox"> widths of before</label>
<span id="found" role="status"></span>
</div>
</header>
<main tabindex="-1"><svg id="chart" role="img" aria-label="flame graph"></svg>
<noscript>The graph is drawn by a script.</noscript></main>
<footer><p id="details"></p><p id="legend"></p><p id="note"></p></footer>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def document(profiles: Sequence[Profile], page: Page) -> bytes:
    """The page, with all graphs."""
    style, script = part("flame.css"), part("flame.js")
    return _PAGE.format(
        title=escaped(page.title or "Flame graph"), style=style, style_hash=_hash(style), script=script,
        script_hash=_hash(script), data=data(trees(profiles, page)),
    ).encode("utf-8", "backslashreplace")  # fmt: skip


def _hash(text: str) -> str:
    """The hash by which a browser knows what it may run."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
