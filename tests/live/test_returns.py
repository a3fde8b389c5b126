"""Return probes: what is counted, what is refused, and what is lost, beside what the program itself counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.live.ftrace import compiled_c

pytestmark = pytest.mark.live

# What bpftrace's ssllatency.bt does, whose functions of libcrypto are in no symbol table of a stripped library.
SSL = """
uprobe:libssl:SSL_read, uprobe:libssl:SSL_write, uprobe:libssl:SSL_do_handshake { @start[tid] = nsecs; @f[tid] = func; }

uretprobe:libssl:SSL_read, uretprobe:libssl:SSL_write, uretprobe:libssl:SSL_do_handshake
/@start[tid] != 0/
{
    $us = (nsecs - @start[tid]) / 1000;
    if ((int32)retval >= 1) { @good[@f[tid]] = stats($us); } else { @bad[@f[tid]] = stats($us); }
    delete(@start[tid]); delete(@f[tid]);
}

uprobe:libcrypto:RSA_sign, uprobe:libcrypto:rsa_ossl_of_no_library { @crypto[func] = count(); }
"""


def test_the_functions_of_tls_are_timed_as_the_program_counts_them(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    script = tmp_path / "ssl.bt"
    script.write_text(SSL)
    args = ("--backend", backend, "-f", "json", "-o", str(tmp_path / "out"), "-c", f"{place('tls')} 9", str(script))
    refused = tracer(*args)
    assert refused.status == 2
    assert "--unsafe-returns takes the risk" in refused.err
    assert "no function 'rsa_ossl_of_no_library'" in refused.err
    done = tracer("--unsafe-returns", *args, env={"BPFTRACE_MISSING_PROBES": "warn"})
    assert done.status == 0, done.err
    assert "warning: 1 return probe can end the program that is traced: no handler catches an exception" in done.err
    assert "warning: left out: /" in done.err and "no function 'rsa_ossl_of_no_library'" in done.err
    names = ("SSL_do_handshake", "SSL_write", "SSL_read")
    counts = [line.split() for line in done.text.splitlines()]
    found = maps(replace(done, printed=(tmp_path / "out").read_bytes()))
    for number, key in enumerate(("@good", "@bad")):
        expected = {name: int(words[number]) for name, words in zip(names, counts, strict=True) if words[number] != "0"}
        assert {name: one["count"] for name, one in found[key].items()} == expected


def test_who_takes_the_risk_gets_the_returns_of_a_program_that_throws_nothing(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("throws")
    done = tracer("--backend", backend, "-e", f"uretprobe:{path}:aside {{ @ = count(); }}", "-c", f"{path} 0")
    assert (done.status, done.text) == (2, "")
    assert done.err.endswith("; --unsafe-returns takes the risk\n")
    for args, extra in ((("--unsafe-returns",), {}), ((), {"TRACER_UNSAFE_RETURNS": "1"})):
        program = f"uretprobe:{path}:outer, uretprobe:{path}:aside {{ @[func] = count(); }}"
        done = tracer(*args, "-q", "--backend", backend, "-e", program, "-c", f"{path} 0", env=extra)
        assert (done.status, done.text) == (0, "0\n")
        assert re.search(r"\^+ warning: 1 return probe can end the program .* crosses aside while", done.err)


# Another setjmp, as Free Pascal's FPC_SETJMP is: a return probe there made the program run in circles.
KEEPER = r"""
#include <stdio.h>
__asm__(".type keep,@function\nkeep:\n"
        "mov %rbx,(%rdi)\nmov %rbp,8(%rdi)\nmov %r12,16(%rdi)\n"
        "mov %r13,24(%rdi)\nmov %r14,32(%rdi)\nmov %r15,40(%rdi)\n"
        "lea 8(%rsp),%rax\nmov %rax,48(%rdi)\nmov (%rsp),%rax\nmov %rax,56(%rdi)\n"
        "xor %eax,%eax\nret\n.size keep,.-keep\n"
        ".type back,@function\nback:\n"
        "mov (%rdi),%rbx\nmov 8(%rdi),%rbp\nmov 16(%rdi),%r12\n"
        "mov 24(%rdi),%r13\nmov 32(%rdi),%r14\nmov 40(%rdi),%r15\n"
        "mov 48(%rdi),%rsp\nmov $1,%eax\njmp *56(%rdi)\n.size back,.-back\n");
int keep(long *) __attribute__((returns_twice));
void back(long *);
__attribute__((noinline)) void fail(long *kept, int depth)
{
    if (!depth) back(kept);
    fail(kept, depth - 1);
    __asm__("");
}
int main(void)
{
    static long kept[8];
    static volatile int caught;
    for (volatile int i = 0; i < 100; i++)
        if (!keep(kept)) fail(kept, 5); else caught++;
    printf("%d\n", caught);
    return 0;
}
"""


def test_a_function_that_keeps_its_return_address_is_probed_where_it_returns(
    backend: str, tmp_path: Path, clean: None
) -> None:
    path = compiled_c(tmp_path / "keeper", KEEPER)
    for risk in ((), ("--unsafe-returns",)):
        program = f"uretprobe:{path}:keep {{ @ = count(); }}"
        done = tracer(*risk, "-q", "--backend", backend, "-e", program, "-c", str(path))
        assert (done.status, done.text) == (0, "100\n@: 100\n"), done.err


def test_clauses_whose_attach_points_mean_nothing_go(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("throws")
    program = (
        f"config = {{ missing_probes = ignore }} uprobe:{path}:nobody {{ @none[arg0] = count(); }}"
        f" uprobe:{path}:nobody, uprobe:{path}:outer {{ @[probe] = count(); }}"
    )
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 4")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert done.text == f"8\n@[uprobe:{path}:outer]: 12\n"


# How it calls itself, how deep, how often; the probed function, how often it is called and returns, and what of the
# latter the kernel follows: 64 inside each other in a thread.
DEEP = {
    "by itself": ("self 200 3", "self", 600, 600),
    "through others": ("mutual 200 3", "first", 600, 600),
    "through a pointer": ("pointer 200 3", "pointed", 600, 3 * 64),
    "just not too deep": ("pointer 64 5", "pointed", 320, 320),
    "by one too deep": ("pointer 65 5", "pointed", 325, 320),
    "in threads": ("threads 100 5", "pointed", 2000, 20 * 64),
    "in a signal's handler": ("signal 200 2", "pointed", 200, 2 * 64),
}
NESTED = (
    "calls were nested deeper than the 64 whose returns the kernel follows in a thread; calls that longjmp or an"
    " exception ended, or that were under way at the end, are among them"
)


@pytest.mark.parametrize("case", DEEP)
def test_of_nested_calls_each_return_is_counted_or_said_to_be_lost(
    case: str, backend: str, place: Callable[[str], Path], clean: None
) -> None:
    words, function, calls, returns = DEEP[case]
    path = place("nested")
    program = (
        f"uprobe:{path}:{function} {{ @calls = count(); }}"
        f" uretprobe:{path}:{function} {{ @returns = count(); @[(int32)retval > 32] = count(); }}"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} {words}")
    assert done.status == 0, done.err
    found = maps(done)
    assert (found["@calls"], found["@returns"], sum(found["@"].values())) == (calls, returns, returns)
    lost = calls - returns
    lines = [line for line in done.text.splitlines() if "lost" in line]
    assert lines == ([f'{{"type": "lost_returns", "count": {lost}, "data": {{"returns": {lost}}}}}'] if lost else [])
    said = [line for line in done.err.splitlines() if "not seen" in line]
    assert said == ([f"tracer: {lost} return{'s' if lost > 1 else ''} not seen: {NESTED}"] if lost else [])


def test_returns_that_are_lost_behind_a_predicate_are_said_too(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("nested")
    program = f"uretprobe:{path}:pointed /(int32)retval == 200/ {{ @ = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", f"{path} pointer 200 2")
    assert (done.status, done.err) == (0, f"tracer: 272 returns not seen: {NESTED}\n")
    assert done.text == "400 400\n@: 2\n"


def test_where_calls_cannot_be_counted_it_is_said_all_the_same(place: Callable[[str], Path], clean: None) -> None:
    """Perf counts the threads of one process since Linux 5.13."""
    path = place("nested")
    program, command = f"uretprobe:{path}:pointed {{ @ = count(); }}", f"{path} pointer 100 2"
    args = ("-q", "--backend", "ftrace", "-e", program, "-c", command)
    done = tracer(*args, env={"TRACER_WITHOUT": "inherit_thread"})
    said = f"tracer: some returns, which could not be counted here, not seen: {NESTED}\n"
    assert (done.text, done.err) == ("200 200\n@: 128\n", said)


def test_after_longjmp_out_of_deep_calls_the_kernel_follows_none_and_that_is_said(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("nested")
    program = f"uretprobe:{path}:pointed {{ @ = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", f"{path} jump 100 3")
    seen = int(done.text.rpartition("@: ")[2] or 0) if "@: " in done.text else 0
    assert done.text.startswith("310 10\n") and seen <= 10
    assert done.err == f"tracer: {310 - seen} returns not seen: {NESTED}\n"


def test_functions_that_none_calls_twice_can_be_nested_too_deep_together(
    backend: str, tmp_path: Path, clean: None
) -> None:
    """More than 64 in a row, each called by the one before."""
    source = "__attribute__((noinline)) int f100(int x) { return x + 1; }\n"
    source += "#define F(a, b) __attribute__((noinline)) "
    source += 'int a(int x) { int y = b(x); __asm__("" : "+r"(y)); return y; }\n'
    source += "".join(f"F(f{number}, f{number + 1})\n" for number in range(99, 0, -1))
    path = compiled_c(tmp_path / "row", f"{source} int main() {{ return f1(0) == 0; }}", "-fno-ipa-icf")
    program = f"uretprobe:{path}:f[0-9]* {{ @ = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", str(path))
    assert (done.text, done.err) == ("@: 64\n", f"tracer: 36 returns not seen: {NESTED}\n")


def test_a_shared_library_calls_itself_through_its_linkage_table(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    library = compiled_c(tmp_path / "libdeep.so", DEEP_LIBRARY, "-shared", "-fPIC", "-O1")
    caller = "int deep(int); int main() { return deep(150) != 150; }"
    path = compiled_c(tmp_path / "calls", caller, f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path},--no-as-needed", "-ldeep")
    done = tracer("-q", "--backend", backend, "-e", f"uretprobe:{library}:deep {{ @ = count(); }}", "-c", str(path))
    assert (done.status, done.text, done.err) == (0, "@: 151\n", "")


DEEP_LIBRARY = """
int deep(int n)
{
    int below;
    if (n <= 0) return 0;
    below = deep(n - 1);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}
"""
