"""Strings that the kernel's page for the strings of a hit cannot hold: BCC reads them, ftrace says that it did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.live.ftrace import compiled_c

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

SOURCE = r"""
#include <stdlib.h>
#include <string.h>

PROBE long probe(const char *a, const char *b, const char *c, long which) {
  __asm__ volatile("" ::"r"(a), "r"(b), "r"(c) : "memory");
  return -which;
}

static char *filled(size_t length) {
  char *text = malloc(length + 1);
  memset(text, 'x', length);
  text[length] = 0;
  return text;
}

int main(void) {
  const size_t lengths[][3] = {LENGTHS};
  for (long which = 0; which < (long)(sizeof lengths / sizeof *lengths); which++) {
    const char *text[3];
    for (int i = 0; i < 3; i++) text[i] = lengths[which][i] == ABSENT ? (char *)8 : filled(lengths[which][i]);
    probe(text[0], text[1], text[2], which);
  }
  return 0;
}
"""
ABSENT = 99999
LENGTHS = (
    (1, 2, 3), (1023, 1023, 1023), (1024, 1024, 1024), (4000, 1, 1),  # these fit a page
    (1500, 1500, 1500), (5000, 1, 1), (4096, 1, 1), (4095, 1, 1), (1, 5000, 1), (1, 1, 5000), (5000, ABSENT, 1),
    (ABSENT, 5000, 1), (2000, 2000, ABSENT), (1, 1, ABSENT), (ABSENT, 1, 1),
)  # fmt: skip


@pytest.fixture(scope="module")
def strings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = ", ".join(f"{{{', '.join(map(str, row))}}}" for row in LENGTHS)
    source = SOURCE.replace("LENGTHS", rows).replace("ABSENT", str(ABSENT))
    return compiled_c(tmp_path_factory.mktemp("strings") / "strings", source)


def traced(path: Path, backend: str, most: int, *wanted: int) -> tuple[dict[str, object], list[str]]:
    """The lengths of the wanted strings, by the number of the call, and what was said to be lost."""
    values = ", ".join(f"strlen(str(arg{index}))" for index in wanted)
    program = f"config = {{ max_strlen = {most} }} uprobe:{path}:probe {{ @[arg3] = ({values}, 0); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(path))
    assert done.status == 0
    said = done.err.splitlines()
    assert said[0] == "Attached 1 probe"
    return maps(done)["@"], said[1:]


def lengths(rows: set[int], most: int, *wanted: int) -> dict[str, object]:
    return {str(row): [*(min(LENGTHS[row][index], most - 1) for index in wanted), 0] for row in sorted(rows)}


def left_out(hits: int) -> str:
    some = "hits" if hits > 1 else "hit"
    return (
        f"tracer: {hits} {some} left out: an argument or string could not be read there; its memory was not mapped,"
        " or holds no such value"
    )


def crowded(hits: int) -> str:
    some = "hits" if hits > 1 else "hit"
    return (
        f"tracer: {hits} {some} left out: the kernel gives the strings of a hit one page, and a long one was cut there"
        " or left no room for another; give strings a size, as in str(arg0, 1024), or --backend bcc"
    )


def cut(strings: int, most: int = 1024) -> str:
    return f"tracer: {strings} strings cut to {most - 1} bytes; raise max_strlen, now {most}"


EVERY = set(range(len(LENGTHS)))


def test_bcc_reads_all_that_can_be_read(strings: Path) -> None:
    found, said = traced(strings, "bcc", 8192, 0, 1, 2)
    assert (found, said) == (lengths(EVERY - {10, 11, 12, 13, 14}, 8192, 0, 1, 2), [left_out(5)])
    found, said = traced(strings, "bcc", 1024, 0)
    assert (found, said) == (lengths(EVERY - {11, 14}, 1024, 0), [left_out(2), cut(8)])


def test_ftrace_tells_one_long_string_from_an_unreadable_one(strings: Path) -> None:
    found, said = traced(strings, "ftrace", 1024, 0)
    # Of 4,095 bytes 1,023 could be had, of 4,096 and more none: 5, 6 and 10.
    assert (found, said) == (lengths(EVERY - {5, 6, 10, 11, 14}, 1024, 0), [left_out(2), crowded(3), cut(5)])


def test_ftrace_tells_strings_that_had_no_room_from_unreadable_ones(strings: Path) -> None:
    found, said = traced(strings, "ftrace", 1024, 0, 1, 2)
    # The third string of 4, of 1,500 bytes, was cut behind the 1,023rd; a string of 4,095 bytes leaves no room either.
    # Of 10 nobody can tell whether the second string could be read; of 11 the first one could not.
    absent, without_room = {11, 12, 13, 14}, {5, 6, 7, 8, 9, 10}
    assert found == lengths(EVERY - absent - without_room, 1024, 0, 1, 2)
    assert said == [left_out(4), crowded(6), cut(10)]


def test_ftrace_says_which_strings_a_larger_buffer_does_not_bring(strings: Path) -> None:
    found, said = traced(strings, "ftrace", 8192, 0, 1, 2)
    assert found == lengths({0, 1, 2, 3}, 8192, 0, 1, 2)
    assert said == [left_out(4), crowded(7)]


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_with_a_size_as_much_comes_however_long_they_are(strings: Path, backend: str) -> None:
    values = ", ".join(f"strlen(str(arg{index}, 1024))" for index in (0, 1))
    program = f"uprobe:{strings}:probe {{ @[arg3] = ({values}, 0); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(strings))
    assert maps(done)["@"] == lengths(EVERY - {10, 11, 14}, 1024, 0, 1)
