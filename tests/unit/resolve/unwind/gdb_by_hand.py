"""The table of docs/stacks.md: `python -m tests.unit.resolve.unwind.gdb_by_hand [WORD]`, as root; lines with the word.

More stacks of more programs than the tests have time for: ten minutes. musl-tools and what scripts/test installs are
needed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.live import postgres
from tests.unit.resolve.unwind.stops import HERE, compared
from tests.unit.resolve.unwind.test_against_gdb import BASH, FRAMES, NODE, PERL

PYTHON = "import json, re, decimal; [json.loads(json.dumps(re.sub('.', str, str(i)))) for i in range(200)]"
CALLBACKS = """
import ctypes, hashlib, sqlite3
from ctypes import CFUNCTYPE, POINTER, c_int
digest = lambda: hashlib.sha1(b'x').digest()
compare = CFUNCTYPE(c_int, POINTER(c_int), POINTER(c_int))(lambda a, b: a[0] - b[0] + 0 * len(digest()))
for _ in range(20):
    ctypes.CDLL(None).qsort((c_int * 8)(5, 3, 1, 4, 2, 8, 7, 6), 8, 4, compare)
    with sqlite3.connect(':memory:') as made:
        made.create_function('twice', 1, lambda n: 2 * n)
        made.execute('select twice(3) union select twice(4) order by 1').fetchall()
"""
HOT = "function f(n) { return n ? f(n - 1) + n : JSON.stringify({n}).length } for (let i = 0; i < 3e4; i++) f(i % 9)"
JOIN = "SELECT count(*) FROM pg_class a JOIN pg_attribute b ON a.oid = b.attrelid JOIN pg_type c ON c.oid = b.atttypid"
JAVA = """
public class Hot {
    static int walk(java.util.Map<Integer, String> map, int n) {
        return n == 0 ? new java.io.File("/proc/" + map.size()).exists() ? 1 : 0 : walk(map, n - 1) + 1;
    }
    public static void main(String[] words) {
        java.util.Map<Integer, String> map = new java.util.HashMap<>();
        for (int i = 0; i < 40000; i++) { map.put(i & 63, "x" + i); walk(map, i % 20); }
    }
}
"""
MUSL = """
#include <stdlib.h>
static int compare(const void *a, const void *b) { free(malloc(9)); return *(int *)a - *(int *)b; }
static int inner(int n) { free(malloc(n + 1)); return n ? inner(n - 1) + 1 : 0; }
int main(void) { int v[8] = {5, 3, 1, 4, 2, 8, 7, 6}; qsort(v, 8, 4, compare); for (int i = 0; i < 20; i++) inner(i); }
"""

Line = tuple[str, list[str], str, int, int, int | None]
"""What the table says, the command, where it stops, how many stops are compared, and how many passed by before; in the
place of a command the number of a process.
"""


def lines(at: Path, undo: ExitStack) -> Iterator[Line]:
    """Of the table; each program is built, or begun, when it comes to it."""

    def build(name: str, text: str, *command: str) -> list[str]:
        (at / name).write_text(text)
        subprocess.run([*command, name], cwd=at, check=True, capture_output=True)
        return [str(at / "made")]

    def cc(*flags: str) -> list[str]:
        return build("f.cc", FRAMES, "g++", "-w", "-O3", "-pthread", "-omade", *flags)

    def musl(*flags: str) -> list[str]:
        return build("m.c", MUSL, "musl-gcc", "-O1", "-fno-builtin", "-omade", *flags)

    python, rust, go = "/usr/bin/python3", (HERE / "frames.rs").read_text(), (HERE / "frames.go").read_text()
    yield "bash", ["bash", "-c", BASH.replace("1 2 3", "{1..60}")], "malloc", 400, 300, None
    yield "CPython 3.11", [python, "-c", PYTHON], "malloc,memcpy,read", 400, 500, None
    (at / "callbacks.py").write_text(CALLBACKS)
    name, breaks = "the same: OpenSSL and SQLite by dlopen, callbacks of qsort", "EVP_DigestUpdate,sqlite3_step"
    yield name, [python, str(at / "callbacks.py")], f"{breaks},sqlite3_value_type", 180, 0, None
    yield "ls", ["ls", "-lR", "/usr/lib/python3"], "malloc,strlen", 300, 30, None
    yield "perl", ["perl", "-e", PERL], "malloc,memcpy", 200, 300, None
    yield "git", ["git", "-C", str(HERE), "log", "-p", "-3", "--no-color"], "malloc", 200, 100, None
    compiler = subprocess.check_output(["gcc", "-print-prog-name=cc1plus"], text=True).strip()
    compile = [compiler, "-quiet", "-O2", str(HERE / "frames.cc"), "-o", "/dev/null"]
    yield "gcc's cc1plus", compile, "malloc", 200, 3000, None
    name = "a C++ program: exceptions, signals, threads, aligned stacks; -O3 -fomit-frame-pointer"
    yield name, cc("-fomit-frame-pointer"), "mark", 200, 0, None
    yield "the same, static", cc("-static"), "mark", 200, 0, None
    name = "a Rust program: trait objects, panics, threads"
    yield name, build("f.rs", rust, "rustc", "-O", "-omade"), "malloc,free", 200, 0, None
    name = "a Go program: goroutines, deferred calls"
    yield name, build("f.go", go, "go", "build", "-o", "made"), "main.mark", 200, 0, None
    yield "node 20: C++ and interpreted JavaScript", ["node", "-e", NODE], "malloc", 200, 3000, None
    yield "node 20: compiled JavaScript", ["node", "-e", HOT], "malloc", 200, 20000, None
    yield "java 17 (`-version`)", ["java", "-version"], "malloc", 200, 3000, None
    (at / "Hot.java").write_text(JAVA)
    subprocess.run(["javac", "Hot.java"], cwd=at, check=True)
    name, run = "java 17: compiled Java, PreserveFramePointer", ["java", "-XX:+PreserveFramePointer", "-Xbatch"]
    yield name, [*run, "-cp", str(at), "Hot"], "stat", 200, 3000, None
    yield "a C program with musl", musl("-g"), "malloc", 230, 0, None
    yield "the same, static", musl("-static"), "malloc", 230, 0, None
    bin = postgres.installation()
    assert bin is not None
    cluster = undo.enter_context(postgres.cluster(bin))
    psql = [str(bin / "psql"), "-h", str(cluster.home), "-U", postgres.USER, "postgres"]
    text = f"SELECT pg_sleep(6); {'; '.join([JOIN] * 3)}"
    client = subprocess.Popen([*psql, "-c", text], stdout=subprocess.DEVNULL)
    undo.callback(client.wait)
    undo.callback(client.kill)
    time.sleep(2)
    sleeps = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
    (pid,) = map(int, cluster.psql(sleeps))
    name = "PostgreSQL 15, a server process with a join of catalogs"
    yield name, [], "malloc,memcpy,hash_search_with_hash_value", 300, 0, pid


def main(word: str = "") -> None:
    """Prints the table as it is made; behind each line how our stacks ended."""
    total = same = 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as undo:
        for name, argv, breaks, stops, pass_by, pid in lines(Path(folder), undo):
            if word not in name:
                continue
            unwinder, found, equal = compared(Path(folder), argv, breaks, stops, pass_by, pid)
            (Path(folder) / "stops").unlink()
            shown = ", ".join(f"`{each}`" for each in breaks.split(","))
            total, same = total + found, same + equal
            print(f"| {name} | {shown} | {found} | {equal} |", dict(unwinder.endings), flush=True)
    print(f"| all | | {total} | {same} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
