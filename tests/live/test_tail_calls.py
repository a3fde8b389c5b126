"""Returns of functions that end in tail calls, where no return probe may be: beside what the program itself counts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.live.ftrace import compiled_c

pytestmark = pytest.mark.live

CONDITIONS = ("o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g")

# `via` holds the only call of all these functions, so that the return address tells none of them apart.
JUMPS = r"""
#include <limits.h>
#include <stdio.h>
typedef long (*function)(long, long);
__attribute__((noinline, noclone)) long via(function f, long a, long b) { long r = f(a, b); __asm__(""); return r; }
#define TOP(name) ".globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " name ",.-" name "\n"
__asm__(".text\n" TOP("end") "lea (%rdi,%rsi),%rax\nret\n" END("end"));
long end(long, long);
#define J(c) __asm__(TOP("on_" #c) "cmp %rsi,%rdi\nj" #c " end\nlea 1000(%rdi),%rax\nret\n" END("on_" #c)); \
    long on_##c(long, long);
ALL(J)
static const struct { const char *name; function f; } all[] = {
#define ROW(c) {"on_" #c, on_##c},
ALL(ROW)
};
int main(void)
{
    static const long values[] = {0, 1, 2, 3, -1, -2, 255, LONG_MAX, LONG_MIN, LONG_MIN + 1};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        long n = 0, sum = 0;
        for (int a = 0; a < 10; a++)
            for (int b = 0; b < 10; b++) {
                n++, sum += via(all[i].f, values[a], values[b]);
                via(end, 1, 1), via(end, 2, 2);
            }
        printf("%s %ld %ld\n", all[i].name, n, sum);
    }
    return 0;
}
"""


@pytest.mark.parametrize("probed", ["", " uretprobe:{path}:end {{ @ends = count(); }}"], ids=["alone", "both"])
def test_a_tail_call_on_each_condition_is_told_from_a_call_of_the_other_function(
    probed: str, backend: str, tmp_path: Path, clean: None
) -> None:
    """A return probe on the other function puts the kernel's address in the place of what tells the calls apart."""
    every = "#define ALL(X) " + " ".join(f"X({each})" for each in CONDITIONS) + "\n"
    path = compiled_c(tmp_path / "jumps", every + JUMPS, "-Wl,--no-as-needed", "-lstdc++")
    program = f"uretprobe:{path}:on_* {{ @n[func] = count(); @sum[func] = sum((int64)retval); }}"
    program += probed.format(path=path)
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(path))
    assert done.status == 0, done.err
    lines = subprocess.run([path], check=True, capture_output=True, text=True).stdout.splitlines()
    counts = {name: (int(number), int(sum)) for name, number, sum in (line.split() for line in lines)}
    found = maps(done)
    assert {name: (found["@n"][name], int(found["@sum"][name])) for name in found["@n"]} == counts


# A chain of three, one of which is recursive; parts that the compiler split off; a call that ends by longjmp.
CHAINS = r"""
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#define KEPT __attribute__((noinline, noclone))
static __thread jmp_buf out;
static __thread long n, sum, ended;
static long total[3];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
KEPT long last(long x)
{
    if (x > 900) longjmp(out, 1);
    if (x % 4 == 3) return last(x - 1) + 1;
    __asm__("");
    return x * 2;
}
KEPT long middle(long x) { if (x & 1) return last(x + 1); __asm__(""); return last(x + 2); }
__attribute__((cold, noinline)) long rare(long x) { __asm__(""); return x - 7; }
KEPT long first(long x)
{
    if (__builtin_expect(x < 0, 0)) { __asm__ volatile("nop; nop"); return rare(x); }
    if (x == 5) { __asm__ volatile("nop"); return 55; }
    return middle(x);
}
static void *work(void *unused)
{
    for (long i = -3; i < 200; i++) {
        long r = first(i);
        n++, sum += r;
        middle(i), last(i), rare(i);
        if (i % 50 == 0) {
            if (!setjmp(out)) first(1000); else ended++;
            last(i);
        }
    }
    pthread_mutex_lock(&mutex);
    total[0] += n, total[1] += sum, total[2] += ended;
    pthread_mutex_unlock(&mutex);
    return 0;
}
int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%ld %ld %ld\n", total[0], total[1], total[2]);
    return 0;
}
"""


def test_a_chain_of_tail_calls_returns_where_it_ends(backend: str, tmp_path: Path, clean: None) -> None:
    path = compiled_c(tmp_path / "chains", CHAINS, "-pthread", "-Wl,--no-as-needed", "-lstdc++")
    program = (
        f"uprobe:{path}:first {{ @calls = count(); }}"
        f" uretprobe:{path}:first /retval != 55/ {{ @n = count(); @sum = sum((int64)retval); }}"
        f" uretprobe:{path}:first /retval == 55/ {{ @fives = count(); }} uretprobe:{path}:middle {{ @m = count(); }}"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(path))
    assert done.status == 0, done.err
    n, sum, ended = map(int, subprocess.run([path], check=True, capture_output=True, text=True).stdout.split())
    found = maps(done)
    assert (ended, found["@calls"], found["@fives"]) == (16, n + ended, 4)
    assert (found["@n"] + found["@fives"], found["@sum"] + 55 * 4) == (n, sum)
    assert found["@m"] == 2 * n - 3 * 4 - 4  # first(5) and those below 0 do not come there


UNCALLED = r"""
#define KEPT __attribute__((noinline, noclone))
KEPT int inner(int x) { __asm__(""); return x + 1; }
KEPT int end(int x) { int r = inner(x); __asm__(""); return r * 3; }
KEPT int uncalled(int x) { int r = inner(x); __asm__(""); return end(r); }
int main(int argc, char **argv) { for (int i = 0; i < 100; i++) end(i); return argc > 9 ? uncalled(argc) : 0; }
"""


def test_calls_of_the_other_function_alone_are_no_hits_of_the_probed_one(
    backend: str, tmp_path: Path, clean: None
) -> None:
    path = compiled_c(tmp_path / "uncalled", UNCALLED, "-Wl,--no-as-needed", "-lstdc++")
    done = tracer("--backend", backend, "-e", f"uretprobe:{path}:uncalled {{ @ = count(); }}", "-c", str(path))
    assert (done.status, done.text) == (0, "")
    why = "uncalled did not run the code there, and has ended"
    assert done.err == f"Attached 1 probe\ntracer: no probe was hit: {why}\n"


def test_an_exception_passes_through_a_tail_call_whose_return_is_probed(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("throws")
    program = f"uretprobe:{path}:tail {{ @ = count(); }} uprobe:{path}:tail {{ @calls = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", f"{path} 4")
    assert (done.status, done.text) == (0, "8\n@calls: 4\n"), done.err


LIBRARIES = {
    "sqlite3": (
        "-l:libsqlite3.so.0",
        r"""
#include <stdio.h>
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open(const char *, sqlite3 **), sqlite3_step(sqlite3_stmt *), sqlite3_reset(sqlite3_stmt *);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_bind_int(sqlite3_stmt *, int, int);
int main(void)
{
    long n[128] = {0};
    sqlite3 *base;
    sqlite3_stmt *all;
    sqlite3_open(":memory:", &base);
    sqlite3_prepare_v2(base, "with recursive c(x) as (select 1 union all select x + 1 from c where x < 9)"
                             " select x from c", -1, &all, 0);
    for (int i = 0; i < 20; i++) {
        int code;
        do n[code = sqlite3_step(all)]++; while (code == 100);
        n[sqlite3_step(0)]++;
        sqlite3_bind_int(0, 1, 1), sqlite3_bind_int(all, 99, 1), sqlite3_reset(all);
    }
    for (int i = 0; i < 128; i++) if (n[i]) printf("%d %ld\n", i, n[i]);
    return 0;
}
""",
        "uretprobe:libsqlite3:sqlite3_step { @[(int32)retval] = count(); }",
    ),
    "pcre2": (
        "-l:libpcre2-8.so.0",
        r"""
#include <stdio.h>
#include <string.h>
typedef const char *text;
void *pcre2_compile_8(text, size_t, unsigned, int *, size_t *, void *);
void *pcre2_match_data_create_from_pattern_8(void *, void *);
int pcre2_match_8(void *, text, size_t, size_t, unsigned, void *, void *);
int main(void)
{
    static const text texts[] = {"xabbc", "nope", "abc", "ac"};
    long n[128] = {0};
    int error;
    size_t at;
    void *code = pcre2_compile_8("a(b+)c", 6, 0, &error, &at, 0);
    void *data = pcre2_match_data_create_from_pattern_8(code, 0);
    for (int i = 0; i < 90; i++) {
        text text = texts[i % 4];
        n[64 + pcre2_match_8(i % 9 ? code : 0, text, strlen(text), 0, 0, data, 0)]++;
    }
    for (int i = 0; i < 128; i++) if (n[i]) printf("%d %ld\n", i - 64, n[i]);
    return 0;
}
""",
        "uretprobe:libpcre2-8:pcre2_match_8 { @[(int32)retval] = count(); }",
    ),
    "qsort": (
        "-pthread",
        r"""
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
static jmp_buf out;
static int deep, leave;
static long n;
static int compare(const void *a, const void *b)
{
    if (leave) longjmp(out, 1);
    if (deep < 2) { int two[] = {2, 1}; deep++; qsort(two, 2, 4, compare); n++; deep--; }
    return *(const int *)a - *(const int *)b;
}
static int compare_r(const void *a, const void *b, void *c) { return compare(a, b); }
int main(void)
{
    for (volatile int i = 0; i < 30; i++) {
        int all[] = {4, 3, 2, i};
        deep = i % 3;
        qsort(all, 4, 4, compare), n++;
        deep = leave = 2;
        if (!setjmp(out)) qsort(all, 4, 4, compare);
        leave = 0;
        qsort_r(all, 4, 4, compare_r, 0);
    }
    printf("0 %ld\n", n);
    return 0;
}
""",
        "uretprobe:libc:qsort { @[0] = count(); }",
    ),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_returns_of_libraries_are_those_that_the_program_counts(
    library: str, backend: str, tmp_path: Path, clean: None
) -> None:
    flag, source, program = LIBRARIES[library]
    (tmp_path / "a.c").write_text(source)
    path = tmp_path / library
    subprocess.run(["gcc", "-O1", "-w", "-o", path, tmp_path / "a.c", flag], check=True)
    counted = subprocess.run([path], check=True, capture_output=True, text=True).stdout.split()
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", str(path))
    assert done.status == 0, done.err
    assert maps(done)["@"] == dict(zip(counted[::2], map(int, counted[1::2]), strict=True))
