"""`line` and `file`: the place in source text of each site, known before the first hit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracer.errors import ProgramError, Source
from tracer.pipeline import plan

KNOWN = """enum { other = 3 };
int known(int n) { return n + other; }
#line 70 "made.y"
int made(int n) { return n * 2; }
int main(int argc, char **argv) { return known(argc) + made(argc); }
"""
UNKNOWN = "int unknown(int n) { return n + 1; } enum named { file = 4 }; enum named seen;"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("known.c").write_text(KNOWN)
    Path("unknown.c").write_text(UNKNOWN)
    subprocess.run(["gcc", "-O0", "-c", "unknown.c"], check=True)
    subprocess.run(["gcc", "-O0", "-g", "known.c", "unknown.o", "-o", "app"], check=True)
    return tmp_path


def told(text: str) -> tuple[list[dict[str, bytes | int]], list[str]]:
    """What the sites of a program's probes tell, and the warnings."""
    made, warnings = plan(Source(text))
    variants = [variant for probe in made.probes for variant in probe.variants]
    return [variant.told for variant in variants], [each.message for each in warnings]


def fault(text: str) -> tuple[str, str, str | None]:
    """The text that is wrong, why, and the remedy."""
    with pytest.raises(ProgramError) as caught:
        plan(Source(text))
    (error,) = (each for each in caught.value.diagnostics if each.severity == "error")
    return text[error.span.start : error.span.end], error.message, error.hint


def test_each_place_has_its_line_and_its_file_as_the_debug_information_has_it(app: Path) -> None:
    found = [{"file": f"{app}/known.c".encode(), "line": 2}, {"file": f"{app}/made.y".encode(), "line": 70}]
    text = "uprobe:./app:known, uprobe:./app:made { @[line, file] = count(); }"
    assert told(text) == (found, [])
    assert told(text.replace("line, file", "__builtin_line, file()")) == (found, [])
    assert told("uprobe:./app@known.c:1-9 { @ = sum(line); }") == ([{"line": 2}], [])


def test_where_only_some_places_have_a_line_the_others_have_none(app: Path) -> None:
    text = "uprobe:./app:known, uprobe:./app:unknown { @[line, file] = count(); }"
    reason = "of the first, uprobe:./app:unknown, no debug information says which line its code is of"
    assert told(text) == (
        [{"file": f"{app}/known.c".encode(), "line": 2}, {"file": b"", "line": 0}],
        [f"line is 0 at 1 of 2 places: {reason}", f"file is empty at 1 of 2 places: {reason}"],
    )


@pytest.mark.parametrize("word", ["line", "file"])
def test_where_they_are_not_known_they_are_refused(app: Path, word: str) -> None:
    assert fault(f"uprobe:./app:unknown {{ @[{word}] = count(); }}") == (
        word,
        f"{word} is not known at uprobe:./app:unknown: no debug information says which line its code is of",
        "compile it with -g, or install its debug symbols",
    )
    assert fault(f"uretprobe:./app:known {{ @[{word}] = count(); }}") == (
        word, f"{word} is not known when the function returns", "it is known where the function begins"
    )  # fmt: skip
    assert fault(f"BEGIN {{ print({word}); }}") == (
        word, f"{word} is not known in BEGIN", f"{word} belongs to a usdt, uprobe, uretprobe or call"
    )  # fmt: skip


def test_what_a_script_or_the_program_calls_so_is_meant_first(app: Path) -> None:
    text = "uprobe:./app:known { @ = line; }"
    assert told(text)[0] == [{"line": 2}]
    for before in ("enum { line = 7 }; ", "#define line 7\n"):
        assert told(before + text)[0] == [{}]
    assert told("macro line() { 7 } uprobe:./app:known { @ = line(); }")[0] == [{}]
    assert told("uprobe:./app:known { $line = 7; @line = $line; }")[0] == [{}]
    Path("known.c").write_text(KNOWN.replace("other", "line"))
    subprocess.run(["gcc", "-O0", "-g", "known.c", "unknown.o", "-o", "app"], check=True)
    assert told(text)[0] == [{}]
