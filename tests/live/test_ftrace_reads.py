"""What ftrace reads at a hit: strings and numbers in memory that is there, absent, cold or too long."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.live.ftrace import compiled_c, finish, items, session
from tracer.results.events import Loss

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct node { int number; short small; struct node *next; const char *name; };

PROBE long probe(const char *a, const char *b, const struct node *n, long which) {
  __asm__ volatile("" ::"r"(a), "r"(b), "r"(n) : "memory");
  return -which;
}

static char *filled(char with, size_t length) {
  char *text = malloc(length + 1);
  memset(text, with, length);
  text[length] = 0;
  return text;
}

/* A page of its own, which nothing in the program reads. */
__attribute__((aligned(4096))) const char cold[8192] = "\0";
__attribute__((aligned(4096))) const char words[8192] = "never touched";
__attribute__((aligned(4096))) const char after[8192] = "\0";

int main(void) {
  char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page + 4096, 4096);
  page[4094] = 'p';
  page[4095] = 'q';
  struct node last = {-7, -3, 0, "last"}, first = {5, 4, &last, "first"};
  const struct node *half = (const void *)(page + 4094), *nowhere = (const void *)0x10;
  probe("hello", "world", &first, 1);
  probe("", "", &last, 2);
  probe(0, "world", 0, 3);
  probe((char *)0x1234567000, "world", nowhere, 4);
  probe(page + 4094, "world", half, 5);
  probe(words, "world", &first, 6);
  probe(filled('x', 6000), "world", &first, 7);
  probe("hello", filled('y', 4090), &first, 8);
  probe(filled('z', 1022), filled('z', 1023), &first, 9);
  probe(filled('z', 1024), filled('w', 3000), &first, 10);
  return 0;
}
"""


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_c(tmp_path_factory.mktemp("reads") / "reads", SOURCE)


def traced(path: Path, body: str) -> tuple[dict[object, object], Loss]:
    """The map @ by its last key, and what was lost."""
    with session(f"uprobe:{path}:probe {{ {body} }}") as opened:
        subprocess.run([path], check=True)
        finish(opened)
        return {key if len(key) > 1 else key[0]: value for key, value in items(opened).items()}, opened.loss()


def test_strings_whole_empty_null_absent_cold_and_long(reads: Path) -> None:
    found, loss = traced(reads, "@[arg3] = str(arg0);")
    assert found == {
        1: b"hello", 2: b"", 3: b"", 6: b"never touched", 7: b"x" * 1023, 8: b"hello", 9: b"z" * 1022, 10: b"z" * 1023,
    }  # fmt: skip
    # 4 is not mapped, 5 runs into a page that is not, 7 is longer than the kernel looks for the end of a string.
    assert loss == Loss(unreadable=2, truncated=2)


def test_two_strings_do_not_take_each_others_room(reads: Path) -> None:
    found, loss = traced(reads, "@[arg3] = (str(arg0), str(arg1));")
    assert found == {
        1: (b"hello", b"world"), 2: (b"", b""), 3: (b"", b"world"), 6: (b"never touched", b"world"),
        7: (b"x" * 1023, b"world"), 8: (b"hello", b"y" * 1023), 9: (b"z" * 1022, b"z" * 1023),
        10: (b"z" * 1023, b"w" * 1023),
    }  # fmt: skip
    assert loss == Loss(unreadable=2, truncated=4)


def test_a_string_of_the_programs_size_is_cut_silently(reads: Path) -> None:
    found, loss = traced(reads, "@[str(arg0, 4)] = count();")
    # Of the string that is too long there is room for as much as this.
    assert found == {b"hel": 2, b"": 2, b"nev": 1, b"xxx": 1, b"zzz": 2}
    assert loss == Loss(unreadable=2)


def test_numbers_through_pointers_keep_their_sign_and_what_is_absent_ends_the_clause(reads: Path) -> None:
    found, loss = traced(reads, "@[arg3] = (*(int32 *)arg2, *(int16 *)(arg2 + 4));")
    assert found == {1: (5, 4), 2: (-7, -3)} | {which: (5, 4) for which in (6, 7, 8, 9, 10)}
    assert loss == Loss(unreadable=3)


def test_a_pointer_in_memory_is_followed(reads: Path) -> None:
    found, loss = traced(reads, "@[arg3] = (*(int32 *)*(uint64 *)(arg2 + 8), str(*(uint64 *)(arg2 + 16)));")
    # The last node has no next one.
    assert found == {which: (-7, b"first") for which in (1, 6, 7, 8, 9, 10)}
    assert loss == Loss(unreadable=4)


def test_what_the_clause_does_not_come_to_need_may_be_absent(reads: Path) -> None:
    found, loss = traced(reads, '@[arg3 == 4 || str(arg0) == "hello"] = count();')
    assert found == {True: 3, False: 6}
    assert loss == Loss(unreadable=1, truncated=2)


def test_negative_values_in_registers(reads: Path) -> None:
    with session(f"uretprobe:{reads}:probe {{ @[(int64)retval] = count(); }}") as opened:
        subprocess.run([reads], check=True)
        finish(opened)
        assert items(opened) == {(-which,): 1 for which in range(1, 11)}
