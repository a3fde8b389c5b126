"""How far stacks go, and how they end: long ones, those of signal handlers, and those that break off."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.test_stacks import STACK

pytestmark = pytest.mark.live

ELSEWHERE_C = r"""
    #include <signal.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    volatile long total;
    __attribute__((noinline)) void hit(long x) { total += x; asm volatile(""); }
    static void handler(int number) { hit(number); asm volatile(""); }
    __attribute__((noinline)) int inner(int n) { raise(SIGUSR1); asm volatile(""); return n; }
    __attribute__((noinline)) int far(int n)
    {
        char room[1000];
        memset(room, n, sizeof room);
        asm volatile("" : : "r"(room) : "memory");
        return (n ? far(n - 1) : inner(3)) + room[3];
    }
    int main(void)
    {
        stack_t other = {.ss_size = 65536, .ss_sp = malloc(65536)};
        sigaltstack(&other, NULL);
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, NULL);
        for (int i = 0; i < 20; i++) { far(99); usleep(20000); }
        return 0;
    }
"""


def test_a_handler_s_own_stack_and_a_hundred_kilobytes_are_followed_by_later_hits(tmp_path: Path, clean: None) -> None:
    (tmp_path / "far.c").write_text(ELSEWHERE_C)
    options = ("-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
    subprocess.run(["gcc", *options, "far.c", "-o", "far"], cwd=tmp_path, check=True)
    far = tmp_path / "far"
    program = f"uprobe:{far}:hit {{ @[ustack] = count(); }}"
    done = tracer("-q", "--backend", "bcc", "-e", program, "-c", str(far))
    found = Counter[tuple[str, ...]]()
    for frames, count in STACK.findall(done.printed):
        found[tuple(line.decode().strip().rpartition("+")[0] for line in frames.splitlines())] += int(count)
    assert found.total() == 20
    (whole, times), *_ = found.most_common()
    # One hit gets to where the signal came, one as far as a copy reaches; a tracer that is held up is late by some.
    assert times >= 8, (found, done.err)
    assert whole[:2] == ("hit", "handler") and whole.count("far") == 100
    assert whole[-105:] == ("inner", *["far"] * 100, "main", "__libc_start_call_main", *whole[-2:-1], "_start")
    for names in found:
        assert whole[: len(names)] == names
    assert "it goes on in another stack" in done.err
    assert "later hits of such a stack are walked further" in done.err
    done = tracer("-q", "--backend", "ftrace", "-e", program, "-c", str(far))
    said = "stacks that do not reach the program's start: 20: it goes on in another stack"
    assert f"{said}; --backend bcc walks them further" in done.err
    done = tracer("-q", "--backend", "ftrace", "-e", program.replace("ustack", "ustack(2)"), "-c", str(far))
    assert done.err == ""  # as many frames as were asked for


def test_hundreds_of_frames(backend: str, tmp_path: Path, clean: None) -> None:
    (tmp_path / "many.c").write_text(r"""
        __attribute__((noinline)) void hit(int n) { asm volatile("" : : "r"(n)); }
        __attribute__((noinline)) int rec(int n) { hit(n); return n ? rec(n - 1) + 1 : 0; }
        int main(void) { return rec(249) & 1; }
    """)
    options = ("-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
    subprocess.run(["gcc", *options, "many.c", "-o", "many"], cwd=tmp_path, check=True)
    program = f"uprobe:{tmp_path}/many:hit /arg0 == 0/ {{ @[ustack(256)] = count(); }}"
    found = tracer("-q", "--backend", backend, "--stacks", "folded", "-e", program, "-c", f"{tmp_path}/many")
    assert found.printed.endswith(b"main;" + b"rec;" * 250 + b"hit 1\n")
    more = program.replace("256", "257")
    found = tracer("-q", "--backend", backend, "--stacks", "folded", "-e", more, "-c", f"{tmp_path}/many")
    if backend == "bcc":
        assert "a stack of 257 frames is not available with bcc: the kernel's verifier takes a walk of 256" in found.err
        assert "--backend ftrace can" in found.err
    else:
        assert found.printed.endswith(b"main;" + b"rec;" * 250 + b"hit 1\n")


def test_the_ends_of_all_stacks_are_counted(backend: str, tmp_path: Path, clean: None) -> None:
    (tmp_path / "ends.c").write_text(r"""
        #include <unistd.h>
        __attribute__((noinline)) void hit(int n) { asm volatile("" : : "r"(n)); }
        void blind(int n); /* no table has it, and it has no frame pointer */
        asm("blind: push %rbp; mov $1, %ebp; call hit; pop %rbp; ret");
        int main(void)
        {
            for (int i = 0; i < 90; i++) { hit(i); usleep(2000); if (i % 3 == 0) blind(i); }
            return 0;
        }
    """)
    subprocess.run(["gcc", "-O1", "ends.c", "-o", "ends"], cwd=tmp_path, check=True)
    words, ends = ("-v", "--backend", backend, "-e"), str(tmp_path / "ends")
    program = f"uprobe:{ends}:hit {{ @[ustack] = count(); }}"
    said = "tracer: stacks: 90 whole, 30 no unwind table, and no frame pointer\n"
    assert said in tracer(*words, program, "-c", ends).err
    said = "tracer: stacks: 120 cut at the limit of frames\n"
    assert said in tracer(*words, program.replace("ustack", "ustack(2)"), "-c", ends).err


def test_a_stack_is_copied_up_to_a_page_that_was_never_touched(backend: str, tmp_path: Path, clean: None) -> None:
    (tmp_path / "hole.c").write_text(r"""
        __attribute__((noinline)) void hit(int n) { asm volatile("" : : "r"(n)); }
        __attribute__((noinline)) int at(int n)
        {
            char room[n];
            asm volatile("" : : "r"(room) : "memory");
            hit(n);
            return room[0];
        }
        int main(void)
        {
            unsigned long sp;
            asm volatile("mov %%rsp, %0" : "=r"(sp));
            at(65536 + ((sp + 256) & 4095)); /* 256 to 400 bytes below the end of a page */
            return 0;
        }
    """)
    subprocess.run(["gcc", "-O1", "-fno-stack-protector", "hole.c", "-o", "hole"], cwd=tmp_path, check=True)
    program = f"uprobe:{tmp_path}/hole:hit {{ @[ustack(2)] = count(); }}"
    done = tracer("-q", "--backend", backend, "--stacks", "folded", "-e", program, "-c", f"{tmp_path}/hole")
    assert (done.printed, done.err) == (b"at;hit 1\n", "")


ASSEMBLY_C = r"""
    #include <string.h>
    #include <sys/mman.h>
    __attribute__((noinline)) void hit(int n) { asm volatile("" : : "r"(n)); }
    void bare(int n), kept(int n), framed(int n);
    asm(".macro function name; .globl \\name; .type \\name, @function; \\name:; .endm");
    asm("function bare; push %rbx; mov %edi, %ebx; call hit; pop %rbx; ret; .size bare, . - bare");
    asm("function kept; push %rbp; mov $1, %ebp; call hit; pop %rbp; ret; .size kept, . - kept");
    asm("function framed; push %rbp; mov %rsp, %rbp; sub $16, %rsp; call hit; leave; ret; .size framed, . - framed");
    __attribute__((noinline)) void middle(void (*what)(int)) { what(1); asm volatile(""); }
    int main(void)
    {
        middle(bare);
        middle(kept);
        middle(framed);
        return 0;
    }
"""


@pytest.mark.parametrize("flags", [("-O0",), ("-O1",), ("-O2", "-fomit-frame-pointer")], ids=str)
def test_no_caller_of_assembly_without_tables_is_left_out(
    backend: str, flags: tuple[str, ...], tmp_path: Path, clean: None
) -> None:
    (tmp_path / "bare.c").write_text(ASSEMBLY_C)
    subprocess.run(["gcc", *flags, "bare.c", "-o", "bare"], cwd=tmp_path, check=True)
    bare = tmp_path / "bare"
    words = ("-q", "--backend", backend, "--stacks", "folded", "-e", f"uprobe:{bare}:hit {{ @[ustack] = count(); }}")
    done = tracer(*words, "-c", str(bare))
    before = "_start;__libc_start_main;__libc_start_call_main;main;middle"
    assert done.text == "".join(f"{before};{name};hit 1\n" for name in ("bare", "framed", "kept"))
    assert done.err == ""
    # Without symbols nothing says where the functions begin: a frame that is set up is found, the others end the stack.
    subprocess.run(["strip", "--keep-symbol=hit", "bare"], cwd=tmp_path, check=True)
    done = tracer(*words, "-c", str(bare))
    assert sorted(line.count(";") for line in done.text.splitlines()) == [1, 1, 6]
    assert "stacks that do not reach the program's start: 2: no unwind table, and no frame pointer\n" in done.err
