"""What a program does beside printing results: messages, files, commands."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer


def test_messages_go_to_stderr_with_their_place() -> None:
    done = tracer("-q", "-e", 'BEGIN { errorf("bad %d\\n", 5); warnf("%s", "oh");\n debugf("z"); print(1); exit(); }')
    assert (done.status, done.out) == (0, b"1\n")
    assert done.err == "stdin:1:9-30: ERROR: bad 5\nstdin:1:32-49: WARNING: oh\nstdin:2:2-13: DEBUG: z\n"


MACROS = """macro inner(x) { warnf("in %d", x) }
macro outer(x) { inner(x + 1) }
BEGIN { outer(5);
  errorf("plain"); }"""


def test_a_message_of_a_macro_says_where_it_is_expanded() -> None:
    done = tracer("-q", "-e", MACROS)
    assert done.err == (
        "stdin:1:18-35: WARNING: in 6\n"
        "stdin:2:18-30: WARNING: expanded from\n"
        "macro outer(x) { inner(x + 1) }\n"
        "                 ~~~~~~~~~~~~\n"
        "stdin:3:9-17: WARNING: expanded from\n"
        "BEGIN { outer(5);\n"
        "        ~~~~~~~~\n"
        "stdin:4:3-18: ERROR: plain\n"
    )


def test_no_warnings_silences_warnf_too() -> None:
    assert tracer("-q", "--no-warnings", "-e", MACROS).err == "stdin:4:3-18: ERROR: plain\n"
    done = tracer("-q", "--no-warnings", "-f", "json", "-e", MACROS)
    assert done.out == b'{"type": "errorf", "msg": "plain", "filename": "stdin", "line": 4, "col": 3}\n'


def test_two_keys_that_are_one_text_in_json_are_warned_of_once() -> None:
    text = 'BEGIN { @["a,b", "c"] = 1; @["a", "b,c"] = 2; @other[1, 2] = 3; print(@); }'
    what = "two keys of @ are one text in JSON, where commas stand between the parts of a key and in them"
    assert tracer("-q", "-f", "json", "-e", text).err == f"tracer: warning: {what}; -f text shows both\n"
    assert tracer("-q", "-e", text).err == ""



def test_messages_in_json_are_results() -> None:
    done = tracer("-q", "-f", "json", "-e", 'BEGIN { errorf("bad %d", 5); exit(); }')
    assert done.out == b'{"type": "errorf", "msg": "bad 5", "filename": "stdin", "line": 1, "col": 9}\n'


def test_an_assertion_that_fails_ends_the_trace() -> None:
    done = tracer("-q", "-e", 'BEGIN { assert(1 == 1, "fine"); assert(1 > 2, "not so"); print(1); }')
    assert (done.status, done.out) == (1, b"")
    assert done.err == "stdin:1:33-56: ERROR: assert failed: not so\n"


@pytest.mark.parametrize(
    ("format", "shown"), [("text", b"Linux\n"), ("json", b'{"type": "cat", "data": "Linux\\n"}\n')]
)
def test_cat_shows_a_file_and_says_which_there_is_not(format: str, shown: bytes) -> None:
    done = tracer(
        "-q", "-f", format, "-e", 'BEGIN { cat("/proc/sys/kernel/%s", "ostype"); cat("/no/such/%d", 1); exit(); }'
    )
    assert (done.status, done.out) == (0, shown)
    assert done.err == "ERROR: failed to open file '/no/such/1' (No such file or directory)\n"


def test_a_command_needs_to_be_allowed() -> None:
    done = tracer("-q", "-e", 'BEGIN { system("echo hi"); exit(); }')
    assert (done.status, done.out) == (2, b"")
    assert "system() is unsafe" in done.err and "--unsafe allows it" in done.err
    done = tracer("-q", "-e", 'config = { unsafe = true } BEGIN { system("echo hi"); exit(); }')
    assert done.status == 2 and "a program cannot allow itself to be unsafe" in done.err


def test_a_command_runs_where_it_stands() -> None:
    program = 'BEGIN { printf("a\\n"); system("echo %s %d; echo oh >&2; exit 3", "x y", 5); printf("b\\n"); exit(); }'
    done = tracer("-q", "--unsafe", "-e", program)
    assert (done.status, done.out) == (0, b"a\nx y 5\noh\n\nb\n")
    assert done.err == "ERROR: command exited with code 3\n"
