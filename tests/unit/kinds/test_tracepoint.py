"""What the `format` file of an event says of its fields."""

from __future__ import annotations

import pytest

from tracer.backends.ftrace.samples.sample_functions import held
from tracer.errors import NOWHERE, NothingThere
from tracer.kinds.kernel_event import Field, KernelEvent
from tracer.kinds.model import AttachPoint
from tracer.kinds.tracepoint import TRACEPOINT

FORMAT = """name: thing
ID: 77
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:umode_t mode;\toffset:32;\tsize:8;\tsigned:0;
\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;
\tfield:__rel_loc u8[] more;\toffset:24;\tsize:4;\tsigned:0;
\tfield:struct in6_addr to;\toffset:56;\tsize:16;\tsigned:0;

print fmt: "pid=%d; offset:1;", REC->pid
"""


class _Machine:
    def events(self, system: str, name: str) -> list[tuple[str, str]]:
        return [("group", "thing")] if name == "thing" else []

    def layout(self, system: str, name: str) -> str:
        return FORMAT

    def near(self, system: str, name: str) -> str | None:
        return "look elsewhere"


def _sites(name: str) -> list[KernelEvent]:
    assert TRACEPOINT.machine is not None
    point = AttachPoint("tracepoint", f"tracepoint:group:{name}", NOWHERE, None, "group", name)
    found = TRACEPOINT.machine(point, _Machine())
    assert all(isinstance(site, KernelEvent) for site in found)
    return [site for site in found if isinstance(site, KernelEvent)]


def test_fields_stand_in_the_order_of_the_record_with_their_types() -> None:
    (site,) = _sites("thing")
    assert (site.probe, site.number, site.system, site.name) == ("tracepoint:group:thing", 77, "group", "thing")
    assert [spec.operand for spec in site.args] == [
        Field("pid", "pid_t", 8, 4, number=True, signed=True),
        Field("name", "__data_loc char[]", 12, 4, number=False, located=True),
        Field("filename", "const char *", 16, 8, number=True),
        Field("more", "__rel_loc u8[]", 24, 4, number=False, located=True, from_itself=True),
        Field("mode", "umode_t", 32, 8, number=True),
        Field("comm", "char[16]", 40, 16, number=False),
        Field("to", "struct in6_addr", 56, 16, number=False),
    ]


def test_fields_are_shown_as_c_declares_them() -> None:
    assert _sites("thing")[0].declarations == (
        "pid_t pid", "__data_loc char[] name", "const char * filename", "__rel_loc u8[] more", "umode_t mode",
        "char comm[16]", "struct in6_addr to",
    )  # fmt: skip


def test_an_event_that_there_is_not_is_said_with_the_remedy() -> None:
    with pytest.raises(NothingThere, match="this kernel has no tracepoint group:other") as caught:
        _sites("other")
    assert caught.value.hint == "look elsewhere"


def test_what_a_field_does_not_have_is_not_made_up() -> None:
    assert held(b"\1\2\3\4", 2, 2, "h") == 0x0403
    assert held(b"\xff\xff\3\4", 0, 2, "h") == -1
    assert held(b"\1\2\3\4", 3, 2, "h") is None
    assert held(b"\1\2\3\4", 1, 4, "block") is None
    assert held(b"ab\0cd", 0, 16, "text") == b"ab"
    assert held(b"abcd", 1, 2, "text") == b"bc"
