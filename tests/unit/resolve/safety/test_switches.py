"""Files whose stacks are switched or walked by a collector: no return probe holds a return address there."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.safety.test_returns import plan, reason, returns_by_objdump
from tracer import pipeline
from tracer.errors import Diagnostic, ProgramError, Source
from tracer.host.maps import Picture
from tracer.kernel.trials import filtered_returns
from tracer.resolve.binary import Binary
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.safety.plugins import FILTERED, switching_plugin
from tracer.resolve.safety.returns import ReturnPlan, plan_return

SOURCE = r"""
#include <stdlib.h>
#include <unistd.h>
#ifdef SWITCH
void SWITCH(void) { getppid(); }
#else
#define SWITCH getpid
#endif
__attribute__((noinline)) int leaf(int x) { return x * 3; }
__attribute__((noinline)) int waits(int x) { SWITCH(); return x + 1; }
int (*volatile hook)(int);
int tail(int x) { SWITCH(); return hook(x); }
__attribute__((noinline)) int often(int x, char *text)
{
    int sum = x;
    for (int i = 0; i < x; i++) sum += rand() * text[i];
    if (__builtin_expect(sum == 7, 0)) { write(2, text, 7); sum = rand() - sum; if (sum == 3) abort(); }
    return sum + rand();
}
int main(int argc, char **argv) { return leaf(argc) + waits(argc) + (hook ? tail(argc) : 0) + often(argc, argv[0]); }
"""
SWITCHES = ["swapcontext", "makecontext", "jump_fcontext", "zend_fiber_switch_context", "scm_c_make_gsubr"]
SWITCHED = "it may switch stacks while it runs (the file uses {})"
TAIL = "and its returns cannot all be found: the indirect jump at {} may leave it"


@pytest.mark.parametrize("name", SWITCHES)
def test_a_file_that_switches_stacks_is_probed_on_each_ret(build: Build, name: str) -> None:
    binary = Binary(str(build(SOURCE, "-O2", f"-DSWITCH={name}")))
    assert binary.unwinding.of_file == SWITCHED.format(name)
    assert plan(binary, "waits") == ReturnPlan("ret", returns_by_objdump(binary.path, "waits"))
    assert plan(binary, "leaf").kind == "uretprobe"  # it calls nothing that could switch
    assert reason(binary, "tail").startswith(f"a return probe on tail could kill the program: {SWITCHED.format(name)};")
    (tail,) = find_functions(binary, "tail")
    assert plan_return(binary.code, binary.unwinding, tail, True).danger == SWITCHED.format(name)


def test_the_same_program_without_a_switch_takes_return_probes(build: Build) -> None:
    binary = Binary(str(build(SOURCE, "-O2")))
    assert {plan(binary, name).kind for name in ("leaf", "waits", "tail", "often")} == {"uretprobe"}


def test_ocaml_is_refused_whatever_the_user_says(build: Build) -> None:
    binary = Binary(str(build(SOURCE, "-O2", "-DSWITCH=caml_frametable")))
    assert plan(binary, "waits").kind == "ret"
    (tail,) = find_functions(binary, "tail")
    with pytest.raises(Exception, match="OCaml's collector finds return addresses by their value"):
        plan_return(binary.code, binary.unwinding, tail, True)


def test_an_alternate_stack_counts_where_there_are_threads(build: Build) -> None:
    """It lies above no main thread's stack. Python has one for handlers that end the program."""
    threads = f"#include <pthread.h>\nvoid *start = pthread_create;\n{SOURCE}"
    alone = Binary(str(build(SOURCE, "-O2", "-DSWITCH=sigaltstack")))
    assert alone.unwinding.switched is None
    both = Binary(str(build(threads, "-O2", "-DSWITCH=sigaltstack")))
    assert both.unwinding.switched == SWITCHED.format("sigaltstack")
    assert plan(both, "waits").kind == "ret"
    assert Binary("/usr/bin/python3.11").unwinding.switched is None


def test_openssl_switches_only_where_an_engine_asks_for_it() -> None:
    binary = Binary("/lib/x86_64-linux-gnu/libcrypto.so.3")
    assert (binary.unwinding.of_file, plan(binary, "EVP_MD_free").kind) == (None, "uretprobe")
    (function,) = find_functions(binary, "ASYNC_pause_job")
    with pytest.raises(Exception, match="saves its return address for later or runs on another stack"):
        plan_return(binary.code, binary.unwinding, function)


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("name", ["dlopen", "dlsym", "dlvsym", "dlmopen"])
def test_what_answers_by_its_caller_keeps_its_return_address(name: str, unsafe: bool) -> None:
    binary = Binary("/lib/x86_64-linux-gnu/libc.so.6")
    (function, *_) = find_functions(binary, name)
    with pytest.raises(Exception, match="its result depends on its caller, which a return probe hides") as caught:
        plan_return(binary.code, binary.unwinding, function, unsafe)
    assert "--unsafe-returns" not in str(caught.value)


def test_backtrace_is_probed_on_each_ret() -> None:
    assert plan(Binary("/lib/x86_64-linux-gnu/libc.so.6"), "backtrace").kind == "ret"


def test_functions_of_haskell_are_never_called(build: Build) -> None:
    source = SOURCE + "int base_map_info(int x) { return often(x, 0); } int stg_ap_p_info;"
    binary = Binary(str(build(source, "-O2")))
    (function,) = find_functions(binary, "base_map_info")
    with pytest.raises(Exception, match="base_map_info is never called"):
        plan_return(binary.code, binary.unwinding, function, True)
    assert plan(binary, "often").kind == "uretprobe"


def test_what_a_process_has_loaded_counts_as_much(build: Build) -> None:
    binary = Binary(str(build(SOURCE, "-O2")))
    binary.switching = "greenlet, which process 7 has loaded, switches its stacks"
    assert plan(binary, "waits").kind == "ret"


@pytest.mark.parametrize(("filtered", "unsafe"), [(True, False), (True, True), (False, False)])
def test_where_a_filter_ends_programs_at_a_return_probe_there_is_none(
    build: Build, filtered: bool, unsafe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = build(SOURCE, "-O2")
    warnings: list[Diagnostic] = []
    monkeypatch.setattr(filtered_returns, "end_filtered_programs", lambda: filtered)
    begin = "config = { unsafe_returns = true } " if unsafe else ""

    def kinds(name: str) -> set[str]:
        plan, said = pipeline.plan(Source(f"{begin}uretprobe:{binary}:{name} {{ @ = count(); }}"))
        warnings.extend(said)
        return {site.kind for site in plan.sites}

    assert kinds("leaf") == kinds("often") == ({"ret"} if filtered else {"uretprobe"})
    if filtered and not unsafe:
        with pytest.raises(ProgramError, match=re.escape(FILTERED)):
            kinds("tail")
        assert not warnings
    else:
        assert kinds("tail") == {"uretprobe"}
        assert [each.message.endswith(f"{FILTERED}") for each in warnings] == [True] * unsafe


def test_the_cold_part_of_a_function_is_known_without_its_name(build: Build, tmp_path: Path) -> None:
    """GCC puts what seldom runs elsewhere; a stripped file has no name for it."""
    whole = build(SOURCE, "-O2", "-DSWITCH=swapcontext", "-rdynamic")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    parts = returns_by_objdump(str(whole), "often") + returns_by_objdump(str(whole), "often.cold")
    named = plan(Binary(str(whole)), "often")
    assert "often.cold" in subprocess.run(["nm", whole], capture_output=True, text=True, check=True).stdout
    assert named.kind == "ret" and sorted(named.addresses) == sorted(parts)
    assert plan(Binary(str(stripped)), "often") == named
    assert "only a pointer tells" in reason(Binary(str(stripped)), "tail")


CHAIN = r"""
#include <ucontext.h>
void *used = swapcontext;
asm(".globl f\n.type f, @function\nf: .cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\njmp 1f\nret\n.cfi_endproc\n"
    ".size f, .-f\n.rept PARTS\n1: .cfi_startproc\n.cfi_def_cfa_offset 16\njmp 1f\nret\n.cfi_endproc\n.endr\n"
    "1: .cfi_startproc\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\ncall getpid\nret\n.cfi_endproc");
int main(void) { return 0; }
"""


@pytest.mark.parametrize("parts", [62, 63])
def test_a_file_cannot_keep_us_busy_with_parts_that_lead_to_others(build: Build, parts: int) -> None:
    """Each is compared with those before it: a file of 10 MB could have taken half an hour."""
    binary = Binary(str(build(CHAIN.replace("PARTS", str(parts)), "-s", "-rdynamic", "-no-pie")))
    if parts == 62:
        assert plan(binary, "f").kind == "ret"
    else:
        assert reason(binary, "f").endswith("its returns cannot all be found: it has more than 64 parts")


def test_a_perl_that_has_loaded_coro_switches_its_stacks(tmp_path: Path) -> None:
    program, other = tmp_path / "perl", tmp_path / "awk"
    plugin = tmp_path / "Coro" / "State" / "State.so"
    plugin.parent.mkdir(parents=True)
    with ExitStack() as stack:
        for each in (program, other, plugin):
            assert switching_plugin(str(program), [Picture(os.getpid())]) is None
            each.write_bytes(b"code")
            file = stack.enter_context(each.open("rb"))
            stack.enter_context(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
        reason = switching_plugin(str(program), [Picture(os.getpid())])
        assert reason is not None and reason.startswith(f"Coro, which process {os.getpid()} (")
        assert switching_plugin(str(other), [Picture(os.getpid())]) is None
