"""Strings that an event's record holds somewhere, by their length there, on both backends.

No event of this kernel is known to hold one without a NUL, so the first argument of lseek() is read as such a field:
it says where in the record the text is (the second argument) and how long.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tracer
from tracer.kernel.tracefs import Tracefs

pytestmark = [pytest.mark.live, pytest.mark.parametrize("backend", ["bcc", "ftrace"])]

SEEKS = """
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
    const int lengths[] = {0, 1, 3, 5, 8};
    long text;

    memcpy(&text, "abcd\\0efg", 8);
    for (int i = 0; i < 5; i++)
        syscall(SYS_lseek, (long)(lengths[i] << 16 | 24), text, 1L << 62);
    memcpy(&text, "abcdefgh", 8);
    for (int i = 0; i < 5; i++)
        syscall(SYS_lseek, (long)(lengths[i] << 16 | 24), text, 0x4142434445464748L);
    return 0;
}
"""


@pytest.fixture
def seeks(tmp_path: Path) -> str:
    (tmp_path / "seeks.c").write_text(SEEKS)
    subprocess.run(["gcc", "-o", tmp_path / "seeks", tmp_path / "seeks.c"], check=True)
    return str(tmp_path / "seeks")


def test_a_text_without_a_nul_ends_with_its_field(backend: str, seeks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Tracefs.format

    def with_text(self: Tracefs, group: str, event: str) -> str:
        number = "field:unsigned int fd;\toffset:16;\tsize:8;"
        return said(self, group, event).replace(number, "field:__data_loc char[] fd;\toffset:16;\tsize:4;")

    monkeypatch.setattr(Tracefs, "format", with_text)
    event = "tracepoint:syscalls:sys_enter_lseek"
    text = f"""config = {{ max_strlen = 8 }} {event} /args.whence != 1/ {{
        printf("%s|%s|%d\\n", args.fd, str(args.fd, 3), strlen(args.fd)); @[args.fd] = count(); }}"""
    with tracer.trace(text, command=seeks, backend=backend) as trace:
        shown = [event.text for event in trace if isinstance(event, tracer.events.Printf)]
    whole = ["", "a", "abc", "abcd", "abcd", "", "a", "abc", "abcde", "abcdefg"]
    assert shown == [f"{each}|{each[:2]}|{len(each)}\n" for each in whole]
    assert trace.maps["@"] == {each: whole.count(each) for each in whole}
    assert trace.loss.truncated == 1
