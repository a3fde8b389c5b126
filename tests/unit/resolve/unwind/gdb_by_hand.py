"""The table of docs/stacks.md: `python -m tests.unit.resolve.unwind.gdb_by_hand [WORD]`, as root; lines with the word.

More stacks of more programs than the tests have time for: ten minutes. musl-tools, clang, ruby, php-cli, lua5.4,
sqlite3 and what scripts/test installs are needed.
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
RUBY = """
require 'json'
300.times { |i| JSON.generate([i, {a: i.to_s * 3}]); [3, 1, 2].sort_by { |x| -x }.map(&:to_s) }
Fiber.new { 5.times { |i| Fiber.yield i.to_s + 'x' * 50 } }.resume
"""
PHP = """
function f($n) { return $n ? f($n - 1) . strrev("x$n") : ""; }
for ($i = 0; $i < 300; $i++) { $a = [3, 1, 2]; usort($a, fn($x, $y) => $x <=> $y); f($i % 9); json_encode([$i]); }
"""
LUA = """
local function f(n) if n == 0 then return {} end return {f(n - 1), n} end
for i = 1, 50 do
  f(i % 20); pcall(error, 'x'); table.sort({3, 1, 2}, function(a, b) return a < b end)
  coroutine.wrap(function() coroutine.yield(f(3)) end)()
end
"""
SQL = """
create table t(a, b); create index i on t(b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 300) insert into t select x, hex(x) from c;
select count(*), max(b) from t group by a % 7; select json_group_array(a) from t;
"""
SWITCHES = """
#include <string.h>
#include <ucontext.h>
static ucontext_t a, b; static char stack[65536];
__attribute__((noinline)) int mark(int n) { __asm__ volatile("" ::: "memory"); return n; }
__attribute__((noinline)) int deep(int n) {
  char big[n * 300 + 1]; memset(big, n, sizeof big);
  int r = n ? deep(n - 1) + 1 : mark(n);
  return r + big[0];
}
static void body(void) { for (int i = 0; i < 40; i++) { deep(i % 7); swapcontext(&b, &a); } }
int main(void) {
  getcontext(&b); b.uc_stack.ss_sp = stack; b.uc_stack.ss_size = sizeof stack; b.uc_link = &a;
  makecontext(&b, body, 0);
  for (int i = 0; i < 40; i++) { swapcontext(&a, &b); deep(i % 5); }
}
"""
NESTED = """
#include <alloca.h>
#include <signal.h>
#include <string.h>
__attribute__((noinline)) int mark(int n) { __asm__ volatile("" ::: "memory"); return n; }
static void handler(int s) { mark(s); if (s == SIGUSR1) raise(SIGUSR2); mark(s); }
__attribute__((noinline)) int work(int n) {
  char *p = alloca(n * 100 + 16); memset(p, n, 16);
  int r = n ? work(n - 1) + 1 : (raise(SIGUSR1), mark(n));
  return r + p[3];
}
int main(void) { signal(SIGUSR1, handler); signal(SIGUSR2, handler); for (int i = 0; i < 30; i++) work(i % 6); }
"""
TASKS = """
#include <coroutine>
#include <functional>
extern "C" __attribute__((noinline)) int mark(int n) { __asm__ volatile("" ::: "memory"); return n; }
struct Task {
  struct promise_type {
    int v = 0;
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int x) { v = x; return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> h;
};
Task inner(int n) {
  for (int i = 0; i < n; i++) { try { mark(i); if (i % 3 == 0) throw i; } catch (int x) { mark(x); } co_yield i; }
}
Task outer(int n) {
  auto t = inner(n);
  for (; !t.h.done(); t.h.resume()) co_yield mark(t.h.promise().v);
  t.h.destroy();
}
int main() {
  std::function<int(int)> f = [&](int n) { return n ? f(n - 1) + mark(n) : 0; };
  for (int i = 0; i < 10; i++) { auto t = outer(8); while (!t.h.done()) t.h.resume(); t.h.destroy(); f(i); }
}
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
    yield "ruby 3.1: blocks, fibers", ["ruby", "-e", RUBY], "malloc", 300, 8000, None
    yield "PHP 8.2: recursion, callbacks", ["php", "-r", PHP], "_emalloc,malloc,php_json_encode", 300, 3000, None
    yield "Lua 5.4: coroutines, longjmp", ["lua5.4", "-e", LUA], "realloc", 300, 500, None
    yield "sqlite3", ["sqlite3", ":memory:", SQL], "malloc", 300, 500, None
    name = "a C program with `swapcontext` and arrays of variable size, -O2"
    yield name, build("s.c", SWITCHES, "gcc", "-O2", "-omade"), "mark", 100, 0, None
    clang = build("s.c", SWITCHES, "clang", "-O2", "-fomit-frame-pointer", "-omade")
    yield "the same by clang", clang, "mark", 100, 0, None
    only = ("-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-omade")
    yield "the same with `.debug_frame` alone", build("s.c", SWITCHES, "gcc", *only), "mark", 100, 0, None
    name = "signal handlers in each other, `alloca`; -fcf-protection -fstack-clash-protection"
    flags = ("-O2", "-fcf-protection", "-fstack-clash-protection")
    yield name, build("n.c", NESTED, "gcc", *flags, "-omade"), "mark", 100, 0, None
    tasks = ("g++", "-std=c++20", "-O3", "-omade")
    yield "C++20 coroutines and exceptions, -O3 -flto", build("t.cc", TASKS, *tasks, "-flto"), "mark", 300, 0, None
    yield "the same, -static-pie", build("t.cc", TASKS, *tasks, "-static-pie"), "mark", 300, 0, None
    yield "the same, linked by gold", build("t.cc", TASKS, *tasks, "-fuse-ld=gold"), "mark", 300, 0, None
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
