"""Lines of uprobe_events and of perf-tools: what is read, and under what the user is told what cannot be."""

from __future__ import annotations

import random

import pytest

from tests.targets.build import build
from tracer import pipeline
from tracer.cli.errors import error_text
from tracer.errors import ProgramError, Source
from tracer.foreign import model
from tracer.foreign.filter import condition
from tracer.foreign.line import MOST_ARGUMENTS, read
from tracer.foreign.places import place_of
from tracer.foreign.program import Place, Wanted, fields, translated
from tracer.kinds.arch import native
from tracer.kinds.site import EVERY_PROCESS

X86_64 = native() is not None and native().name == "x86-64"  # type: ignore[union-attr]
on_x86_64 = pytest.mark.skipif(not X86_64, reason="the registers are those of x86-64")

HEADS = {
    "p:bash:readline": (False, "readline", "bash", "readline", None, None),
    "p:my bash:readline": (False, "my", "bash", "readline", None, None),
    "r:bash:readline": (True, "readline", "bash", "readline", None, None),
    "p:libc:0xbf130": (False, "libc_0xbf130", "libc", "0xbf130", 0xBF130, None),
    "p /bin/zsh:0x46420": (False, "zsh_0x46420", "/bin/zsh", "0x46420", 0x46420, None),
    "p:zfree_entry /bin/zsh:0x46420": (False, "zfree_entry", "/bin/zsh", "0x46420", 0x46420, None),
    "r:uprobes/zfree /bin/zsh:0x46420": (True, "zfree", "/bin/zsh", "0x46420", 0x46420, None),
    "p:g/e /bin/zsh:288%return": (True, "e", "/bin/zsh", "288", 288, None),
    "p:g/e /b:0x10(0x20)": (False, "e", "/b", "0x10", 0x10, 0x20),
    "p:e /a:b:main": (False, "e", "/a:b", "main", None, None),
}


@pytest.mark.parametrize("text", HEADS)
def test_heads_of_both_grammars(text: str) -> None:
    found = read(text)
    assert (found.returns, found.event, found.file, found.place, found.offset, found.semaphore) == HEADS[text]


WRONG = {
    "": ("", "the definition is empty"),
    "x:bash:readline": ("x:bash:readline", "a definition begins with p: or r:"),
    "-:foo": ("-:foo", "-:EVENT removes an event of the kernel"),
    "r4:bash:readline": ("r4", "a number behind p or r is for kprobes alone"),
    "p:1x /b:main": ("1x", "1x is no name of an event or a group"),
    "p:x": ("", "no place to probe"),
    "p:/bin/bash": ("/bin/bash", "a file without a place in it"),
    "p:x /b:0x10(foo)": ("foo", "a semaphore is the number of its place in the file"),
    "r:x /b:0x10%return": ("/b:0x10%return", "%return stands behind p alone"),
    "p:x /b:main %xyz": ("%xyz", "there is no register %xyz"),
    "p:x /b:main $retval": ("$retval", "$retval is known in a return"),
    "p:x /b:main $foo": ("$foo", "there is no $foo"),
    "p:x /b:main @main": ("@main", "@main is no place in memory"),
    "p:x /b:main \\x": ("\\x", "behind a backslash stands a number"),
    'p:x /b:main \\"t":string': (
        '\\"t":string', "a text that is written is no value of a hit, and the kernel shows (fault) for it",
    ),
    "p:x /b:main 8($stack)": ("8($stack)", "an offset has its sign"),
    "p:x /b:main +8($stack": ("+8($stack", "memory is read by +OFFSET(VALUE) or -OFFSET(VALUE)"),
    "p:x /b:main +0($comm):string": ("$comm", "$comm is no address"),
    "p:x /b:main $comm:u8": ("u8", "$comm is a string"),
    "p:x /b:main $stack:string": ("string", "a string lies in memory"),
    "p:x /b:main $stack:u8[2]": ("u8[2]", "an array lies in memory"),
    "p:x /b:main $stack:u24": ("u24", "there is no type u24"),
    "p:x /b:main $stack:symbol": (
        "symbol", "the type symbol is not for uprobes: it names addresses of the kernel, and a uprobe has none",
    ),
    "p:x /b:main $stack:b8@60/64": ("b8@60/64", "there are no 8 bits from bit 60 on in 64"),
    "p:x /b:main $stack:b1@0/24": ("b1@0/24", "a bit field lies in 8, 16, 32 or 64 bits"),
    "p:x /b:main +0($stack):u8[65]": ("u8[65]", "an array has 1 to 64 elements"),
    "p:x /b:main a=$stack a=$comm": ("a=$comm", "there is a second argument a"),
    "p:x /b:main common_pid=$stack": ("common_pid=", "common_pid is a field of every event"),
    "p:x /b:main \\18446744073709551616": ("\\18446744073709551616", "the number does not fit into 64 bits"),
    "r:x /b:main $stack": (
        "$stack", "$stack is not known in a return: it depends on how the return is probed: by the kernel behind it, or"
        " at the instruction before",
    ),
    "r:x /b:main @+8": (
        "@+8", "@+OFFSET is not known in a return: the file's place in memory follows from the probe's own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_faults_stand_under_the_users_own_word(text: str) -> None:
    with pytest.raises(ProgramError) as raised:
        read(text)
    (found,) = raised.value.diagnostics
    assert (text[found.span.start : found.span.end], found.message) == WRONG[text]


@on_x86_64
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p:x /b:main %rdi", "there is no register %rdi; the kernel calls it %di"),
        ("p:x /b:main $arg2", "the kernel knows $argN at its own functions alone; on this machine it is %si"),
        ("p:x /b:main s=%di:string", "a string lies in memory; +0(%di):string reads the text that it points to"),
    ],
)
def test_the_remedy_is_the_kernels_own_word(text: str, said: str) -> None:
    with pytest.raises(ProgramError) as raised:
        read(text)
    shown = error_text(raised.value).splitlines()
    assert shown[0] == "p:x /b:main " + text.rpartition(" ")[2] and shown[1].lstrip().endswith(f"error: {said}")


def test_more_arguments_than_an_event_of_the_kernel_has_are_refused() -> None:
    most = "p:x /b:main" + " $stack" * MOST_ARGUMENTS
    assert len(read(most).arguments) == 128
    with pytest.raises(ProgramError, match="more than 128 arguments, which no event of the kernel has"):
        read(f"{most} $stack")


FIELDS = fields(read("p:x /b:main n=$stack:s32 u=$stack0:u8 s=+0($stack):string a=+0($stack):u8[2]"), Place("", 0))
CONDITIONS = {
    "n == 1": '(int32)reg("sp") == 1',
    "n==-0x10&&u>010": '(int32)reg("sp") == -16 && (uint8)*(uint64 *)(reg("sp") + 0) > 8',
    "n & 3 || !(u != 255)": '((int32)reg("sp") & 0x3) != 0 || !(((uint8)*(uint64 *)(reg("sp") + 0) != 255))',
    's ~ "a*" && s != \'"\'': 'globmatch(str(reg("sp")), "a*") && str(reg("sp")) != "\\""',
    'COMM == "x\\y"': 'comm == "x\\\\y"',
    "common_pid == 5 && CPU == 1": "tid == 5 && cpu == 1",
}
WRONG_CONDITIONS = {
    "": ("", "the filter is empty"),
    "m == 1": ("m", "there is no field m"),
    "n = 1": ("=", "'=' means nothing in a filter"),
    "n": ("", "n is a number: nothing does not compare it"),
    "n == u": ("u", "n is compared with a number, and another field is none"),
    "u == -1": ("-1", "u is 0 to 255, and never -1"),
    "u == 256": ("256", "u is 0 to 255, and never 256"),
    "s == text": ("text", "a string stands in quotes"),
    's < "a"': ("<", "a string is compared by ==, != or ~"),
    's ~ "!a"': ('"!a"', "a pattern of *, ? and [a-z] has no other signs"),
    "a == 1": ("a", "a is an array, which the kernel's filter does not compare"),
    "(n == 1": ("", "a closing bracket is missing"),
    "n == 1 n": ("n", "'n' stands where && or || was expected"),
    "n == 089": ("089", "089 is no number of 64 bits"),
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_filters_are_conditions(text: str) -> None:
    assert condition(text, FIELDS) == CONDITIONS[text]


@pytest.mark.parametrize("text", WRONG_CONDITIONS)
def test_faults_of_filters_stand_under_the_filter(text: str) -> None:
    with pytest.raises(ProgramError) as raised:
        condition(text, FIELDS)
    (found,) = raised.value.diagnostics
    assert (text[found.span.start : found.span.end], found.message) == WRONG_CONDITIONS[text]


def _value(pick: random.Random, depth: int = 0) -> str:
    known = native()
    registers = ("sp",) if known is None else (*known.registers, *known.state, "rdi")
    plain = [
        f"%{pick.choice(registers)}", "$stack", f"$stack{pick.randrange(4)}", "$retval", "$comm", "$arg1",
        f"@{pick.randrange(1 << 20):#x}", f"@+{pick.randrange(1 << 64)}", f"\\{pick.getrandbits(64)}", "\\-5",
    ]  # fmt: skip
    if depth < 4 and pick.random() < 0.4:
        offset = pick.getrandbits(pick.choice((3, 63)))
        return f"{pick.choice(('+', '-', '+u'))}{offset}({_value(pick, depth + 1)})"
    return pick.choice(plain)


def _line(pick: random.Random, place: str) -> str:
    sorts = [
        "", *(f":{sign}{bits}" for sign in "usx" for bits in (8, 16, 32, 64)), ":char", ":string", ":ustring",
        ":b5@3/32", ":b64@0/64", ":b3@6/8", ":symbol", ":u24",
    ]  # fmt: skip
    names = ["", "", "a=", "if=", "comm=", "args=", "config=", "int=", "u8=", "pid=", "_=", "1="]
    words = []
    for _ in range(pick.randrange(4)):
        sort = pick.choice(sorts)
        count = f"[{pick.randrange(70)}]" if sort and pick.random() < 0.5 else ""
        words.append(f"{pick.choice(names)}{_value(pick)}{sort}{count}")
    return " ".join([pick.choice(("p:e", "p:g/e", "r:e", "p")), place, *words])


@pytest.mark.parametrize("json", [False, True])
def test_random_lines_become_programs_that_are_right_or_are_refused_by_name(json: bool) -> None:
    app, pick, taken = build("fields"), random.Random(29), 0
    for _ in range(400):
        text = _line(pick, f"{app}:work")
        line = Source(text)
        try:
            definition = read(text)
            program = translated(line, definition, place_of(line, definition, False, EVERY_PROCESS), Wanted(json=json))
        except ProgramError as error:
            assert error.source.text == text and error.message, text
            continue
        taken += 1
        pipeline.plan(Source(program.text))
        assert isinstance(definition, model.Definition)
    assert taken > 60


def test_paths_and_names_of_the_user_are_no_more_than_that() -> None:
    """Neither what ends a quoted part, nor what a terminal would do, reaches the program as it is."""
    place = '/tmp/a"{exit()}\\:main'
    definition = read(f"p:e {place}")
    found = translated(Source(""), definition, place_of(Source(place), definition, False, EVERY_PROCESS), Wanted())
    assert found.text.splitlines()[0] == 'uprobe:"/tmp/a\\"{exit()}\\\\":"main"'
