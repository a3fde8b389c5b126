"""The iterator of a trace gives one object for each thing that a program says."""

from __future__ import annotations

from typing import Any, NamedTuple


class Printf(NamedTuple):
    """`printf(…)`: the text, and its arguments as `values` has them."""

    text: str
    values: tuple[Any, ...]


class Value(NamedTuple):
    """`print(EXPRESSION)`: the value, and its text."""

    value: Any
    text: str


class Map(NamedTuple):
    """`print(@NAME)`, with a limit the greatest entries alone: what `Trace.maps` has under that name."""

    name: str
    value: Any


class Time(NamedTuple):
    """`time(…)`."""

    text: str


class Message(NamedTuple):
    """`errorf`, `warnf`, `debugf` (the `kind`), with their place in the program."""

    kind: str
    text: str
    line: int
    column: int


class Output(NamedTuple):
    """The output of `system`, `cat` or `join` (the `kind`)."""

    kind: str
    data: bytes


Event = Printf | Value | Map | Time | Message | Output
