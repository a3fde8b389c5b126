from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.unit.host.test_processes import SLEEPS_C
from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter, usdt_note
from tests.unit.resolve.programs import FUNCTIONS_C, LIBRARY_C, PROBES_C, SEMAPHORE_C, THROWS_CC
from tracer.dataclass import replace
from tracer.errors import Diagnostic, NoFileYet, NothingInFiles, ProgramError, Source, TracerError
from tracer.host.maps import mappings
from tracer.kinds.site import EVERY_PROCESS, FileSite, Mem, Reg, Target, Unreadable, period_ns, places_among
from tracer.lang.syntax.parser import parse
from tracer.pipeline import plan
from tracer.resolve.binary import Binary
from tracer.resolve.elf.file import Elf
from tracer.resolve.files.identity import open_verified
from tracer.resolve.listing import list_lines
from tracer.resolve.sites.expand import expand

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


def sites(points: str, pid: int | None = None, limit: int = 5000) -> tuple[FileSite, ...]:
    target = Target(() if pid is None else [pid])
    return tuple(places_among(expand(parse(Source(points + " { @[func] = count(); }")), target, limit)[0]))


def verify_sites(found: Iterable[FileSite]) -> None:
    for path, identity in {(site.path, site.identity) for site in found}:
        os.close(open_verified(path, identity))


def fault(points: str, pid: int | None = None, limit: int = 5000) -> tuple[str, str | None]:
    with pytest.raises(ProgramError) as caught:
        sites(points, pid, limit)
    (found,) = caught.value.diagnostics
    assert "\n" not in found.message
    assert points[found.span.start : found.span.end] == points
    assert caught.value.exit_code == 2
    return found.message, found.hint


def names(found: tuple[FileSite, ...]) -> list[str]:
    return [site.probe for site in found]


@pytest.fixture
def here(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the test programs, which is the current one."""
    for name, source, flags in [
        ("shop", PROBES_C, ("-O2",)),
        ("sema", SEMAPHORE_C, ("-O2",)),
        ("funcs", FUNCTIONS_C, ("-O1",)),
        ("bare", FUNCTIONS_C, ("-O1", "-s", "-rdynamic")),
    ]:
        shutil.copy2(build(source, *flags), tmp_path / name)
    shutil.copy2(build(THROWS_CC, "-O2", language="c++"), tmp_path / "throws")
    shutil.copy2(build(THROWS_CC, "-O0", language="c++"), tmp_path / "classes")
    (tmp_path / "script").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sleeper(build: Build) -> Iterator[int]:
    with subprocess.Popen([str(build(SLEEPS_C, "-O1"))], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read(1) == b"x"
        yield process.pid
        process.kill()


# --- USDT ----------------------------------------------------------------------------------------------------------


def test_a_usdt_probe_becomes_all_its_sites(here: Path) -> None:
    found = sites(f"usdt:{here}/shop:shop:order")
    assert len(found) == 2
    assert {site.function for site in found} == {"by_register", "by_stack"}
    for site in found:
        assert (site.kind, site.path, site.probe) == ("usdt", f"{here}/shop", f"usdt:{here}/shop:shop:order")
        content = Path(site.path).read_bytes()
        assert content[site.offset] == 0x90
        assert (site.semaphore, site.semaphore_address) == (None, None)
        status = os.stat(site.path)
        assert (site.identity.inode, site.identity.mtime_ns) == (status.st_ino, status.st_mtime_ns)
        assert site.identity.build_id == Elf(site.path).build_id
    assert found[0].args != found[1].args


def test_the_provider_may_be_left_out_and_all_parts_may_hold_wildcards(here: Path) -> None:
    assert sites("usdt:./shop:order") == sites("usdt:./shop:shop:order")
    assert {site.probe for site in sites("usdt:./shop:*")} == {
        f"usdt:./shop:shop:{name}" for name in ("order", "consts", "globals", "element")
    }
    assert set(names(sites("usdt:./s*:*:[cb]*"))) == {"usdt:./shop:shop:consts", "usdt:./sema:app:busy"}


def test_paths_are_shown_as_written_and_opened_absolute(here: Path) -> None:
    (here / "link").symlink_to("shop")
    for path, shown in (
        ("./shop", "./shop"),
        ("shop", "shop"),
        ("./link", "./link"),
        (f"../{here.name}/sho[p]", f"../{here.name}/shop"),
    ):
        (site,) = sites(f"usdt:{path}:shop:consts")
        assert site.probe == f"usdt:{shown}:shop:consts"
        assert os.path.isabs(site.path) and os.path.samefile(site.path, here / "shop")


def test_one_file_under_several_names_is_probed_once(here: Path) -> None:
    (here / "shop2").symlink_to("shop")
    os.link(here / "shop", here / "shop3")
    assert names(sites("usdt:./shop*:shop:consts")) == ["usdt:./shop:shop:consts"]
    assert names(sites("usdt:./shop:shop:consts,usdt:./shop:shop:c*")) == ["usdt:./shop:shop:consts"]


def test_semaphores_come_as_file_offsets(here: Path) -> None:
    for site in sites("usdt:./sema:app:*"):
        assert site.semaphore is not None and site.semaphore_address is not None
        assert Elf(site.path).offset_of(site.semaphore_address) == site.semaphore


# --- functions -----------------------------------------------------------------------------------------------------


def test_a_function_s_arguments_are_those_of_the_calling_convention(here: Path) -> None:
    (site,) = sites("uprobe:./funcs:public_name")
    assert (site.kind, site.probe, site.function) == ("uprobe", "uprobe:./funcs:public_name", "public_name")
    assert [arg.operand for arg in site.args] == [
        *(Reg(name) for name in ("di", "si", "dx", "cx", "r8", "r9")),
        *(Mem("sp", at) for at in (8, 16, 24, 32)),
    ]
    assert {(arg.size, arg.signed) for arg in site.args} == {(8, False)}


def test_an_alias_is_named_as_the_user_did_and_a_wildcard_takes_the_place_once(here: Path) -> None:
    assert names(sites("uprobe:./funcs:other_name")) == ["uprobe:./funcs:other_name"]
    assert len(sites("uprobe:./funcs:*_name")) == 1


def test_an_offset_must_be_an_instruction_of_the_function(here: Path) -> None:
    (entry,) = sites("uprobe:./funcs:public_name")
    content = Path("funcs").read_bytes()[entry.offset : entry.offset + 4]
    assert content[:3] == b"\x48\x83\xec", "sub $8,%rsp"
    (site,) = sites("uprobe:./funcs:public_name+4")
    assert (site.address, site.offset) == (entry.address + 4, entry.offset + 4)
    assert (site.probe, site.function) == ("uprobe:./funcs:public_name+4", "public_name")
    assert site.args[0].operand == Reg("di")
    assert site.args[6].operand == Unreadable(
        "arguments on the stack can be read only at the function's first instruction"
    )
    at = entry.address
    assert fault("uprobe:./funcs:public_name+2") == (
        f"./funcs: {at + 2:#x} is inside an instruction, not at its start",
        f"the nearest starts are public_name ({at:#x}) and public_name+4 ({at + 4:#x})",
    )
    size = next(each.size for each in Binary("funcs").symbols.named("public_name"))
    assert (
        fault("uprobe:./funcs:public_name+5000")[0]
        == f"./funcs: public_name has {size} bytes, so there is no public_name+5000"
    )


def test_an_address_may_be_given(here: Path) -> None:
    (entry,) = sites("uprobe:./funcs:helper_one")
    (site,) = sites(f"uprobe:./funcs:{entry.address:#x}")
    assert site.probe == f"uprobe:./funcs:{entry.address}"
    assert (site.offset, site.function, site.args) == (entry.offset, "helper_one", entry.args)
    (stripped,) = sites(f"uprobe:./bare:{entry.address:#x}")
    assert (stripped.offset, stripped.function) == (entry.offset, "")
    (returned,) = sites(f"uretprobe:./funcs:{entry.address:#x}")
    assert (returned.kind, returned.function) == ("uretprobe", "helper_one")
    (middle,) = sites("uprobe:./funcs:public_name")
    inside = middle.address + 1
    assert fault(f"uprobe:./funcs:{inside:#x}")[0] == f"./funcs: {inside:#x} is inside an instruction, not at its start"
    assert fault("uprobe:./funcs:0x7fffff")[0] == "./funcs: the address at 0x7fffff is not in the file"


SOURCES = {
    "a.c": "static __attribute__((noinline)) int init(int n) { asm volatile(\"\"); return n + 1; }\n"
    "__attribute__((noinline)) int parse_a(int n) { return init(n) * 3; }\n"
    "int parse_c(int); int main(void) { return parse_a(1) + parse_c(1); }\n",
    "b.c": "static __attribute__((noinline)) int init(int n) { asm volatile(\"\"); return n + 2; }\n"
    "__attribute__((noinline)) int parse_c(int n) { return init(n) * 3; }\n",
}


def test_functions_of_a_source_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in SOURCES.items():
        Path(name).write_text(text)
    subprocess.run(["gcc", "-g", "-O1", "-o", "two", *SOURCES], check=True)
    inits = {site.address for site in sites("uprobe:./two:init")}
    (first,), (second,) = sites("uprobe:./two@a.c:init"), sites("uprobe:./two@b.c:init")
    assert first.address != second.address and {first.address, second.address} == inits
    assert (first.probe, first.function) == ("uprobe:./two@a.c:init", "init")
    assert names(sites("uprobe:./two@a.c:*")) == [f"uprobe:./two@a.c:{name}" for name in ("init", "parse_a", "main")]
    assert [site.kind for site in sites("uretprobe:./two@b.c:parse_*")] == ["uretprobe"]
    assert "\n".join(list_lines("uprobe:./two@b.c:*", Target())).split() == [
        "uprobe:./two@b.c:init", "uprobe:./two@b.c:parse_c"
    ]  # fmt: skip
    assert fault("uprobe:./two@b.c:parse_a") == (
        "./two: no function 'parse_a' comes from 'b.c'", f"parse_a comes from {tmp_path}/a.c"
    )  # fmt: skip
    assert fault("uprobe:./two@b.c:parse_a*") == (
        "./two: no function that matches 'parse_a*' comes from 'b.c'", f"parse_a comes from {tmp_path}/a.c"
    )  # fmt: skip
    assert fault("uprobe:./two@c.c:*")[0] == "./two: no code comes from a source file 'c.c'"
    Path("two").rename("two@a.c")
    assert {site.address for site in sites("uprobe:./two@a.c:init")} == inits
    assert fault("uprobe:./three@a.c:init")[0] == "./three@a.c: no such file"


LINES = """static int twice(int n) { return 2 * n; }

static inline __attribute__((always_inline)) int
later(int n);
__attribute__((noinline)) int larger(int a, int b)
{
    int sum = later(a);

    if (a > b)
        sum += later(b);
    asm volatile("" : "+r"(sum));
    return sum;
}
static inline __attribute__((always_inline)) int later(int n)
{
    asm volatile("" : "+r"(n));
    return twice(n) + 1;
}
int main(int argc, char **argv) { return larger(argc, 3) + later(argc); }
"""
OTHER = "__attribute__((noinline)) int other(int n) { return n + 1; } int main(void) { return 0; }"


@pytest.mark.parametrize("compiler", [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O2")])
def test_lines_of_a_range_and_of_a_function_are_those_that_each_has_alone(
    compiler: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.c").write_text(LINES)
    subprocess.run([*compiler, "-g", "-o", "app", "lines.c"], check=True)
    every = sites("uprobe:./app@lines.c:1-30")
    alone = {number: sites(f"uprobe:./app:lines.c:{number}") for number in {site.line for site in every}}
    assert list(every) == [site for number in sorted(alone) for site in alone[number]]
    for number in {*range(1, 31)} - set(alone):
        assert fault(f"uprobe:./app:lines.c:{number}")[0] == f"./app: no code begins at lines.c:{number}"
    own = [number for number in sorted(alone) if 5 <= number <= 13]
    assert {9, 12} < {*own} and {site.line for site in sites("uprobe:./app@lines.c:9-12")} < {*own}
    assert list(sites("uprobe:./app@lines.c:larger:*")) == [site for number in own for site in alone[number]]
    assert {site.line for site in sites("uprobe:./app@lines.c:mai*:*")} == {19}
    near = f"lines with code are 1 and {own[0]}" if 1 in alone else f"line with code is {own[0]}"
    assert fault("uprobe:./app@lines.c:2-3") == ("./app: no code begins at lines.c:2-3", f"the nearest {near}")
    assert fault("uprobe:./app@lines.c:30-40") == (
        "./app: no code begins at lines.c:30-40", "the nearest line with code is 19"
    )  # fmt: skip
    assert fault("uprobe:./app@lines.c:small:*")[0] == "./app: no function 'small'"
    assert "\n".join(list_lines("uprobe:./app@lines.c:main:*", Target())).split() == ["uprobe:./app:lines.c:19"]


INSTANCES = """static volatile long sink;
template <typename T> __attribute__((noinline)) long twice(T n)
{
    sink += (long)n;
    return 2 * sink;
}
int main(int argc, char **)
{
    auto visit = [&](int n) {
        return n + argc;
    };
    return twice<int>(argc) + twice<double>(argc) + visit(argc);
}
"""


def test_lines_of_a_template_are_those_of_the_instance_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.cc").write_text(INSTANCES)
    subprocess.run(["g++", "-O0", "-g", "-o", "app", "t.cc"], check=True)
    ints, doubles = sites('uprobe:./app@t.cc:"twice<int>":*'), sites('uprobe:./app@t.cc:"twice<double>":*')
    assert [site.line for site in ints] == [site.line for site in doubles] == [2, 4, 5, 6]
    every = sites('uprobe:./app@t.cc:"twice<*":*')
    assert {site.address for site in every} == {site.address for site in (*ints, *doubles)}
    assert every == sites("uprobe:./app@t.cc:2-6")
    assert [site.line for site in sites("uprobe:./app@t.cc:main:*")] == [8, 11, 12, 13]


def test_only_indirect_functions_of_the_source_file_are_missed(here: Path) -> None:
    Path("chosen.c").write_text(FUNCTIONS_C.replace("int main(", "int run("))
    Path("main.c").write_text("int run(int, char **); int main(int argc, char **argv) { return run(argc, argv); }")
    subprocess.run(["gcc", "-g", "-O1", "-o", "apart", "chosen.c", "main.c"], check=True)

    def said(points: str) -> list[str]:
        warnings: list[Diagnostic] = []
        expand(parse(Source(f"{points} {{ }}")), Target(), warnings=warnings)
        return [each.message for each in warnings]

    unknown = "it is not known which code runs for the indirect functions chosen"
    own = len(sites("uprobe:./apart@chosen.c:*"))
    assert said("uprobe:./apart@main.c:*") == []
    assert said("uprobe:./apart@chosen.c:*") == [f"1 of {own + 1} functions left out: {unknown}"]


def test_a_place_in_the_file_may_be_given(here: Path, build: Build) -> None:
    shutil.copy2(build(FUNCTIONS_C, "-O1", "-no-pie"), here / "apart")
    (entry,) = sites("uprobe:./apart:helper_one")
    assert entry.offset != entry.address
    (site,) = sites(f"uprobe:./apart:offset:{entry.offset}")
    assert site == replace(entry, probe=f"uprobe:./apart:offset:{entry.offset:#x}")
    (returned,) = sites(f"uretprobe:./apart:offset:{entry.offset:#x}")
    assert (returned.kind, returned.address) == ("uretprobe", entry.address)
    assert fault("uprobe:./apart:offset:0x7fffff") == ("./apart: the file has no code at offset 0x7fffff", None)
    assert fault(f"uprobe:./apart:offset:{entry.address:#x}") == (
        f"./apart: the file has no code at offset {entry.address:#x}",
        f"it has at that address: uprobe:./apart:{entry.address:#x}",
    )


def test_an_address_that_is_a_place_in_the_file_is_told(here: Path, build: Build) -> None:
    shutil.copy2(build(FUNCTIONS_C, "-O1", "-no-pie"), here / "apart")
    (entry,) = sites("uprobe:./apart:public_name")
    assert fault(f"uprobe:./apart:{entry.offset:#x}") == (
        f"./apart: the address at {entry.offset:#x} is not in the file's code, but that is an offset of code in it",
        f"if that is meant write uprobe:./apart:offset:{entry.offset:#x}; its address is {entry.address:#x}",
    )


def test_libraries_are_found_by_name() -> None:
    for name in ("libc", "libc.so.6", "c", LIBC):
        assert names(sites(f"uprobe:{name}:malloc")) == [f"uprobe:{LIBC}:malloc"]


def test_programs_are_found_in_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = here / "bin"
    other.mkdir()
    (other / "plain").write_text("#!/bin/sh\n")
    os.chmod(other / "plain", 0o755)
    programs = here / "programs"
    programs.mkdir()
    shutil.copy2(here / "funcs", programs / "plain")
    monkeypatch.setenv("PATH", f"{other}:{programs}")
    assert names(sites("uprobe:plain:main")) == [f"uprobe:{programs}/plain:main"]


def test_a_return_probe_is_of_the_kind_that_is_safe(here: Path) -> None:
    (plain,) = sites("uretprobe:./funcs:public_name")
    assert (plain.kind, plain.args, plain.probe) == ("uretprobe", (), "uretprobe:./funcs:public_name")
    for site in sites("uretprobe:./throws:_Z7crossedi"):
        assert (site.kind, site.args, site.function) == ("ret", (), "crossed(int)")
        assert Path("throws").read_bytes()[site.offset] == 0xC3
        assert site.probe == "uretprobe:./throws:_Z7crossedi"


def test_cpp_names_may_be_quoted(here: Path) -> None:
    for name in ("shop::Order::price(long, char)", "shop::Order::price", "shop::*(long*"):
        found = sites(f'uprobe:./classes:"{name}"')
        assert [site.function for site in found if "long" in site.function] == ["shop::Order::price(long, char)"]
    assert fault('uprobe:./classes:"shop::Order::pric(long, char)"') == (
        "./classes: no function 'shop::Order::pric(long, char)'",
        "did you mean shop::Order::price(long, char) or shop::Order::price(int) const?",
    )


def test_equal_offsets_are_one_place_in_one_file_alone(here: Path) -> None:
    shutil.copy2(here / "funcs", here / "copy")
    one = sites("uprobe:./funcs:*")
    both = sites("uprobe:./funcs:*, uprobe:./copy:*, uprobe:./funcs:main")
    # For `main` it is the attach point that names it: of that nothing may be left out.
    assert [site for site in both[: len(one)] if site.point == 0] == [site for site in one if site.function != "main"]
    assert [site.probe for site in both if site.point == 2] == ["uprobe:./funcs:main"]
    assert [(site.offset, site.point) for site in both[len(one) :]] == [(site.offset, 1) for site in one]
    assert len({site.identity.inode for site in both}) == 2


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ("/strncmp(func, \"a\", 1)/ { }", True),
        ("{ if (1) { while (0) { @x[1, (func, 2)] = count(); } } }", True),
        ("{ print(len(@func)); } // func", False),
        ("{ $func = \"func\"; print($func); }", False),
        ("{ @[probe] = count(); } interval:s:1 { print(\"func\"); }", False),
    ],
)
def test_readable_names_are_looked_up_for_programs_that_show_them(
    body: str, asked: bool, build: Build, tmp_path: Path
) -> None:
    path = shutil.copy2(build(THROWS_CC, "-O0", language="c++"), tmp_path / "func")
    (site,) = expand(parse(Source(f"uprobe:{path}:_Z4leafi {body}")), Target())[0]
    assert site.function == ("leaf(int)" if asked else "_Z4leafi")


def test_what_is_in_no_file_has_a_site_of_its_own_and_every_fault_is_reported(here: Path) -> None:
    program = parse(Source("BEGIN { } usdt:./shop:consts { } interval:s:1 { } END { }"))
    found = expand(program, Target())
    kinds = [[(site.kind, site.probe, site.in_file) for site in found[index]] for index in range(4)]
    assert kinds == [
        [("begin", "begin", False)], [("usdt", "usdt:./shop:shop:consts", True)],
        [("interval", "interval:s:1", False)], [("end", "end", False)],
    ]  # fmt: skip
    assert period_ns(found[2]) == 1_000_000_000
    text = "usdt:./shop:nope { } uprobe:./none:f,uprobe:./funcs:main { } uprobe:./script:f { }"
    with pytest.raises(ProgramError) as caught:
        expand(parse(Source(text)), Target())
    assert [(each.message, text[each.span.start : each.span.end]) for each in caught.value.diagnostics] == [
        ("./shop: no USDT probe 'nope'", "usdt:./shop:nope"),
        ("./none: no such file", "uprobe:./none:f"),
        ("./script: a script, not an ELF file", "uprobe:./script:f"),
    ]


def test_go_functions_take_their_arguments_in_go_s_registers(tmp_path: Path) -> None:
    def args(info: bytes, name: str) -> list[object]:
        path = ElfWriter(
            extra=[(".go.buildinfo", 1, 0, info)],
            symbols=[("main.f", TEXT_ADDRESS, 2, 0x12), ("c_f", TEXT_ADDRESS, 2, 0x12)],
        ).write(tmp_path / "go")
        (site,) = sites(f"uprobe:{path}:{name}")
        return [arg.operand for arg in site.args[:3]]

    new = b"\xff Go buildinf:\x08\x02".ljust(32, b"\0") + b"\x06go1.22"
    assert args(new, "main.f") == [Reg("ax"), Reg("bx"), Reg("cx")]
    assert args(new, "c_f") == [Reg("di"), Reg("si"), Reg("dx")]
    assert args(new[:15] + b"\0", "main.f") == [Unreadable("Go before 1.18 passes arguments in its own way")] * 3


# --- a process -----------------------------------------------------------------------------------------------------


def test_with_a_process_no_path_is_needed(sleeper: int) -> None:
    program = os.readlink(f"/proc/{sleeper}/exe")
    libc = os.path.realpath(LIBC)
    assert names(sites("uprobe:*:malloc", sleeper))[-1].endswith("libc.so.6:malloc")
    for name in ("libc", "c", "libc.so.6"):
        (site,) = sites(f"uprobe:{name}:malloc", sleeper)
        assert os.path.samefile(site.path, libc)
    assert names(sites("uprobe:app:main", sleeper)) == [f"uprobe:{program}:main"]


def test_usdt_probes_of_a_process_are_found_without_a_path() -> None:
    command = ["/usr/bin/python3.11", "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "\n"
            found = sites("usdt::python:function__entry", process.pid)
            assert names(found) == ["usdt:/usr/bin/python3.11:python:function__entry"]
            assert fault("usdt::python:nothing", process.pid)[0].startswith(
                "no USDT probe matches 'python:nothing' in any of "
            )
        finally:
            process.communicate("\n")


def test_without_a_process_a_path_is_needed() -> None:
    assert fault("usdt::python:line") == (
        "the attach point names no file",
        "name the program or library, or a process with -p PID, whose files are then searched",
    )


def test_a_process_that_is_gone_is_said_to_be() -> None:
    assert fault("uprobe:libc:malloc", 4_194_304) == (
        "there is no process 4194304",
        "it may have ended; `pgrep -a NAME` lists those that run",
    )


# --- what is refused -----------------------------------------------------------------------------------------------


def test_what_is_not_there_is_named_with_what_is_near(here: Path) -> None:
    listing = "`tracer list 'usdt:./shop:*'` shows those of the file"
    for points, message, hint in [
        ("usdt:./shop:shop:ordr", "./shop: no USDT probe 'shop:ordr'", "did you mean shop:order?"),
        ("usdt:./shop:ordr", "./shop: no USDT probe 'ordr'", "did you mean order?"),
        ("usdt:./shop:store:element", "./shop: no USDT probe 'store:element'", "did you mean shop:element?"),
        ("usdt:./shop:zzz", "./shop: no USDT probe 'zzz'", listing),
        ("usdt:./shop:z*", "./shop: no USDT probe matches 'z*'", listing),
        ("usdt:./funcs:x", "./funcs: the file has no USDT probes", None),
        ("uprobe:./funcs:public_nam", "./funcs: no function 'public_nam'", "did you mean public_name?"),
        ("uprobe:./funcs:helper", "./funcs: no function 'helper'", "did you mean helper_one or helper_two?"),
        (
            "uprobe:./funcs:zz*",
            "./funcs: no function matches 'zz*'",
            "`tracer list 'uprobe:./funcs:*'` shows its functions",
        ),
        (
            "uprobe:./funcs:getpid",
            "./funcs: no function 'getpid': it is taken from another library",
            "trace it there: uprobe:libc:getpid",
        ),
        (
            "uprobe:./bare:helper_one",
            "./bare: no function 'helper_one', and the file is stripped of all names but those it exports",
            "install its debug symbols, or give an address: uprobe:./bare:0x…",
        ),
        ("uprobe:./fncs:f", "./fncs: no such file", f"did you mean {here}/funcs?"),
        ("uprobe:/nowhere/at/all:f", "/nowhere/at/all: no such file", "there is no directory /nowhere/at"),
        (
            "uprobe:no_such_program_xyzzy:f",
            "no_such_program_xyzzy: neither a program in PATH nor a library",
            "give its full path",
        ),
        ("uprobe:./nothing*:f", "./nothing*: no file matches", None),
        ("uprobe:./s*:zzz", "no function matches 'zzz' in any of 3 files", None),
        (f"uprobe:{here}:f", f"{here}: not a regular file", None),
    ]:
        assert fault(points) == (message, hint), points


def test_a_pattern_without_a_file_can_wait_for_one(here: Path) -> None:
    waits = parse(Source("uprobe:./nothing*:f { } BEGIN { }"))
    with pytest.raises(NoFileYet) as nothing:
        expand(waits, EVERY_PROCESS, later=True)
    assert (nothing.value.message, nothing.value.awaits_files) == ("./nothing*: no file matches", True)
    both = parse(Source("uprobe:./nothing*:f { } uprobe:./funcs:main { }"))
    assert [len(sites) for sites in expand(both, EVERY_PROCESS, later=True).values()] == [0, 1]
    with pytest.raises(NothingInFiles):
        expand(parse(Source("uprobe:./f*:zzz { }")), EVERY_PROCESS, later=True)
    for text in ("uprobe:./fncs:f { }", "uprobe:./funcs:zzz { }"):
        with pytest.raises(ProgramError) as wrong:
            expand(parse(Source(text)), EVERY_PROCESS, later=True)
        assert not wrong.value.awaits_files


def test_an_indirect_function_that_no_process_tells_is_refused_with_its_implementations(here: Path) -> None:
    message = "is an indirect function: its symbol is not the function but code that chooses it when the file is loaded"
    assert fault("uprobe:./funcs:chosen") == (
        f"./funcs: chosen {message}, and no process here tells which",
        "trace the implementations: fast_impl, slow_impl; or name one that has the file loaded: -p PID",
    )
    vdso = "and what it chooses lies in the kernel's vDSO, where no probe can be"
    assert fault("uprobe:libc:time") == (f"{LIBC}: time {message}, {vdso}", None)


def test_an_indirect_function_is_found_where_programs_run_it() -> None:
    (site,) = sites("uprobe:libc:strlen")
    symbol = next(each for each in Binary(LIBC).symbols.named("strlen"))
    assert symbol.ifunc and site.address != symbol.address
    assert (site.probe, site.function) == (f"uprobe:{LIBC}:strlen", "strlen")
    mapped = [each for each in mappings(os.getpid()) if each.path == os.path.realpath(LIBC) and each.executable]
    ours = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value or 0
    assert mapped[0].start + site.offset - mapped[0].offset == ours  # what our own loader gave us
    assert {site.offset} == {each.offset for each in sites("uprobe:libc:strlen", os.getpid())}


def test_a_pattern_goes_without_indirect_functions_that_cannot_be_told_and_says_so(here: Path) -> None:
    program = parse(Source("uprobe:./funcs:* { }"))
    warnings: list[Diagnostic] = []
    found = expand(program, Target(), warnings=warnings)[0]
    every = [each for each in Binary("funcs").symbols.matching(bool)]
    assert len(found) == len(every) - 1
    assert [each.message for each in warnings] == [
        f"1 of {len(every)} functions left out: it is not known which code runs for the indirect functions chosen"
    ]


def test_too_many_functions_are_refused_with_their_number() -> None:
    message, hint = fault("uprobe:libc:*", limit=100)
    count = int(message.split(" functions")[0].split()[-1])
    assert count > 1500
    assert message == f"{LIBC}: '*' matches {count} functions, more than max_probes (100)"
    assert hint == f"narrow the pattern, or lift the limit: --max-probes {count}"


def test_what_other_clauses_take_is_no_longer_free() -> None:
    text = "uprobe:libc:fopen { } uprobe:libc:sched_* { }"
    with pytest.raises(ProgramError) as caught:
        expand(parse(Source(text)), Target(), 5)
    (found,) = caught.value.diagnostics
    count = int(found.message.split(" functions")[0].split()[-1])
    assert found.message == f"{LIBC}: 'sched_*' matches {count} functions, more than max_probes (5) less 1 others"
    assert found.hint == f"narrow the pattern, or lift the limit: --max-probes {count + 1}"
    assert text[found.span.start : found.span.end] == "uprobe:libc:sched_*"
    every = expand(parse(Source(text)), Target(), count + 1)
    assert [len(every[0]), len(every[1])] == [1, count]


def test_the_limit_is_set_by_the_program_and_by_the_environment() -> None:
    text = "config = { max_probes = 3 } uprobe:libc:sched_* { @ = count(); }"
    with pytest.raises(ProgramError, match=r"more than max_probes \(3\)"):
        plan(Source(text))
    lowered, warnings = plan(Source(text), environment={"BPFTRACE_MAX_PROBES": "1000"})
    assert len(lowered.sites) > 3
    assert warnings == []


def test_a_return_probe_that_could_kill_is_refused(here: Path) -> None:
    begin = "./throws: a return probe on _Z8indirectPFiiEi could kill the program: a C++ exception may cross it"
    message, hint = fault("uretprobe:./throws:_Z8indirectPFiiEi")
    assert re.sub("0x[0-9a-f]+", "AT", message) == (
        f"{begin} (the file needs libstdc++.so.6);"
        " and its returns cannot all be found: only a pointer tells where the jump at AT goes"
    )
    assert hint == (
        "trace its entry with uprobe, or the return of a function that calls it; --unsafe-returns takes the risk"
    )
    assert fault("uretprobe:./throws:_Z8indi*")[0].startswith(begin)


def test_a_pattern_goes_without_what_cannot_be_probed_on_return_and_says_so_each_time(here: Path) -> None:
    reason = (
        "./throws: a return probe on _Z8indirectPFiiEi could kill the program: a C++ exception may cross it"
        " (the file needs libstdc++.so.6); and its returns cannot all be found: only a pointer tells where the jump at"
        " AT goes"
    )
    text = "uprobe:./throws:main, uretprobe:./throws:_Z[478]* { @ = count(); }"
    os.utime("throws", (1, 1))
    for _ in range(2):  # what is found is kept where that is all
        warnings: list[Diagnostic] = []
        found = expand(parse(Source(text)), Target(), warnings=warnings)[0]
        assert {site.probe for site in found} == {
            "uprobe:./throws:main",
            "uretprobe:./throws:_Z4leafi",
            "uretprobe:./throws:_Z4taili",
            "uretprobe:./throws:_Z7crossedi",
            "uretprobe:./throws:_Z7throweri",
        }
        (left_out,) = warnings
        assert re.sub("0x[0-9a-f]+", "AT", left_out.message) == (
            f"1 of 5 functions left out: they cannot be probed on return; the first: {reason};"
            " --unsafe-returns takes the risk"
        )
        assert text[left_out.span.start : left_out.span.end] == "uretprobe:./throws:_Z[478]*"
        assert (left_out.severity, left_out.lacking) == ("warning", True)


@pytest.mark.parametrize("point", ["_Z8indirectPFiiEi", "_Z[478]*"])
def test_who_takes_the_risk_is_told_of_it_each_time(here: Path, point: str) -> None:
    text = f"uretprobe:./throws:{point} {{ @ = count(); }}"
    os.utime("throws", (1, 1))
    for _ in range(2):
        warnings: list[Diagnostic] = []
        found = expand(parse(Source(text)), Target(), warnings=warnings, unsafe_returns=True)[0]
        assert "uretprobe:./throws:_Z8indirectPFiiEi" in {site.probe for site in found if site.kind == "uretprobe"}
        assert [(each.message, each.severity, each.lacking) for each in warnings] == [
            (
                "1 return probe can end the program that is traced: no handler catches an exception that"
                " crosses _Z8indirectPFiiEi while the probe is there; of the first: a C++ exception may cross it"
                " (the file needs libstdc++.so.6)",
                "warning",
                True,
            )
        ]


def test_by_its_address_it_is_told_too(here: Path) -> None:
    (site,) = sites("uprobe:./throws:_Z8indirectPFiiEi")
    warnings: list[Diagnostic] = []
    text = f"uretprobe:./throws:{site.address:#x} {{ }}"
    (found,) = places_among(expand(parse(Source(text)), Target(), warnings=warnings, unsafe_returns=True)[0])
    assert (found.kind, found.address, len(warnings)) == ("uretprobe", site.address, 1)


def test_attach_points_that_mean_nothing_can_be_left_out(here: Path) -> None:
    text = "uprobe:./throws:nobody, uprobe:./throws:main { @ = count(); } uprobe:./throws:nowhere { @n = count(); }"
    for missing, said in (("warn", 2), ("ignore", 0)):
        warnings: list[Diagnostic] = []
        found = expand(parse(Source(text)), Target(), warnings=warnings, missing=missing)
        assert [[(site.probe, site.point) for site in found[number]] for number in (0, 1)] == [
            [("uprobe:./throws:main", 1)],
            [],
        ]
        assert len(warnings) == said
        assert all(each.message.startswith("left out: ./throws: no function 'no") for each in warnings)
    with pytest.raises(ProgramError) as caught:
        expand(parse(Source("uprobe:./throws:main, uprobe:./throws:nobody { }")), Target())
    (fault,) = caught.value.diagnostics
    assert fault.hint is not None and fault.hint.endswith("config = { missing_probes = warn } leaves it out)")
    for missing in ("error", "warn", "ignore"):
        with pytest.raises(ProgramError) as caught:
            expand(parse(Source("uprobe:./throws:nobody { }")), Target(), missing=missing)
        assert caught.value.diagnostics[0].message.startswith("./throws: no function 'nobody'")


def test_a_file_that_is_not_there_is_an_error_whatever_may_be_missing(here: Path) -> None:
    with pytest.raises(ProgramError):
        expand(parse(Source("uprobe:./none:f, uprobe:./throws:main { }")), Target(), missing="warn")


@pytest.mark.parametrize(
    ("library", "file", "name"), [("libpthread", "so.0", "pthread_create"), ("libdl", "so.2", "dlopen")]
)
def test_what_moved_to_libc_is_looked_for_there(library: str, file: str, name: str) -> None:
    """Since glibc 2.34 these libraries are empty."""
    message, hint = fault(f"uprobe:{library}:{name}")
    assert message.endswith(f"/{library}.{file}: no function '{name}': it is in libc")
    assert hint == f"trace it there: uprobe:libc:{name}"


def test_a_file_of_another_machine_is_refused(tmp_path: Path) -> None:
    path = ElfWriter(machine=183, notes=usdt_note("p", "q")).write(tmp_path / "arm")
    assert fault(f"usdt:{path}:p:q") == (f"{path}: made for aarch64, but this machine is x86-64", None)


def test_a_damaged_file_is_an_error_by_name_and_passed_over_in_a_pattern(here: Path) -> None:
    content = Path("shop").read_bytes()
    Path("shop_cut").write_bytes(content[: len(content) // 2])
    end = Elf("shop")._shoff + 64
    assert fault("usdt:./shop_cut:consts")[0] == (
        f"./shop_cut: truncated ELF file: the section header table would end at byte {end} of {len(content) // 2}"
    )
    assert names(sites("usdt:./shop*:consts")) == ["usdt:./shop:shop:consts"]


def test_a_site_without_its_nop_is_refused_alone_and_left_out_among_others(here: Path) -> None:
    (site,) = sites("usdt:./shop:consts")
    every = sites("usdt:./shop:*")
    content = bytearray(Path("shop").read_bytes())
    content[site.offset] = 0xCC
    Path("changed").write_bytes(content)
    reason = f"./changed: the USDT probe shop:consts at {site.address:#x} is already a breakpoint in the file itself"
    assert fault("usdt:./changed:consts")[0] == reason
    warnings: list[Diagnostic] = []
    found = expand(parse(Source("usdt:./changed:* { @ = count(); }")), Target(), warnings=warnings)[0]
    assert {each.offset for each in places_among(found)} == {each.offset for each in every} - {site.offset}
    (said,) = warnings
    assert said.message == f"1 of {len(every)} sites left out: they cannot be probed; the first: {reason}"


def found_and_said(text: str) -> tuple[list[str], list[str]]:
    warnings: list[Diagnostic] = []
    found = expand(parse(Source(f"{text} {{ @ = count(); }}")), Target(), warnings=warnings)[0]
    return names(tuple(places_among(found))), [each.message for each in warnings]


def test_one_function_without_that_instruction_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = b"\xb8\1\2\3\4\xc3" + b"\x90\x90\xc3"
    symbols = [("f1", TEXT_ADDRESS, 6, 0x12), ("f2", TEXT_ADDRESS + 6, 3, 0x12)]
    ElfWriter(text=code, symbols=symbols).write(tmp_path / "app")
    found, (said,) = found_and_said("uprobe:./app:f*+1")
    assert found == ["uprobe:./app:f2+1"]
    assert said == (
        "1 of 2 functions left out: they cannot be probed at +1; the first:"
        f" ./app: {TEXT_ADDRESS + 1:#x} is inside an instruction, not at its start"
    )
    with pytest.raises(ProgramError):
        sites("uprobe:./app:f1+1")


def test_one_file_whose_probes_are_all_bad_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ElfWriter(notes=usdt_note("p", "a", semaphore=TEXT_ADDRESS)).write(tmp_path / "bad.so")
    ElfWriter(notes=usdt_note("p", "a")).write(tmp_path / "good.so")
    reason = f"bad.so: the semaphore of p:a at {TEXT_ADDRESS:#x} is not in the file's writable data"
    assert found_and_said("usdt:./*.so:p:a") == (["usdt:./good.so:p:a"], [f"left out: ./{reason}"])
    with pytest.raises(ProgramError):
        sites("usdt:./bad.so:p:a")


def test_a_file_that_changes_before_attaching_is_noticed(here: Path) -> None:
    found = sites("usdt:./shop:consts")
    verify_sites(found)
    os.utime("shop", ns=(0, 0))
    with pytest.raises(TracerError) as caught:
        open_verified(found[0].path, found[0].identity)
    assert (caught.value.message, caught.value.hint) == (
        f"{here}/shop: the file changed after its probes were looked up",
        "nothing was attached; run the command again",
    )
    os.unlink("shop")
    with pytest.raises(TracerError) as caught:
        verify_sites(found)
    assert caught.value.message == f"{here}/shop: the file has gone since it was checked: No such file or directory"


def test_a_file_that_cannot_be_opened_has_not_gone(here: Path) -> None:
    found = sites("usdt:./shop:consts")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(TracerError) as caught:
            open_verified(found[0].path, found[0].identity)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert caught.value.message == f"{here}/shop: the file cannot be opened: Too many open files"


def test_a_shared_library_without_pie_is_expanded_too(build: Build) -> None:
    library = build(LIBRARY_C, "-O2", "-shared", "-fPIC", name="libplain.so")
    fixed = build(PROBES_C, "-O2", "-no-pie")
    assert names(sites(f"uprobe:{library}:plain")) == [f"uprobe:{library}:plain"]
    for site in sites(f"usdt:{fixed}:*"):
        assert site.address - site.offset == 0x400000


@pytest.mark.parametrize(
    ("program", "kinds"),
    [
        ("uretprobe:libc:setlocale { @[ustack] = count(); }", {"uretprobe"}),
        ("uretprobe:libc:setlocale { @[ustack] = count(); } uprobe:libc:malloc { @n = count(); }", {"uretprobe"}),
        ("uretprobe:libc:setlocale { @ = count(); } uprobe:libc:malloc { @n = count(); }", {"uretprobe"}),
        ("uretprobe:libc:setlocale { @ = count(); } uprobe:libc:malloc { @s[ustack(3)] = count(); }", {"ret"}),
        ("uretprobe:libc:setlocale { @[ustack] = count(); } uretprobe:libc:getenv { @n = count(); }", {"ret"}),
        ("uretprobe:libc:setlocale, uretprobe:libc:getenv /len(dw_ustack) > 2/ { @ = count(); }", {"ret"}),
    ],
)
def test_no_return_probe_stands_on_a_stack_that_is_asked_for(program: str, kinds: set[str]) -> None:
    found = expand(parse(Source(program)), Target())
    assert {site.kind for own in found.values() for site in own if site.probe.startswith("uretprobe")} == kinds
