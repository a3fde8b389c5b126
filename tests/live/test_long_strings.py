"""Strings that the kernel's page for the strings of a hit cannot hold: BCC reads them, ftrace says that it did not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from tests.harness.cli import read_line, target, tell, tracer, tracing, without_overhead
from tests.harness.kernel import left_since, traces, uprobe_events
from tests.harness.warm import Warms
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


class Traced(Protocol):
    """Traces the program of the fixture `strings`: the lengths of the wanted strings, by the number of the call, and
    what was said to be lost.
    """

    def __call__(
        self, backend: str, most: int, *wanted: int, env: Mapping[str, str] | None = None
    ) -> tuple[dict[str, object], list[str]]: ...


@pytest.fixture
def traced(strings: Path, warms: Warms) -> Traced:
    def run(
        backend: str, most: int, *wanted: int, env: Mapping[str, str] | None = None
    ) -> tuple[dict[str, object], list[str]]:
        values = ", ".join(f"strlen(str(arg{index}))" for index in wanted)
        program = f"config = {{ max_strlen = {most} }} uprobe:{strings}:probe {{ @[arg3] = ({values}, 0); }}"
        done = warms.tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(strings), env=env)
        assert done.status == 0
        said = done.err.splitlines()
        assert said[0] == "Attached 1 probe"
        return maps(done)["@"], said[1:]

    return run


def lengths(rows: set[int], most: int, *wanted: int) -> dict[str, object]:
    return {str(row): [*(min(LENGTHS[row][index], most - 1) for index in wanted), 0] for row in sorted(rows)}


def left_out(hits: int) -> str:
    some = "hits" if hits > 1 else "hit"
    return (
        f"tracer: {hits} {some} left out: an argument or string could not be read there; its memory was not mapped,"
        " has to come from another process or machine, or holds no such value"
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


def test_bcc_reads_all_that_can_be_read(traced: Traced) -> None:
    found, said = traced("bcc", 8192, 0, 1, 2)
    assert (found, said) == (lengths(EVERY - {10, 11, 12, 13, 14}, 8192, 0, 1, 2), [left_out(5)])
    found, said = traced("bcc", 1024, 0)
    assert (found, said) == (lengths(EVERY - {11, 14}, 1024, 0), [left_out(2), cut(8)])


def test_ftrace_reads_of_each_string_what_max_strlen_asks_for(traced: Traced) -> None:
    for wanted in ((0,), (0, 1), (0, 1, 2), (2, 1)):
        found, said = traced("ftrace", 1024, *wanted)
        absent = {row for row in EVERY if ABSENT in (LENGTHS[row][index] for index in wanted)}
        assert found == lengths(EVERY - absent, 1024, *wanted)
        assert said[:-1] == [left_out(len(absent))]


@pytest.mark.parametrize("wanted", [(0,), (0, 1), (0, 1, 2), (2, 1)])
def test_both_say_the_same_of_long_strings(traced: Traced, wanted: tuple[int, ...]) -> None:
    assert traced("ftrace", 1024, *wanted) == traced("bcc", 1024, *wanted)


WITHOUT = {"TRACER_WITHOUT": "format_lost"}
"""Kernels where no event beside another reads long strings."""


def test_without_a_second_event_one_long_string_is_told_from_an_unreadable_one(traced: Traced) -> None:
    found, said = traced("ftrace", 1024, 0, env=WITHOUT)
    # Of 4,095 bytes 1,023 could be had, of 4,096 and more none: 5, 6 and 10.
    assert (found, said) == (lengths(EVERY - {5, 6, 10, 11, 14}, 1024, 0), [left_out(2), crowded(3), cut(5)])


def test_without_a_second_event_strings_that_had_no_room_are_told_from_unreadable_ones(traced: Traced) -> None:
    found, said = traced("ftrace", 1024, 0, 1, 2, env=WITHOUT)
    # The third string of 4, of 1,500 bytes, was cut behind the 1,023rd; a string of 4,095 bytes leaves no room either.
    # Of 10 nobody can tell whether the second string could be read; of 11 the first one could not.
    absent, without_room = {11, 12, 13, 14}, {5, 6, 7, 8, 9, 10}
    assert found == lengths(EVERY - absent - without_room, 1024, 0, 1, 2)
    assert said == [left_out(4), crowded(6), cut(10)]


def test_ftrace_says_which_strings_a_larger_buffer_does_not_bring(traced: Traced) -> None:
    found, said = traced("ftrace", 8192, 0, 1, 2)
    assert found == lengths({0, 1, 2, 3}, 8192, 0, 1, 2)
    assert said == [left_out(4), crowded(7)]


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_with_a_size_as_much_comes_however_long_they_are(strings: Path, backend: str) -> None:
    values = ", ".join(f"strlen(str(arg{index}, 1024))" for index in (0, 1))
    program = f"uprobe:{strings}:probe {{ @[arg3] = ({values}, 0); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(strings))
    assert maps(done)["@"] == lengths(EVERY - {10, 11, 14}, 1024, 0, 1)


SIZES = (0, 1, 1022, 1023, 1024, 4094, 4095, 4096, 4097, 5000, 200000)
WRITER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

PROBE void one(const char *text, long size) { __asm__ volatile("" ::"r"(text), "r"(size) : "memory"); }
PROBE void two(const char *text, long size) { __asm__ volatile("" ::"r"(text), "r"(size) : "memory"); }
PROBE void three(long size, const char *text) { __asm__ volatile("" ::"r"(text), "r"(size) : "memory"); }
PROBE const char *back(const char *text) { __asm__ volatile("" ::"r"(text) : "memory"); return text; }

static const long sizes[] = {SIZES};
#define MANY (sizeof sizes / sizeof *sizes)
static char *texts[MANY];

static void all(long rounds) {
  for (long round = 0; round < rounds; round++)
    for (unsigned i = 0; i < MANY; i++)
      one(texts[i], sizes[i]), two(texts[i], sizes[i]), three(sizes[i], texts[i]), back(texts[i]);
}

int main(int count, char **arguments) {
  for (unsigned i = 0; i < MANY; i++) {
    texts[i] = calloc(1, sizes[i] + 1);
    for (long at = 0; at < sizes[i]; at++) texts[i][at] = 'a' + (at * 7 + i) % 26;
  }
  const char *how = arguments[1];
  if (!strcmp(how, "rounds")) all(atol(arguments[2]));
  if (!strcmp(how, "forks")) {
    for (int child = 0; child < 4; child++)
      if (!fork()) { all(1); if (!fork()) all(1); wait(0); return 0; }
    while (wait(0) > 0) continue;
    all(1);
  }
  if (!strcmp(how, "told")) {
    char line[9];
    puts("ready"); fflush(stdout);
    while (fgets(line, 9, stdin)) { all(1); puts("done"); fflush(stdout); }
  }
  if (!strcmp(how, "flood")) {  // as many short strings as it takes for them to cost much
    for (long hit = 0; hit < 300000; hit++) one("short", 5);
    sleep(1);
    one(texts[MANY - 1], 1);
    sleep(1);
    for (long hit = 0; hit < 1000; hit++) one(texts[MANY - 1], 2);
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = WRITER.replace("SIZES", ", ".join(map(str, SIZES)))
    return compiled_c(tmp_path_factory.mktemp("writer") / "writer", source)


def shown(size: int, most: int = 1024) -> str:
    """What of a text comes."""
    first = SIZES.index(size)
    return "".join(chr(ord("a") + (at * 7 + first) % 26) for at in range(min(size, most - 1)))


def counted(times: int, most: int = 1024) -> dict[str, int]:
    return {f"{size},{shown(size, most)}": times for size in SIZES}


@pytest.mark.parametrize("most", [8, 64, 1024, 2048])
def test_a_string_is_the_same_whatever_its_length(writer: Path, backend: str, most: int) -> None:
    program = f"config = {{ max_strlen = {most} }} uprobe:{writer}:one {{ @[arg1, str(arg0)] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{writer} rounds 3")
    assert maps(done)["@"] == counted(3, most)
    cuts = 3 * sum(size >= most for size in SIZES)
    assert done.err == f"Attached 1 probe\n{cut(cuts, most)}\n"


def test_several_places_of_one_event_and_return_values(writer: Path, backend: str) -> None:
    program = (
        f"uprobe:{writer}:one, uprobe:{writer}:two {{ @a[func, arg1, str(arg0)] = count(); }}"
        f" uprobe:{writer}:three {{ @a[func, arg0, str(arg1)] = count(); @n[arg0] = sum(*(uint8 *)(arg1)); }}"
        f" uretprobe:{writer}:back {{ @r[str(retval)] = count(); }}"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{writer} rounds 2")
    functions = ("one", "two", "three")
    assert maps(done)["@a"] == {f"{name},{size},{shown(size)}": 2 for name in functions for size in SIZES}
    assert maps(done)["@n"] == {str(size): 2 * (ord(shown(size)[0]) if size else 0) for size in SIZES}
    assert maps(done)["@r"] == {shown(size): 2 * sum(shown(other) == shown(size) for other in SIZES) for size in SIZES}
    cuts = 2 * 4 * sum(size > 1023 for size in SIZES)
    assert done.err == f"Attached 4 probes\n{cut(cuts)}\n"


def test_a_predicate_tests_long_strings_too(writer: Path, backend: str) -> None:
    some = (4096, 5000)
    tests = " || ".join(f'strncmp(str(arg0), "{shown(size)[:4]}", 4) == 0' for size in some)
    tests = f'arg1 > 4095 && comm == "writer" && ({tests})'
    program = f"uprobe:{writer}:one /{tests}/ {{ @[arg1, str(arg0)] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{writer} rounds 4")
    assert maps(done)["@"] == {f"{size},{shown(size)}": 4 for size in some}


def test_descendants_are_followed(writer: Path, backend: str) -> None:
    program = f"uprobe:{writer}:one {{ @[arg1, str(arg0)] = count(); }}"
    done = tracer("--backend", backend, "--follow", "-f", "json", "-e", program, "-c", f"{writer} forks")
    assert maps(done)["@"] == counted(9)


def test_the_strings_of_one_process_are_its_own(writer: Path, backend: str, tmp_path: Path) -> None:
    program = f"uprobe:{writer}:one {{ @[arg1, str(arg0)] = count(); }}"
    with target(writer, "told") as own, target(writer, "told") as other:
        read_line(own), read_line(other)
        with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program, "-p", str(own.pid)) as running:
            for _ in range(3):
                for process in (own, other):
                    tell(process)
                    read_line(process)
            done = running.stop()
    assert maps(done)["@"] == counted(3)
    assert done.err.splitlines()[1:] == [cut(3 * sum(size > 1023 for size in SIZES))]


@pytest.mark.parametrize("unwind", ["dwarf", "fp"])
def test_a_stack_may_be_in_the_same_hit(writer: Path, unwind: str) -> None:
    program = (
        f"config = {{ stack_unwind = {unwind} }} uprobe:{writer}:one"
        " { @[arg1, str(arg0)] = count(); @stacks[ustack(1)] = count(); @cpu[cpu >= 0] = count(); }"
    )
    done = tracer("--backend", "ftrace", "-f", "json", "-e", program, "-c", f"{writer} rounds 2")
    assert maps(done)["@"] == counted(2)
    assert [*maps(done)["@stacks"].values()] == [*maps(done)["@cpu"].values()] == [2 * len(SIZES)]


def test_no_hit_is_lost_where_many_long_strings_come(writer: Path, backend: str) -> None:
    program = f"uprobe:{writer}:one {{ @[arg1, str(arg0)] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{writer} rounds 1000")
    assert maps(done)["@"] == counted(1000)
    assert without_overhead(done.err).splitlines()[1:] == [cut(1000 * sum(size > 1023 for size in SIZES))]


@pytest.mark.parametrize(("predicate", "short"), [("", {"5,5": 300000}), ("/arg1 < 5/", {})])
def test_a_flood_of_short_strings_ends_what_reads_long_ones_and_a_long_one_begins_it_again(
    writer: Path, predicate: str, short: dict[str, int]
) -> None:
    program = f"uprobe:{writer}:one {predicate} {{ @[arg1, strlen(str(arg0))] = count(); }}"
    done = tracer("--backend", "ftrace", "-f", "json", "-e", program, "-c", f"{writer} flood")
    assert maps(done)["@"] == {**short, "2,1023": 1000}
    assert without_overhead(done.err).splitlines()[1:] == [crowded(1), cut(1000)]


def test_after_sigkill_nothing_is_left_of_what_reads_long_strings(writer: Path, backend: str, tmp_path: Path) -> None:
    before = traces()
    with target(writer, "told") as process:
        read_line(process)
        program = f'uprobe:{writer}:one {{ printf("%d\\n", strlen(str(arg0))); }}'
        with tracing(tmp_path, "--backend", backend, "-e", program) as running:
            assert backend == "bcc" or sum(str(writer) in line for line in uprobe_events()) == 2
            tell(process)
            read_line(process)
            running.wait_for_output(b"1023\n")
            running.process.kill()
        tell(process)
        read_line(process)
    assert not (left := left_since(before)), f"left behind: {left}"
