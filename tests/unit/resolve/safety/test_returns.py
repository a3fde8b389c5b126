from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter
from tests.unit.resolve.programs import FUNCTIONS_C, LIBRARY_C, THROWS_CC
from tracer.kinds.site import TailPlace
from tracer.resolve.binary import Binary
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.functions.lookup import find_functions
from tracer.resolve.safety.placement import UNSAFE
from tracer.resolve.safety.recursion import Recursion
from tracer.resolve.safety.returns import ReturnPlan, plan_return

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
NEEDS = "a C++ exception may cross it (the file needs libstdc++.so.6)"
REMEDY = "trace its entry with uprobe, or the return of a function that calls it"


def plan(binary: Binary, name: str) -> ReturnPlan:
    (function,) = find_functions(binary, name)
    return plan_return(binary.code, binary.unwinding, function)


def followed(binary: Binary, name: str) -> ReturnPlan:
    """The same where tail calls are followed."""
    (function,) = find_functions(binary, name)
    return plan_return(binary.code, binary.unwinding, function, called=Recursion(binary.code).called)


def reason(binary: Binary, name: str, plan: Callable[[Binary, str], ReturnPlan] = plan) -> str:
    with pytest.raises(ElfError) as caught:
        plan(binary, name)
    assert caught.value.hint in (REMEDY, REMEDY + UNSAFE)
    prefix = f"{binary.shown}: "
    assert caught.value.message.startswith(prefix)
    return caught.value.message[len(prefix) :]


def returns_by_objdump(path: str, symbol: str) -> tuple[int, ...]:
    text = subprocess.run(
        ["objdump", "-d", f"--disassemble={symbol}", path], capture_output=True, text=True, check=True
    )
    return tuple(
        int(line.split(":")[0], 16) for line in text.stdout.splitlines() if re.search(r"\tret\b|\trepz ret", line)
    )


@pytest.mark.parametrize("name", ["malloc", "free", "calloc", "printf", "fopen", "read", "getenv", "fwrite", "puts"])
def test_the_c_library_takes_return_probes(name: str) -> None:
    binary = Binary(LIBC)
    (function,) = find_functions(binary, name)
    assert plan(binary, name) == ReturnPlan("uretprobe", (function.address,))


def test_a_plain_c_program_takes_return_probes(build: Build) -> None:
    for flags in (("-O0",), ("-O2",), ("-O2", "-no-pie"), ("-O1", "-s", "-rdynamic")):
        binary = Binary(str(build(FUNCTIONS_C, *flags)))
        assert binary.unwinding.of_file is None
        assert plan(binary, "public_name").kind == "uretprobe"


def test_python_and_postgres_are_plain_c() -> None:
    for path in ("/usr/bin/python3.11", "/usr/lib/postgresql/15/bin/postgres"):
        assert Binary(path).unwinding.of_file is None


def test_what_calls_back_from_the_c_library_is_no_place_for_a_return_probe() -> None:
    danger = "it calls functions of the program, which may throw a C++ exception across it"
    binary = Binary(LIBC)
    assert plan(binary, "bsearch").kind == "ret"
    assert reason(binary, "qsort") == (
        f"a return probe on qsort could kill the program: {danger};"
        " and its returns cannot all be found: it ends in a jump to qsort_r (tail call)"
    )


@pytest.mark.parametrize("name", ["_setjmp", "vfork", "swapcontext"])
def test_functions_that_return_twice_are_refused(name: str) -> None:
    binary = Binary(LIBC)
    (function, *_) = find_functions(binary, name)
    with pytest.raises(ElfError) as caught:
        plan_return(binary.code, binary.unwinding, function._replace(name=name))
    assert caught.value.message == (
        f"{LIBC}: {name} saves its return address for later or runs on another stack,"
        " so a return probe would kill the program"
    )


@pytest.mark.parametrize("name", ["_start", "_dl_runtime_resolve_xsavec", "__restore_rt"])
def test_code_that_is_never_called_is_refused(build: Build, name: str) -> None:
    binary = Binary(str(build(FUNCTIONS_C, "-O1")))
    (entry,) = find_functions(binary, "_start")
    (called,) = find_functions(binary, "public_name")
    # Whatever the entry point is called it is one.
    for function in (called._replace(name=name), entry._replace(name="begin")):
        with pytest.raises(ElfError) as caught:
            plan_return(binary.code, binary.unwinding, function)
        assert caught.value.message == (
            f"{binary.shown}: {function.name} is never called: no return address is on the stack where it begins,"
            " and a return probe would overwrite what is there"
        )
        assert caught.value.hint == "trace its entry with uprobe"


COLD_C = r"""
__attribute__((cold, noinline)) void complain(long *p) { __asm__ volatile("" :: "r"(p) : "memory"); }
__attribute__((noinline)) long saves(long *p)
{
    __asm__ volatile("" ::: "rbx");
    if (__builtin_expect(*p % 7 == 0, 0)) { complain(p); complain(p); }
    return *p;
}
int main(int argc, char **argv) { long n = argc; return saves(&n) != argc; }
"""


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("flags", [(), ("-fno-asynchronous-unwind-tables",)])
def test_the_cold_part_of_a_function_takes_no_return_probe(
    build: Build, flags: tuple[str, ...], unsafe: bool, tmp_path: Path
) -> None:
    """The probe wrote its address over the register that the function had saved: the program went on with that."""
    path = build(COLD_C, "-O2", *flags)
    binary = Binary(str(path))
    (cold,) = find_functions(binary, "saves.cold")
    with pytest.raises(ElfError, match=r"saves\.cold is never called: no return address is on the stack"):
        plan_return(binary.code, binary.unwinding, cold, unsafe)
    assert plan(binary, "saves").kind == plan(binary, "complain").kind == "uretprobe"
    if not flags:
        subprocess.run(["strip", "-o", tmp_path / "stripped", path], check=True)
        binary = Binary(str(tmp_path / "stripped"))
        with pytest.raises(ElfError, match=f"the function at {cold.address:#x} is never called"):
            plan_return(binary.code, binary.unwinding, cold._replace(name=f"the function at {cold.address:#x}"), unsafe)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(
    ("name", "symbol"), [("crossed(int)", "_Z7crossedi"), ("main", "main"), ("choose(int)", "_Z6choosei")]
)
def test_cpp_functions_are_probed_on_each_ret(build: Build, level: str, name: str, symbol: str) -> None:
    binary = Binary(str(build(THROWS_CC, level, language="c++")))
    expected = returns_by_objdump(binary.path, symbol)
    assert expected and plan(binary, name) == ReturnPlan("ret", expected)


def test_a_function_that_calls_nothing_cannot_be_thrown_through(build: Build) -> None:
    binary = Binary(str(build(THROWS_CC, "-O2", language="c++")))
    (function,) = find_functions(binary, "leaf(int)")
    assert plan(binary, "leaf(int)") == ReturnPlan("uretprobe", (function.address,))


def test_a_switch_is_followed_through_its_table(build: Build) -> None:
    """Each of the two ways gcc writes one: relative entries in PIE, addresses otherwise."""
    for flags in (("-O2",), ("-O2", "-no-pie", "-fno-pic"), ("-O0",)):
        binary = Binary(str(build(THROWS_CC, *flags, language="c++")))
        (function,) = find_functions(binary, "choose(int)")
        around = binary.code.range_of(function)
        jumps = [each for each in binary.code.instructions(around) if each.mnemonic == "jmp" and each.target is None]
        assert len(jumps) == 1, flags
        assert plan(binary, "choose(int)").kind == "ret"


def test_exits_that_are_not_ret_are_named(build: Build) -> None:
    binary = Binary(str(build(THROWS_CC, "-O2", language="c++")))
    begin = "a return probe on {} could kill the program: " + NEEDS + "; and its returns cannot all be found: "
    assert reason(binary, "tail(int)") == begin.format("_Z4taili") + "it ends in a jump to _Z7throweri (tail call)"
    message = reason(binary, "indirect(*")
    assert re.fullmatch(
        re.escape(begin.format("_Z8indirectPFiiEi")) + r"only a pointer tells where the jump at 0x[0-9a-f]+ goes",
        message,
    )


def test_a_c_library_function_that_calls_through_a_pointer_is_suspect(build: Build) -> None:
    binary = Binary(str(build(LIBRARY_C, "-O2", "-shared", "-fPIC")))
    assert plan(binary, "plain").kind == "uretprobe"
    assert plan(binary, "apply").kind == "ret"
    assert plan(Binary(str(build(LIBRARY_C + "int main(){return 0;}", "-O2"))), "apply").kind == "uretprobe"


def test_who_takes_the_risk_gets_a_return_probe_where_an_exception_alone_does_harm(build: Build) -> None:
    binary = Binary(str(build(THROWS_CC, "-O2", language="c++")))
    for name, danger in (("tail(int)", NEEDS), ("indirect(*", NEEDS), ("crossed(int)", None), ("leaf(int)", None)):
        (function,) = find_functions(binary, name)
        found = plan_return(binary.code, binary.unwinding, function, unsafe=True)
        assert found.danger == danger
        assert found == plan(binary, name) if danger is None else found.kind == "uretprobe"
    libc = Binary(LIBC)
    for name in ("_setjmp", "vfork", "__restore_rt"):
        (function, *_) = find_functions(libc, name)
        with pytest.raises(ElfError) as caught:
            plan_return(libc.code, libc.unwinding, function, unsafe=True)
        assert UNSAFE not in (caught.value.hint or "")


def test_of_go_no_risk_can_be_taken(tmp_path: Path) -> None:
    path = ElfWriter(
        text=(CALL + b"\xff\xe0").ljust(64, b"\xcc"),
        extra=[(".gopclntab", 1, 0, b"")],
        symbols=[("main.f", TEXT_ADDRESS, 7, 0x12)],
    ).write(tmp_path / "elf")
    binary = Binary(str(path))
    (function,) = find_functions(binary, "main.f")
    with pytest.raises(ElfError) as caught:
        plan_return(binary.code, binary.unwinding, function, unsafe=True)
    assert caught.value.hint == REMEDY


def test_static_linking_does_not_hide_cpp(build: Build) -> None:
    binary = Binary(str(build(THROWS_CC, "-O2", "-static-libstdc++", "-static-libgcc", language="c++")))
    assert binary.unwinding.of_file == "a C++ exception may cross it (the file uses _Unwind_RaiseException)" or (
        binary.unwinding.of_file or ""
    ).startswith("a C++ exception may cross it (the file uses __")
    stripped = Binary(str(build(THROWS_CC, "-O2", "-static", "-s", language="c++")))
    assert stripped.unwinding.of_file == "an exception may cross it (the file has exception tables)"


def test_a_static_c_program_is_still_plain_c(build: Build) -> None:
    source = FUNCTIONS_C.replace('__attribute__((ifunc("choose")))', "").replace("chosen(argc)", "choose()(argc)")
    assert Binary(str(build(source, "-O1", "-static"))).unwinding.of_file is None


def test_c_with_exception_clean_ups_is_suspect(build: Build) -> None:
    source = (
        "#include <stdlib.h>\nstatic void done(int *p) { abs(*p); }\n"
        "int work(int (*f)(int)) { __attribute__((cleanup(done))) int x = 1; return f(x) + x; }\n"
        "int main(int c, char **v) { return work(abs); }\n"
    )
    binary = Binary(str(build(source, "-O0", "-fexceptions")))
    assert binary.unwinding.of_file is not None
    assert plan(binary, "work").kind == "ret"


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (".gopclntab", "Go moves stacks and finds return addresses by their value"),
        (".comment", "a Rust panic may cross it"),
    ],
)
def test_go_and_rust_are_known_by_what_their_compilers_leave(tmp_path: Path, section: str, expected: str) -> None:
    content = b"rustc version 1.80.0 (abc)\0"
    path = ElfWriter(extra=[(section, 1, 0, content)], symbols=[("main.f", TEXT_ADDRESS, 2, 0x12)]).write(
        tmp_path / "elf"
    )
    binary = Binary(str(path))
    assert binary.unwinding.of_file == expected
    kind = "ret" if section == ".gopclntab" else "uretprobe"  # `nop; ret` calls nothing, but a Go stack moves anyway
    assert plan(binary, "main.f").kind == kind


def test_rust_symbols_are_enough(tmp_path: Path) -> None:
    path = ElfWriter(symbols=[("rust_eh_personality", TEXT_ADDRESS, 2, 0x12)]).write(tmp_path / "elf")
    assert Binary(str(path)).unwinding.of_file == "a Rust panic may cross it"


# --- small pieces of code whose exits are no proof -------------------------------------------------------------------


def hand_written(tmp_path: Path, code: bytes, size: int | None = None) -> Binary:
    writer = ElfWriter(
        text=code.ljust(64, b"\xcc"),
        symbols=[
            ("f", TEXT_ADDRESS, len(code) if size is None else size, 0x12),
            ("__cxa_throw", TEXT_ADDRESS + 60, 1, 0x12),
        ],
    )
    return Binary(str(writer.write(tmp_path / "elf")), "file")


CALL = b"\xe8\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (CALL + b"\xeb\x20", "it ends in a jump to 0x1027 (tail call)"),
        (CALL + b"\x74\x20\xc3", "it ends in a jump to 0x1027 (tail call)"),
        (CALL + b"\xff\xe0", "only a pointer tells where the jump at 0x1005 goes"),
        (CALL + b"\xff\x25\x00\x00\x00\x00", "only a pointer tells where the jump at 0x1005 goes"),
        (CALL + b"\x06\xc3", "its code at 0x1005 cannot be decoded"),
        (CALL + b"\xeb\xfb\xc3", "the jump at 0x1005 goes into the middle of an instruction"),
        (CALL + b"\x31\xc0", "it falls through into the code at 0x1007"),
        (CALL + b"\xeb\xfe", "it has no return instruction"),
        (CALL, "it has no return instruction"),
    ],
)
def test_no_proof_no_probe(tmp_path: Path, code: bytes, why: str) -> None:
    assert reason(hand_written(tmp_path, code), "f") == (
        "a return probe on f could kill the program: a C++ exception may cross it (the file uses __cxa_throw);"
        f" and its returns cannot all be found: {why}"
    )


def test_every_kind_of_ret_is_seen(tmp_path: Path) -> None:
    code = CALL + b"\x74\x02" + b"\xf3\xc3" + b"\x74\x03" + b"\xc2\x08\x00" + b"\xf2\xc3"
    binary = hand_written(tmp_path, code)
    assert plan(binary, "f") == ReturnPlan("ret", (TEXT_ADDRESS + 7, TEXT_ADDRESS + 11, TEXT_ADDRESS + 14))


def test_a_cold_part_is_looked_at_too(tmp_path: Path) -> None:
    code = CALL + b"\x0f\x84\x05\x00\x00\x00" + b"\xc3" + b"\x90" * 4 + CALL + b"\xc3"
    writer = ElfWriter(
        text=code.ljust(64, b"\xcc"),
        symbols=[
            ("f", TEXT_ADDRESS, 12, 0x12),
            ("f.cold", TEXT_ADDRESS + 16, 6, 0x02),
            ("__cxa_throw", TEXT_ADDRESS + 60, 1, 0x12),
        ],
    )
    binary = Binary(str(writer.write(tmp_path / "elf")))
    assert plan(binary, "f") == ReturnPlan("ret", (TEXT_ADDRESS + 11, TEXT_ADDRESS + 21))


PROBED, OTHER = TEXT_ADDRESS, TEXT_ADDRESS + 32


def two_functions(tmp_path: Path, probed: bytes, other: bytes, name: str = "g") -> Binary:
    """`f` and, 32 bytes behind it, another function."""
    writer = ElfWriter(
        text=(probed.ljust(32, b"\xcc") + other).ljust(96, b"\xcc"),
        symbols=[
            ("f", PROBED, len(probed), 0x12),
            (name, OTHER, len(other), 0x12),
            ("__cxa_throw", TEXT_ADDRESS + 92, 1, 0x12),
        ],
    )
    return Binary(str(writer.write(tmp_path / "elf")))


JUMP = CALL + b"\xe9" + (32 - 5 - 5).to_bytes(4, "little")  # f: call; jmp g


def test_a_tail_call_is_followed_to_the_returns_of_the_other_function(tmp_path: Path) -> None:
    found = followed(two_functions(tmp_path, JUMP, CALL + b"\xc3\x90\xc3"), "f")
    assert found.addresses == ()
    assert found.tails == (
        (PROBED + 5, TailPlace.JUMP), (OTHER + 5, TailPlace.END), (OTHER + 7, TailPlace.END)
    )  # fmt: skip


def test_a_tail_call_on_a_condition_says_which(tmp_path: Path) -> None:
    for number in range(16):
        probed = CALL + bytes([0x0F, 0x80 + number]) + (32 - 5 - 6).to_bytes(4, "little") + b"\xc3"
        found = followed(two_functions(tmp_path, probed, b"\xc3"), "f")
        assert found.addresses == (PROBED + 11,)
        assert found.tails == ((PROBED + 5, TailPlace.JUMP_IF + number), (OTHER, TailPlace.END))


NO_END = {
    "itself by way of the other": (JUMP, b"\xeb\xde", "g", "f (tail call), so it calls itself by a jump"),
    "no function": (
        JUMP.replace(b"\x16", b"\x26"), b"\xc3", "g", "0x1030 (tail call), where no function is known to begin",
    ),
    "the middle of one": (
        JUMP.replace(b"\x16", b"\x17"), CALL + b"\xc3", "g", "g (tail call), where no function is known to begin",
    ),
    "on through a pointer": (
        JUMP, b"\xff\xe0", "g", "g (tail call), and of that one: only a pointer tells where the jump at 0x1020 goes",
    ),
    "what returns twice": (
        JUMP, b"\xc3", "_setjmp", "_setjmp (tail call), which does not return as other functions do",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_END)
def test_a_tail_call_whose_end_is_not_proven_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    probed, other, name, why = NO_END[case]
    found = reason(two_functions(tmp_path, probed, other, name), "f", followed)
    assert found.partition(" found: ")[2] == f"it ends in a jump to {why}"


def test_a_tail_call_into_another_library_is_refused(build: Build) -> None:
    source = (
        '#include <stdio.h>\nextern "C" __attribute__((noinline)) int out(const char *s) { __asm__ volatile("");'
        ' return puts(s); } int main(int n, char **) { if (n > 9) throw 1; return out(""); }'
    )
    found = reason(Binary(str(build(source, "-O2", language="c++"))), "out", followed)
    assert re.search(r"it ends in a jump to 0x\w+ \(tail call\), which leads to another file$", found)


def test_a_jump_with_more_on_the_stack_is_no_tail_call(build: Build) -> None:
    # `pushed` calls by hand: the other function returns into it, and it returns itself.
    source = """
    __asm__(".text\\n.globl pushed\\n.type pushed,@function\\npushed:\\n.cfi_startproc\\n"
            "lea 1f(%rip),%rax\\npush %rax\\n"
            ".cfi_adjust_cfa_offset 8\\njmp other\\n.cfi_adjust_cfa_offset -8\\n1: ret\\n.cfi_endproc\\n"
            ".size pushed,.-pushed\\n");
    extern "C" { __attribute__((noinline)) int other() { __asm__ volatile(""); return 1; } int pushed(); }
    int main(int n, char **) { if (n > 9) throw 1; return pushed(); }
    """
    found = reason(Binary(str(build(source, "-O1", language="c++"))), "pushed", followed)
    assert re.search(r"the jump at 0x\w+ leaves it with more on the stack than its return address$", found)


def test_what_ends_in_a_tail_call_takes_no_return_probe_though_the_user_takes_the_risk(tmp_path: Path) -> None:
    binary = two_functions(tmp_path, JUMP, b"\xc3")
    (function,) = find_functions(binary, "f")
    found = plan_return(binary.code, binary.unwinding, function, True, called=Recursion(binary.code).called)
    assert (found.kind, found.danger) == ("ret", None)


@pytest.mark.parametrize("between", [b"", b"\x90", b"\x48\x89\xc1", b"\x0f\xb7\xc8"])
def test_a_switch_is_bounded_though_moves_stand_behind_the_comparison(tmp_path: Path, between: bytes) -> None:
    before = CALL + b"\x83\xf8\x01" + between  # cmp $1,%eax
    size = len(before) + 2 + 7 + 4 + 3 + 2
    # ja out; lea table(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax; ret; ret
    code = before + bytes([0x77, size - len(before) - 2])
    code += b"\x48\x8d\x15" + (48 - len(code) - 7).to_bytes(4, "little")
    code += b"\x48\x63\x04\x82" + b"\x48\x01\xd0" + b"\xff\xe0" + b"\xc3\xc3"
    table = (size - 48).to_bytes(4, "little", signed=True) + (size + 1 - 48).to_bytes(4, "little", signed=True)
    assert plan(hand_written(tmp_path, code.ljust(48, b"\xcc") + table, len(code)), "f") == ReturnPlan(
        "ret", (TEXT_ADDRESS + size, TEXT_ADDRESS + size + 1)
    )
