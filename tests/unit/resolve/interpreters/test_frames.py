"""What is known of functions by the numbers that hits give them."""

from __future__ import annotations

import pytest

from tracer.resolve.interpreters import frames
from tracer.resolve.interpreters.description import Image, word
from tracer.resolve.interpreters.frames import Interpreters
from tracer.resolve.interpreters.python.interpreter import INTERPRETER, Code, Text
from tracer.resolve.interpreters.python.layouts import KNOWN
from tracer.resolve.symbols.processes import Processes

IMAGE = Image(INTERPRETER, "3.11", KNOWN[11], 0, 0, ())
ASCII = 1 << 2 | 1 << 6


def text(content: bytes) -> Text:
    return Text(ASCII, len(content), content)


def code(name: bytes) -> Code:
    return Code(text(name), text(b"app.py"), 7, 0, None)


def test_a_function_that_is_made_again_and_again_drives_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_FUNCTIONS", 100)
    known = Interpreters(Processes)
    known.learn(1, IMAGE, code(b"main"))
    for number in range(2, 700):
        known.learn(number, IMAGE, code(b"evaluated"))
    shown = [known.text(word(number, 1)) for number in (1, 2, 699, 700)]
    assert shown == ["app.py:main", "app.py:evaluated", "app.py:evaluated", "[unreadable function]"]


def test_of_too_many_functions_the_first_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_FUNCTIONS", 100)
    known = Interpreters(Processes)
    for number in range(1, 120):
        known.learn(number, IMAGE, code(b"f%d" % number))
    shown = [known.text(word(number, 1)) for number in (1, 100, 101)]
    assert shown == ["app.py:f1", "app.py:f100", "[unreadable function]"]
