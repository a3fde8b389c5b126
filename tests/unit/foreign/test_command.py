"""`tracer uprobe` and `tracer usdt`, as far as they trace nothing: what they print, and what they say is wrong."""

from __future__ import annotations

import pytest

from tests.targets.build import build
from tracer import pipeline
from tracer.cli.app import main
from tracer.cli.errors import error_text
from tracer.errors import ProgramError, Source
from tracer.foreign.line import read
from tracer.foreign.places import place_of
from tracer.foreign.program import Wanted, translated
from tracer.kinds.site import EVERY_PROCESS

SHOWN = """\
uprobe:"{app}":"work"
/(tid == 5) && ((int8)reg("sp") < 5)/
{{
  $c = *(uint8[2] *)(reg("sp"));
  printf("%16s-%-7d [%03d] ..... %5llu.%06llu: x: (0x%llx) a=%d c={{%u,%u}}\\n",
    comm, tid, cpu, nsecs / 1000000000, nsecs / 1000 % 1000000, reg("ip"),
    (int8)reg("sp"),
    $c[0],
    $c[1]);
  print(ustack);
}}
"""


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_show_prints_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    app = build("fields")
    words = ("uprobe", "--show", "-s", "-F", "-L", "5", f"p:x {app}:work a=%sp:s8 c=+0($stack):u8[2]", "a < 5")
    assert said(capsys, *words) == (0, SHOWN.format(app=app), "")


def test_v_prints_what_a_filter_can_name(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "uprobe", "-v", f"p:x {build('fields')}:work a=%sp:s8 b=+0($stack):x32[2] $comm")
    assert (status, err) == (0, "")
    head, _, own = out.partition("\n\n")
    assert head.splitlines()[:3] == ["name: x", "format:", "\tfield:s32 common_pid;\tsigned:1;"]
    assert own == "\tfield:s8 a;\tsigned:1;\n\tfield:u32[2] b;\tsigned:0;\n\tfield:char[] arg3;\tsigned:0;\n"


def test_l_lists_what_a_definition_can_name(capsys: pytest.CaptureFixture[str]) -> None:
    app = str(build("fields"))
    status, out, err = said(capsys, "uprobe", "-l", app)
    assert (status, err) == (0, "") and {"main", "work"} <= set(out.splitlines())
    assert said(capsys, "usdt", "-l", app) == (0, "fields:step\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("uprobe",), "no definition of a probe; tracer uprobe 'p:FILE:FUNCTION', or tracer uprobe -l FILE"),
        (("usdt",), "no definition of a probe; tracer usdt 'p:FILE:PROVIDER:NAME', or tracer usdt -l FILE"),
        (("uprobe", "-v", "-d", "1", "p:libc:sleep"), "-d and -v cannot be used together; -v does not trace"),
        (("uprobe", "-l", "libc", "p:a:b"), "-l takes a file, and nothing else; tracer uprobe -l libc"),
    ],
)
def test_words_that_do_not_fit(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert said(capsys, *words) == (2, "", f"tracer: error: {message}\n")


def test_a_return_by_offset_is_that_of_the_function_that_begins_there(capsys: pytest.CaptureFixture[str]) -> None:
    app = build("fields")
    (site,) = pipeline.plan(Source(f"uprobe:{app}:work {{ @ = count(); }}"))[0].sites
    offset = site.offset  # type: ignore[attr-defined]
    _, out, _ = said(capsys, "uprobe", "--show", f"r {app}:{offset:#x} $retval")
    assert out.splitlines()[0] == f'uretprobe:"{app}":"work"'
    status, _, err = said(capsys, "uprobe", "--show", f"r {app}:{offset + 3:#x} $retval")
    assert status == 2 and err.endswith(
        f"error: no function alone begins at {offset + 3:#x}, which is in work; a return is that of a function:"
        " r:FILE:FUNCTION\n"
    )


def test_what_is_wrong_with_the_program_stands_under_the_users_line() -> None:
    app = build("fields")
    (site,) = pipeline.plan(Source(f"uprobe:{app}:work {{ @ = count(); }}"))[0].sites
    text = f"p {app}:{site.offset + 1:#x} $stack"  # type: ignore[attr-defined]
    line, definition = Source(text), read(text)
    program = translated(line, definition, place_of(line, definition, False, EVERY_PROCESS), Wanted())
    with pytest.raises(ProgramError) as raised:
        pipeline.plan(Source(program.text))
    shown = error_text(program.at_the_line(raised.value)).splitlines()
    assert shown[0] == text and shown[1].startswith("  " + "^" * len(text.split()[1]) + " error: ")
    assert "is inside an instruction, not at its start" in shown[1]
