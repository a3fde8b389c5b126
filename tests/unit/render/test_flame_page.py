"""Pages and pictures of stacks in a real browser: the pointer clicks, keys are typed, and what is there is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.browser import Tab, browser, program
from tests.unit.render.test_flame import HOSTILE, hostile, profile
from tracer.render.stacks import document_of
from tracer.render.stacks.profiles import Frame, Page, Profile, Sample

SHOP = profile(("main;tea;sell", 6), ("main;cake;sell", 3), ("main;cake;tea;sell", 1), name="@sold")
LATER = profile(("main;tea;sell", 12), ("main;pie;sell", 3), name="@later")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    if program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is needed")
        pytest.skip("chromium is needed")
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def shown(tab: Tab, folder: Path, format: str, profiles: list[Profile], page: Page | None = None) -> Path:
    path = folder / f"graph.{format}"
    path.write_bytes(document_of(format)(profiles, page or Page("a shop")))
    tab.asked.clear()
    tab.faults.clear()
    tab.open(path)
    return path


def frames(tab: Tab, within: str = "document") -> list[list[object]]:
    """Each frame's text, left end and width in pixels, whether it is faded, and whether it was found."""
    found: list[list[object]] = tab.value(f"""[...{within}.querySelectorAll("g[data-row]")].map(g => {{
        const r = g.querySelector("rect");
        return [g.querySelector("title").textContent.split(" — ")[0], Math.round(+r.getAttribute("x")),
                Math.round(+r.getAttribute("width")), +r.getAttribute("opacity") < 1, g.dataset.found === "1"];
    }})""")
    return found


def frame(name: str) -> str:
    """The first frame of a name, in the page's language."""
    return f'[...document.querySelectorAll("g[data-row]")].find(g => g.textContent.startsWith("{name} "))'


def quiet(tab: Tab, path: Path) -> None:
    """Nothing was loaded but the page, and its console is empty."""
    assert (tab.asked, tab.faults) == ([path.as_uri()], [])


def test_a_page_zooms_where_it_is_clicked_and_back(tab: Tab, tmp_path: Path) -> None:
    path = shown(tab, tmp_path, "html", [SHOP])
    width = tab.value('document.getElementById("chart").clientWidth')
    assert width == 1280 - 24
    names = [each[0] for each in frames(tab)]
    assert names == ["all", "main", "cake", "sell", "tea", "sell", "tea", "sell"]
    tab.click(frame("cake"))
    zoomed = frames(tab)
    assert [(each[0], each[3]) for each in zoomed] == [
        ("main", True), ("all", True), ("cake", False), ("sell", False), ("tea", False), ("sell", False),
    ]  # fmt: skip
    assert [each[2] for each in zoomed[:4]] == [width, width, width, width * 3 // 4]
    assert tab.value('document.getElementById("reset").disabled') is False
    tab.click('document.getElementById("reset")')
    assert [each[0] for each in frames(tab)] == names
    tab.click(frame("cake"))
    tab.press("Escape")
    assert [each[0] for each in frames(tab)] == names
    quiet(tab, path)


def test_a_page_says_what_the_pointer_is_on(tab: Tab, tmp_path: Path) -> None:
    stack = (Frame("main", "user", "/bin/shop"), Frame("malloc", "library", "/lib/libc.so.6"))
    entries = [Sample(("shop",), stack, 3000), Sample(("a",), stack[:1], 1000)]
    shown(tab, tmp_path, "html", [Profile("@", "bytes", entries)])
    tab.point(frame("malloc"))
    said = tab.value('document.getElementById("details").textContent')
    assert said == "malloc — 3,000 bytes, 75.00% — /lib/libc.so.6"
    assert tab.value('document.getElementById("legend").textContent') == "programlibrarypart of the key"


def test_a_page_finds_words_and_expressions(tab: Tab, tmp_path: Path) -> None:
    path = shown(tab, tmp_path, "html", [SHOP])
    tab.click('document.getElementById("search")')
    tab.type("TEA")
    assert tab.value('document.getElementById("found").textContent') == "found in 70.00% (7)"
    assert [each[0] for each in frames(tab) if each[4]] == ["tea", "tea"]
    tab.click(frame("cake"))
    assert tab.value('document.getElementById("found").textContent') == "found in 25.00% (1)"
    tab.click('document.getElementById("reset")')
    for typed, said in (("/^(cake|x)$/", "found in 40.00% (4)"), ("/(/", "no regular expression"), (" ", "")):
        tab.value('document.getElementById("search").select()')
        tab.type(typed)
        assert tab.value('document.getElementById("found").textContent') == said
    quiet(tab, path)


def test_a_page_has_all_maps_and_can_stand_on_its_head(tab: Tab, tmp_path: Path) -> None:
    path = shown(tab, tmp_path, "html", [SHOP, LATER])
    assert tab.value('[...document.getElementById("map").options].map(o => o.textContent)') == ["@sold", "@later"]
    tab.value('(m => { m.value = 1; m.dispatchEvent(new Event("change")); })(document.getElementById("map"))')
    assert [each[0] for each in frames(tab)] == ["all", "main", "pie", "sell", "tea", "sell"]
    top = f'+({frame("all")}).querySelector("rect").getAttribute("y")'
    assert tab.value(top) == 51
    tab.click('document.getElementById("flip")')
    assert tab.value(top) == 0
    quiet(tab, path)


def test_a_comparison_shows_what_came_and_what_went(tab: Tab, tmp_path: Path) -> None:
    shown(tab, tmp_path, "html", [SHOP, LATER], Page("two days", compare=True))
    fill = 'g => [g.textContent.split(" — ")[0], g.querySelector("rect").getAttribute("fill")]'
    fills = f'[...document.querySelectorAll("g[data-row]")].map({fill})'
    assert tab.value(fills) == [
        ["all", "rgb(235,180,180)"], ["main", "rgb(235,180,180)"],
        ["pie", "rgb(235,70,70)"], ["sell", "rgb(235,70,70)"],
        ["tea", "rgb(235,153,153)"], ["sell", "rgb(235,153,153)"],
    ]  # fmt: skip
    tab.click('document.getElementById("before")')
    assert ["cake", "rgb(70,70,235)"] in tab.value(fills)
    tab.click(frame("main"))
    assert "main — 15 count, 100%, before 10 (+5)" in tab.value('document.getElementById("chart").textContent')


@pytest.mark.parametrize("format", ["html", "svg"])
def test_names_are_text_and_nothing_else(tab: Tab, tmp_path: Path, format: str) -> None:
    profiles, page = hostile()
    path = shown(tab, tmp_path, format, profiles, page)
    quiet(tab, path)  # a dialog of alert() would hang the page, an image would be asked for
    assert tab.value('document.querySelectorAll("img, [onload], [onerror]").length') == 0
    assert [each[0] for each in frames(tab)][2:7] == list(HOSTILE[:5])


def test_a_picture_zooms_and_searches_by_itself(tab: Tab, tmp_path: Path) -> None:
    path = shown(tab, tmp_path, "svg", [SHOP, LATER])
    first, second = 'document.getElementById("chart0")', 'document.getElementById("chart1")'
    assert [each[0] for each in frames(tab, second)] == ["all", "main", "pie", "sell", "tea", "sell"]
    tab.click(frame("cake"))
    assert [each[0] for each in frames(tab, first)] == ["main", "all", "cake", "sell", "tea", "sell"]
    tab.click('document.getElementById("reset")')
    assert len(frames(tab, first)) == 8
    tab.dialogs.append("pie")
    tab.click('document.getElementById("search")')
    assert tab.value('document.getElementById("found").textContent') == "found in 12.00% (3)"
    assert [each[0] for each in frames(tab) if each[4]] == ["pie"]
    quiet(tab, path)


def test_page_and_picture_are_drawn(tab: Tab, tmp_path: Path) -> None:
    for format in ("html", "svg"):
        shown(tab, tmp_path, format, [SHOP])
        tab.picture(tmp_path / f"{format}.png")
        assert (tmp_path / f"{format}.png").read_bytes().startswith(b"\x89PNG")


def test_a_graph_taller_than_the_window_shows_its_root_and_leaves_the_page_where_it_is(
    tab: Tab, tmp_path: Path
) -> None:
    # A page that has scrolled is white in what `chromium --screenshot` writes.
    deep = profile((";".join(f"f{number}" for number in range(400)), 1), name="@deep")
    path = shown(tab, tmp_path, "html", [deep, SHOP])
    root = f"""(() => {{ const r = ({frame("all")}).getBoundingClientRect(), main = document.querySelector("main");
        const room = main.getBoundingClientRect();
        return r.top >= room.top && r.bottom <= room.bottom && main.scrollHeight > 6800; }})()"""
    assert frames(tab)[0][2] == tab.value('document.getElementById("chart").clientWidth')
    for _ in range(2):
        assert tab.value(root)
        assert tab.value("[scrollY, document.documentElement.scrollHeight <= innerHeight]") == [0, True]
        tab.click('document.getElementById("flip")')
    tab.click(frame("f3"))
    assert tab.value(root)
    quiet(tab, path)
