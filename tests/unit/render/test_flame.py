"""Flame graphs as page and picture, and what is read to make them, with names that were chosen to do harm."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from tracer.errors import TracerError
from tracer.render.stacks import document_of
from tracer.render.stacks.flame.colours import PALETTE, of_change, place
from tracer.render.stacks.flame.tree import trees
from tracer.render.stacks.profiles import KINDS, Frame, Page, Profile, Sample
from tracer.render.stacks.read import read

HOSTILE = (
    "</script><script>alert(1)</script>", "]]></script><svg onload=alert(2)>", "\"'><img src=x onerror=alert(3)>",
    "<!--", "&lt;b&gt;", "\u2028\u202e\x00\x1b[31m", "\udcff{title}{0}%s",
)  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


def profile(*entries: tuple[str, int], name: str = "@") -> Profile:
    """Of folded stacks."""
    samples = [Sample((), tuple(Frame(each) for each in stack.split(";")), value) for stack, value in entries]
    return Profile(name, "count", samples)


def hostile() -> tuple[list[Profile], Page]:
    frames = tuple(Frame(each, "library", each) for each in HOSTILE)
    return [Profile(each, each, [Sample((each,), frames, 3)]) for each in HOSTILE], Page(HOSTILE[0])


def data(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def test_a_tree_has_what_stacks_share_once() -> None:
    (tree,) = trees([profile(("main;tea", 3), ("main;cake;tea", 4), ("main", 1), ("idle", 0), ("less", -2))], Page())
    assert [(row.depth, tree.names[row.name].text, row.value) for row in tree.rows] == [
        (0, "all", 8), (1, "main", 8), (2, "cake", 4), (3, "tea", 4), (2, "tea", 3),
    ]  # fmt: skip
    assert tree.left_out == 2


def test_a_comparison_knows_both_values_and_what_is_gone() -> None:
    pair = [profile(("main;tea", 3), ("main;old", 1), name="@a"), profile(("main;tea", 5), ("main;new", 2), name="@b")]
    (tree,) = trees(pair, Page(compare=True))
    assert tree.name == "@b against @a"
    assert {tree.names[row.name].text: (row.value, row.before) for row in tree.rows} == {
        "all": (7, 4), "main": (7, 4), "tea": (5, 3), "new": (2, 0), "old": (0, 1),
    }  # fmt: skip
    assert (of_change(2, 0), of_change(0, 1), of_change(3, 3)) == ("#eb4646", "#4646eb", "#ebebeb")


def test_a_stack_of_any_depth_is_drawn() -> None:
    deep = [profile((";".join(["f"] * 20_000), 1))]
    assert len(data(document_of("html")(deep, Page()).decode())["maps"][0]["depth"]) == 20_001
    ElementTree.fromstring(document_of("svg")(deep, Page()))


def test_each_kind_has_colours_of_its_own() -> None:
    colours = {PALETTE[place(name, kind)] for kind in KINDS for name in map(str, range(99))}
    assert len(colours) == len(PALETTE) == 6 * len(KINDS)


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_names_never_become_marks_of_the_page() -> None:
    text = document_of("html")(*hostile()).decode()
    harmless = document_of("html")([profile(("main", 1))], Page("title")).decode()
    assert Tags(text).found == Tags(harmless).found
    maps = data(text)["maps"]
    assert [each["name"] for each in maps[:5]] == list(HOSTILE[:5])
    assert maps[5]["name"] == "\\u2028\\u202e\\x00\\x1b[31m"
    assert Tags(text).texts.count(HOSTILE[0]) == 2  # title and heading


def test_a_page_loads_nothing_and_runs_its_own_script_alone() -> None:
    text = document_of("html")([profile(("main", 1))], Page()).decode()
    assert "default-src 'none'; style-src 'sha256-" in text and "unsafe" not in text
    assert re.findall(r"(?:https?:)?//[a-z][^\"' ]*", text) == ["http://www.w3.org/2000/svg"]


def test_a_picture_is_xml_with_nothing_but_shapes_whatever_the_names() -> None:
    root = ElementTree.fromstring(document_of("svg")(*hostile()))
    tags = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert tags == {"svg", "style", "rect", "text", "g", "title", "script"}
    allowed = {
        *("viewBox", "width", "height", "fill", "x", "y", "rx", "id", "class", "display", "transform", "data-width"),
        "type",
    }
    assert {name for each in root.iter() for name in each.attrib} <= allowed
    titles = {each.text for each in root.iter(f"{SVG}title")}
    assert f"{HOSTILE[0]} — 3 {HOSTILE[1]}, 100.00%" in titles


def test_a_picture_shows_each_frame_at_its_place() -> None:
    root = ElementTree.fromstring(document_of("svg")([profile(("main;tea", 3), ("main;cake", 1))], Page()))
    boxes = {
        (group.findtext(f"{SVG}title") or "").partition(" ")[0]: [
            float(rect.get(name, "0")) for rect in group.iter(f"{SVG}rect") for name in ("x", "y", "width")
        ]
        for group in root.iter(f"{SVG}g") if group.get("id") is None
    }  # fmt: skip
    assert boxes == {"all": [0, 34, 1179.5], "main": [0, 17, 1179.5], "cake": [0, 0, 294.5], "tea": [295, 0, 884.5]}


def test_folded_stacks_are_read_with_their_marks_and_maps() -> None:
    lines = b"# from elsewhere\nmain;a b;do_sys_[k] 12\n\nmain;Lx;::y_[j] 3.5\nx.py:f:1;[libc.so.6+0x12] 1\n"
    (found,) = read(lines, "f")
    assert [(sample.value, [(each.name, each.kind) for each in sample.frames]) for sample in found.samples] == [
        (12, [("main", "other"), ("a b", "other"), ("do_sys", "kernel")]),
        (3, [("main", "other"), ("Lx", "other"), ("::y", "jit")]),
        (1, [("x.py:f:1", "python"), ("[libc.so.6+0x12]", "library")]),
    ]  # fmt: skip
    maps = read(b"@a;main 1\n@b;main;tea 2\n", "f")
    assert [(each.name, len(each.samples)) for each in maps] == [("@a", 1), ("@b", 1)]


def test_json_is_read_in_every_mode_of_stacks() -> None:
    lines = [
        {"type": "map", "data": {"@": {"ls,\n        malloc+0\n        main+4\n,7": 5, "ls,\n,7": "9007199254740993"}}},
        {"type": "map", "data": {"@p": {"\n\t7f00 malloc+0 (/lib/libc.so.6)\n\t5500 0x5500 (/bin/ls)\n": 2}}},
        {"type": "map", "data": {"@r": {"\n7f00\n5500\n": 2}, "@n": {"3": 1}, "@c": 9}},
        {"type": "map", "data": {"@v": {"8": "\n        tea+1\n        main+2\n"}}},
        {"type": "map", "data": {"@": {"\n        [inlined] tea@a.c:7\n        main+4@a.c:12\n": 5}}},
        {"type": "map", "data": {"@i": {"\n\t55 tea (inlined)\n\t55 main+4 (/bin/ls)\n": 5}}},
        {"type": "printf", "data": "x"}, {"type": "hist", "data": {"@h": []}}, [1],
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines)) + "\nwhat the program printed\n{\n"
    found = read(text.encode(), "saved")
    assert [
        (each.name, [(sample.labels, [frame.name for frame in sample.frames], sample.value) for sample in each.samples])
        for each in found
    ] == [
        ("@", [(("ls", "7"), ["main", "malloc"], 5), (("ls", "7"), ["[no stack]"], 9007199254740993)]),
        ("@p", [((), ["0x5500", "malloc"], 2)]),
        ("@r", [((), ["5500", "7f00"], 2)]),
        ("@v", [(("8",), ["main", "tea"], 1)]),
        ("@ (2)", [((), ["main", "tea"], 5)]),
        ("@i", [((), ["main", "tea"], 5)]),
    ]
    assert [frame.kind for frame in found[1].samples[0].frames] == ["user", "library"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"main;tea 3\nmain;tea\n", "f: line 2 is not one of folded stacks: it ends with no count"),
        (b"main;tea " + b"9" * 5000, "f: line 1 is not one of folded stacks: it ends with no count"),
        (b'{"type": "map", "data": {"@": {"\\n": ' + b"9" * 5000 + b"}}}", "f: no stacks"),
        (b"\n", "f: no stacks"), (b'{"type": "map", "data": {"@": 3}}\n', "f: no stacks"), (b"{[[[", "f: no stacks"),
    ],
)  # fmt: skip
def test_what_holds_no_stacks_is_an_error(text: bytes, said: str) -> None:
    with pytest.raises(TracerError, match=re.escape(said)):
        read(text, "f")
