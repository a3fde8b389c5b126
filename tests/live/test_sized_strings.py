"""Strings whose size is known only at the hit: no byte behind the size is needed, on neither backend.

`str(address, size)` counts the NUL, as bpftrace does since its 0.23: a name of n bytes is `str(address, n + 1)`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps, records
from tests.live.conftest import need
from tests.live.ftrace import compiled_c
from tests.targets.build import build_java

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

SIZES = (0, 1, 2, 5, 9, 10, 11, 12, 64, 65, 1000, 1023, 1024, 1025, 5000, -1, 1 << 32, (1 << 32) + 3, -(1 << 63))
SHORT, LONG, LAST = "abcdefghij", "B" * 5999, "endofpag"

SOURCE = r"""
#include <string.h>
#include <sys/mman.h>

struct view { const char *at; long size; };

PROBE void send(const char *text, long size) { __asm__ volatile("" ::"r"(text), "r"(size) : "memory"); }
PROBE void two(const char *a, long m, const char *b, long n) {
  __asm__ volatile("" ::"r"(a), "r"(b), "r"(m), "r"(n) : "memory");
}
PROBE void viewed(const struct view *v) { __asm__ volatile("" ::"r"(v) : "memory"); }

__attribute__((aligned(4096))) const char cold[8192] = "abcdefghij";
static char many[6000];
static const long sizes[] = {SIZES};

int main(void) {
  char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page + 4096, 4096);
  memset(page, 'x', 4096);
  char *end = page + 4096 - 8;
  memcpy(end, "endofpag", 8);
  memset(many, 'B', sizeof many - 1);
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
    send(cold, sizes[i]);
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
    send(many, sizes[i]);
  send(end, 7); send(end, 8); send(end, 9); send(end, 10); send(end, 2000); send(end, 1); send(end, 0);
  for (int back = 1; back < 9; back++)
    two(many, 900, end + 8 - back, back + 1), two(many, 900, end + 8 - back, back + 2);
  send(0, 5); send((char *)8, 0); send((char *)8, 1); send((char *)8, 2);
  two(many, 4, many + 9, 1000); two(end, 9, many, 12); two(many, 12, end, 9);
  two(end, 10, many, 5); two(many, 5, end, 10);
  two(cold, 50, many, 700); two(many, 700, cold, 50);
  struct view good = {many, 6}, last = {end, 9}, bad = {(char *)16, 6}, none = {0, 6};
  viewed(&good); viewed(&last); viewed(&bad); viewed(&none); viewed((void *)24); viewed((void *)(page + 4096 - 12));
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = ", ".join("(long)(1ul << 63)" if size < -1 else f"{size}l" for size in SIZES)
    return compiled_c(tmp_path_factory.mktemp("sized") / "sized", SOURCE, f"-DSIZES={numbers}")


HITS = [
    *((SHORT + "\0", size) for size in SIZES), *((LONG + "\0", size) for size in SIZES),
    *((LAST, size) for size in (7, 8, 9, 10, 2000, 1, 0)), ("\0", 5), *(("", size) for size in (0, 1, 2)),
]  # fmt: skip
"""What `send` is called with: the memory that can be read there, and the size."""


def shown(memory: str, size: int, most: int = 1024) -> str | None:
    """What `str(memory, size)` gives, byte by byte; None where a byte is missing. Sizes are unsigned."""
    text = ""
    while len(text) < min(size % 2**64 - 1, most - 1) and size:
        if len(text) == len(memory):
            return None
        if memory[len(text)] == "\0":
            break
        text += memory[len(text)]
    return text


def unreadable(count: int) -> str:
    return (
        f"tracer: {count} hit{'s' if count > 1 else ''} left out: an argument or string could not be read there;"
        " its memory was not mapped, has to come from another process or machine, or holds no such value\n"
    )


def cut(count: int, most: int = 1024) -> str:
    return f"tracer: {count} string{'s' if count > 1 else ''} cut to {most - 1} bytes; raise max_strlen, now {most}\n"


@pytest.mark.parametrize("most", [16, 64, 100, 1024])
def test_as_many_bytes_as_the_size_says_and_no_more(program: Path, backend: str, most: int) -> None:
    body = 'printf("%s|%d\\n", str(arg0, arg1), strlen(str(arg0, arg1)));'
    text = f"config = {{ max_strlen = {most} }} uprobe:{program}:send {{ {body} }}"
    done = tracer("run", "--backend", backend, "-e", text, "-c", str(program))
    found = [(memory, size, shown(memory, size, most)) for memory, size in HITS]
    read = [each for _, _, each in found if each is not None]
    # Of what max_strlen would cut the next byte is needed too.
    cuts = [each for memory, size, each in found if size % 2**64 > most and each == memory[: most - 1]]
    whole = [each for each in cuts if (LAST if each in LAST else SHORT) == each]
    assert done.text.splitlines() == [f"{each}|{len(each)}" for each in read]
    missing = unreadable(len(found) - len(read))
    assert done.err == "Attached 1 probe\n" + missing + cut(len(cuts) - len(whole), most)


def test_as_a_key_a_value_a_variable_and_in_a_predicate(program: Path, backend: str) -> None:
    text = (
        f'uprobe:{program}:send /arg1 < 13 && str(arg0, arg1) != "BBBB"/ {{ @k[str(arg0, arg1)] = count();'
        " $s = str(arg0, arg1); @n[strlen($s)] = count(); @last = $s;"
        ' if (strcontains(str(arg0, (int32)arg1), "gh")) { @has = count(); }'
        " @same = sum(strncmp($s, str(arg0, arg1 + 1), 4) == 0); if ($s == str(arg0, 5)) { @four = count(); } }"
    )
    done = tracer("run", "--backend", backend, "-f", "json", "-e", text, "-c", str(program))
    small = [(memory, size) for memory, size in HITS if 0 <= size < 13]
    some = [(memory, size, one) for memory, size in small if (one := shown(memory, size)) not in (None, "BBBB")]
    more = [each for each in some if shown(each[0], each[1] + 1) is not None]
    four = [each for each in more if shown(each[0], 5) is not None]
    assert maps(done) == {
        "@k": Counter(text for *_, text in some),
        "@n": Counter(str(len(text or "")) for *_, text in some),
        "@last": "",
        "@has": sum("gh" in (text or "") for *_, text in some),
        "@same": sum((shown(memory, size + 1) or "")[:4] == (text or "")[:4] for memory, size, text in more),
        "@four": sum(shown(memory, 5) == text for memory, _, text in four),
    }
    unread = sum(shown(*each) is None for each in small)
    assert done.err == "Attached 1 probe\n" + unreadable(unread + len(some) - len(four))


def test_two_of_a_hit_do_not_take_each_others_room(program: Path, backend: str) -> None:
    text = f'uprobe:{program}:two {{ printf("%s|%s\\n", str(arg0, arg1), str(arg2, arg3)); }}'
    done = tracer("run", "--backend", backend, "-e", text, "-c", str(program))
    assert done.text.splitlines() == [
        *(f"{'B' * 899}|{LAST[-back:]}" for back in range(1, 9)),
        "BBB|" + "B" * 999, f"{LAST}|{'B' * 11}", f"{'B' * 11}|{LAST}", f"{SHORT}|{'B' * 699}", f"{'B' * 699}|{SHORT}",
    ]  # fmt: skip
    # Behind one that takes all room, ftrace cannot tell memory that is not there from a 0 that it has not confirmed.
    assert sum(map(int, re.findall(r"tracer: (\d+) hits? left out: ", done.err))) == 2 + 8
    assert backend == "ftrace" or done.err == "Attached 1 probe\n" + unreadable(2 + 8)


def test_pointer_and_size_behind_a_pointer(program: Path, backend: str) -> None:
    text = f'uprobe:{program}:viewed {{ printf("%s\\n", str(*(uint64 *)arg0, *(int64 *)(arg0 + 8))); }}'
    done = tracer("run", "--backend", backend, "-e", text, "-c", str(program))
    assert done.text.splitlines() == ["BBBBB", LAST, ""]
    assert done.err == "Attached 1 probe\n" + unreadable(3)


def test_a_size_that_changes_from_use_to_use(program: Path, backend: str) -> None:
    text = (
        f"uprobe:{program}:two /arg1 == 700/ {{ $n = 3; printf(\"%s %s\\n\", str(arg0, $n++), str(arg0, $n++));"
        " while ($n < 9) { @[$n, str(arg2, $n)] = count(); $n += 2; } }"
    )
    done = tracer("run", "--backend", backend, "-f", "json", "-e", text, "-c", str(program))
    assert [each["data"] for each in records(done, "printf")] == ["BB BBB\n"]
    assert maps(done) == {"@": {"5,abcd": 1, "7,abcdef": 1}}
    assert done.err == "Attached 1 probe\n"


def test_names_of_java_methods_are_whole(backend: str) -> None:
    java = shutil.which("java")
    need(java and shutil.which("javac"), "a JDK")
    library = Path(os.path.realpath(str(java))).parents[1] / "lib" / "server" / "libjvm.so"
    command = f"java -Xcomp -XX:TieredStopAtLevel=1 -XX:+PrintCompilation -cp {build_java('Collect')} Collect 3"
    body = "@[str(arg2, arg3 + 1), str(arg4, arg5 + 1)] = count();"
    text = f"usdt:{library}:hotspot:method__compile__begin {{ {body} }}"
    done = tracer("run", "--backend", backend, "-f", "json", "-e", text, "-c", command)
    assert done.err == "Attached 1 probe\n"
    found = {name.replace("/", ".").replace(",", "::") for name in maps(done)["@"]}
    said = re.findall(r"^ *\d+ +\d+ ([ %!sbn]+) +\d? +(\S+::\S+) ", done.out.decode(), re.M)
    # Native methods get their wrapper without a compiler.
    assert found == {name for flags, name in said if "n" not in flags}
    assert len(found) > 200


GO = """package main

import "os"

//go:noinline
func handle(number int, name, path string) int { return len(name) + len(path) + number }

func main() {
	words := []string{"first", "a longer second one", "", "third"}
	total := 0
	for i, word := range words {
		total += handle(i, word, words[len(words)-1-i])
	}
	if total == 0 { os.Exit(1) }
}
"""


def test_strings_of_go_are_whole(tmp_path: Path, backend: str) -> None:
    need(shutil.which("go"), "go")
    (tmp_path / "words.go").write_text(GO)
    home = {"HOME": str(tmp_path), "GOFLAGS": "-mod=mod", "GO111MODULE": "off", "PATH": os.environ["PATH"]}
    cached = {"GOCACHE": os.environ.get("GOCACHE", str(Path("~/.cache/go-build").expanduser()))}
    subprocess.run(["go", "build", "-o", "words", "words.go"], cwd=tmp_path, env=home | cached, check=True)
    # Go has no NUL between its constant strings, which are more than a page together.
    body = 'printf("%s|%s\\n", str(arg1, arg2 + 1), str(arg3, arg4 + 1));'
    text = f"uprobe:{tmp_path}/words:main.handle {{ {body} }}"
    done = tracer("run", "--backend", backend, "-e", text, "-c", str(tmp_path / "words"))
    assert done.err == "Attached 1 probe\n"
    assert done.text.splitlines() == ["first|third", "a longer second one|", "|a longer second one", "third|first"]
