"""What the traced program says does not steer the terminal that it is shown on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.harness.cli import without_overhead
from tests.harness.terminal import on_a_terminal

SAYS = """
import ctypes
libc = ctypes.CDLL(None)
libc.prctl(15, b"\\x1b[31mred\\xc2\\x9b\\xff")
libc.labs(ctypes.c_long(27))
libc.strlen(b"\\x1b]52;c;aGk=\\x07 tab\\t \\r \\x7f \\xc2\\x9b31m \\xc3\\xa9 \\xff\\xfe end")
"""
SAID = b"\x1b]52;c;aGk=\x07 tab\t \r \x7f \xc2\x9b31m \xc3\xa9 \xff\xfe end"
SHOWN = rb"\x1b]52;c;aGk=\x07 tab" + b"\t" + rb" \x0d \x7f \xc2\x9b31m " + b"\xc3\xa9" + rb" \xff\xfe end"
COMM, COMM_SHOWN = b"\x1b[31mred\xc2\x9b\xff", rb"\x1b[31mred\xc2\x9b\xff"

PROGRAM = r"""
uprobe:libc:strlen /strncmp(str(arg0, 12), "\x1b]52;c;aGk=", 8) == 0/ {
    $own = arg0 ? "\x1b[1m" : "";
    printf("%s\x1b[32m%s|%.5s|%12s|%s\n", $own, str(arg0), str(arg0), str(arg0, 4), "\x1b[0m");
    print((comm, str(arg0, 3)));
    print(buf(arg0, 3));
    @key["\x1b[0mown", str(arg0, 4)] = comm;
    @own = "\x1b[7mown";
    errorf("%s", comm);
    cat("FILE");
    cat("/no/such/%s", comm);
}
uprobe:libc:labs /arg0 == 27/ { printf("%c%c\n", arg0, 27); }
"""


def shown_on_a_terminal(*words: str) -> bytes:
    """All that `tracer WORDS` writes to one."""
    status, shown = on_a_terminal(*words)
    assert status == 0
    return without_overhead(shown.decode("latin-1")).encode("latin-1")


@pytest.mark.parametrize("raw", [False, True], ids=["escaped", "--raw"])
def test_a_terminal_gets_escapes_of_values_and_the_programs_own_text_as_it_is(
    backend: str, raw: bool, tmp_path: Path, clean: None
) -> None:
    (tmp_path / "comm").write_bytes(COMM + b"\n")
    program = PROGRAM.replace("FILE", str(tmp_path / "comm"))
    words = ("-q", "--backend", backend, *(["--raw"] if raw else []), "-e", program)
    done = shown_on_a_terminal(*words, "-c", f"{sys.executable} -c '{SAYS}'")
    said, comm, escape = (SAID, COMM, b"\x1b") if raw else (SHOWN, COMM_SHOWN, rb"\x1b")
    on_stderr = comm.replace(b"\xff", rb"\xff")
    assert done.split(b"\n") == [
        escape + b"\x1b",
        b"\x1b[1m\x1b[32m" + said + b"|" + escape + b"]52;|" + (escape + b"]5").rjust(12) + b"|\x1b[0m",
        b"(" + comm + b", " + escape + b"])",
        rb"\x1b]5",
        b"stdin:9:5-23: ERROR: " + on_stderr,
        comm,
        b"ERROR: failed to open file '/no/such/" + on_stderr + b"' (No such file or directory)",
        b"",
        b"",
        b"@key[\x1b[0mown, " + escape + b"]5]: " + comm,
        b"@own: \x1b[7mown",
        b"",
    ]


def test_json_on_a_terminal_stays_json(backend: str, clean: None) -> None:
    program = 'uprobe:libc:strlen /str(arg0, 5) == "\\x1b]52"/ { print(str(arg0)); @[comm] = count(); }'
    words = ("-q", "--backend", backend, "-f", "json", "-e", program)
    first, second = shown_on_a_terminal(*words, "-c", f"{sys.executable} -c '{SAYS}'").splitlines()
    assert json.loads(first) == {"type": "value", "data": SAID.decode("utf-8", "replace")}
    assert json.loads(second) == {"type": "map", "data": {"@": {COMM.decode("utf-8", "replace"): 1}}}
    assert first.decode().isprintable() and second.decode().isprintable()
    assert rb"\u009b31m" in first and rb"\u007f" in first


def test_a_file_gets_values_as_they_are(backend: str, tmp_path: Path, clean: None) -> None:
    program = 'uprobe:libc:strlen /str(arg0, 5) == "\\x1b]52"/ { print(str(arg0)); }'
    words = ("-q", "--backend", backend, "-o", str(tmp_path / "out"), "-e", program)
    assert shown_on_a_terminal(*words, "-c", f"{sys.executable} -c '{SAYS}'") == b""
    assert (tmp_path / "out").read_bytes() == SAID + b"\n\n\n"
