"""BPF of older kernels: what bcc refuses there, and that ftrace takes it with the same answer."""

from __future__ import annotations

import re

import pytest

from tests.harness.cli import tracer
from tests.harness.kernel import nothing_left
from tests.targets.build import build

pytestmark = pytest.mark.live

FRAME = re.compile(rb"0x[0-9a-f]+")  # the program has another address each time

ATOMICS = (
    "this clause is not available with bcc:"
    " the kernel's BPF cannot add and read in one step, nor compare and swap (Linux 5.12)"
)
FEWER = "leave out min(), max(), ++ as a value; or --backend ftrace"
LONG_KEY = (
    "the key of @ is not available with bcc:"
    " the kernel's BPF maps take keys of 512 bytes at most (Linux 5.11 takes longer ones)"
)
SHORTER = "give its strings sizes, as in str(arg0, 64), or --backend ftrace"


def program(body: str) -> str:
    return f"usdt:{build('depot')}:depot:parcel {{ {body} }}"


@pytest.mark.parametrize(
    ("without", "body", "reason", "remedy", "marked"),
    [
        ("atomics", "@m = max(arg2);", ATOMICS, FEWER, "usdt:{}:depot:parcel"),
        ("atomics", 'printf("%d\\n", @n++);', ATOMICS, FEWER, "usdt:{}:depot:parcel"),
        ("long_keys", "@[str(arg1)] = count();", LONG_KEY, SHORTER, "@[str(arg1)]"),
    ],
)
def test_what_it_lacks_is_refused_where_it_stands_and_taken_by_ftrace(
    without: str, body: str, reason: str, remedy: str, marked: str
) -> None:
    text, child = program(body), f"{build('depot')} 5"
    with nothing_left():
        refused = tracer("--backend", "bcc", "-e", text, "-c", child, env={"TRACER_WITHOUT": without})
        taken = tracer("-e", text, "-c", child, env={"TRACER_WITHOUT": without})
        plain = tracer("-e", text, "-c", child)
    marked = marked.format(build("depot"))
    caret = " " * text.index(marked) + "^" * len(marked)
    assert (refused.status, refused.out, refused.err) == (1, b"", f"{text}\n{caret} error: {reason}; {remedy}\n")
    assert taken.err == f"tracer: using ftrace, not bcc: {reason}\nAttached 1 probe\n"
    assert (taken.status, taken.out) == (plain.status, plain.out)


@pytest.mark.parametrize("body", ["@[arg0 & 3] = count();", "@[str(arg1, 64)] = sum(arg3);", "@h[arg0] = hist(arg3);"])
def test_maps_with_their_memory_taken_at_once_answer_alike(body: str) -> None:
    words = ("--backend", "bcc", "-e", program(body), "-c", f"{build('depot')} 40")
    assert tracer(*words, env={"TRACER_WITHOUT": "late_allocation"}).out == tracer(*words).out != b""


def test_short_strings_and_counts_need_nothing_new() -> None:
    words = ("--backend", "bcc", "-e", program("@[str(arg1, 64)] = count(); @n++;"), "-c", f"{build('depot')} 40")
    old = tracer(*words, env={"TRACER_WITHOUT": "atomics,long_keys,late_allocation,sleepable,uprobe_multi"})
    assert (old.status, old.out) == (0, tracer(*words).out), old.err


@pytest.mark.parametrize(
    "body", ["@[str(arg1, 200)] = count();", 'printf("%s %s\\n", comm, str(arg1));', "print(ustack);"]
)
def test_long_strings_stacks_and_what_is_printed_do_without_compare_and_swap(body: str) -> None:
    words = ("--backend", "bcc", "-e", program(body), "-c", f"{build('depot')} 40")
    old = tracer(*words, env={"TRACER_WITHOUT": "atomics,long_keys,late_allocation,sleepable,uprobe_multi"})
    assert (old.status, old.err) == (0, "Attached 1 probe\n")
    assert FRAME.sub(b"", old.out) == FRAME.sub(b"", tracer(*words).out) != b""
