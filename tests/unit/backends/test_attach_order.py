"""The order in which programs are attached at events of the kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tracer.backends.bcc.attach.attachments import _ends_first


def job(name: str, *spots: str, is_end: bool = False) -> Any:
    probe = SimpleNamespace(clause=SimpleNamespace(is_end=is_end))
    return SimpleNamespace(name=name, probe=probe, sites=[(SimpleNamespace(spot=spot), 0) for spot in spots])


def order(*jobs: Any) -> str:
    ordered: list[Any] = list(_ends_first(list(jobs)))
    return "".join(job.name for job in ordered)


def test_the_ends_of_spans_are_there_before_their_starts() -> None:
    assert order(job("a", "enter"), job("b", "exit", is_end=True)) == "ba"


def test_programs_at_one_event_keep_their_order() -> None:
    assert order(job("a", "enter"), job("b", "exit"), job("c", "exit", is_end=True)) == "bca"
    assert order(job("a", "one"), job("b", "one", "exit"), job("c", "two"), job("d", "exit", is_end=True)) == "abdc"
