"""Parameters of functions that LLVM calls in another way, since it saw all their callers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.dwarf.test_debug_info import parameters

OTHER = """
int printf(const char *, ...);
__attribute__((noinline)) int other(int unused, int used, const int *p) { printf("%d", used); return used + *p; }
__attribute__((noinline, visibility("hidden"))) int hidden(int unused, int used) { return printf("%d", used); }
"""
MAIN = """
int other(int, int, const int *), hidden(int, int);
int main(int argc, char **argv) { return other(7, argc, &argc) + hidden(argc, 3); }
"""


def build(folder: Path, *flags: str) -> Path:
    for name, text in (("other", OTHER), ("main", MAIN)):
        (folder / f"{name}.c").write_text(text)
    done = subprocess.run(["clang", "-O2", "-g", *flags, "other.c", "main.c", "-o", "made"], cwd=folder)
    if done.returncode:
        pytest.skip("this clang cannot link with these options")
    return folder / "made"


def test_what_the_link_made_local_is_where_debug_information_says(tmp_path: Path) -> None:
    found = parameters(build(tmp_path, "-flto"), "other")
    assert found["unused"].reason == "the compiler has optimised it out"
    assert [found[name].pieces for name in ("used", "p")] == [((0, 4, 0, 0),), ((0, 8, 1, 0),)]


@pytest.mark.parametrize("name", ["other", "hidden"])
def test_what_others_can_call_or_was_only_hidden_is_where_the_abi_says(name: str, tmp_path: Path) -> None:
    assert parameters(build(tmp_path), name)["used"].pieces == ((0, 4, 1, 0),)


def test_what_nobody_need_pass_is_not_read_though_others_can_call_it(tmp_path: Path) -> None:
    # The caller in the same file leaves in the register what is there.
    (tmp_path / "a.c").write_text(OTHER + "int main(int argc, char **argv) { return other(7, argc, &argc); }")
    for compiler, reason in ("clang", "the compiler has optimised it out"), ("gcc", ""):
        subprocess.run([compiler, "-g", "-O2", "-o", "made", "a.c"], cwd=tmp_path, check=True)
        found = parameters(tmp_path / "made", "other")
        assert (found["unused"].reason, found["used"].pieces) == (reason, ((0, 4, 1, 0),))


def test_a_call_that_is_said_to_be_another_is_believed_of_what_is_external_too(tmp_path: Path) -> None:
    (tmp_path / "lib.rs").write_text(
        "#[inline(never)] pub fn other(_unused: u32, used: u32, p: &u32) -> u32 { println!(\"{used}\"); used + *p }"
    )
    (tmp_path / "main.rs").write_text("fn main() { let n = std::env::args().count() as u32; lib::other(7, n, &n); }")
    library, program = ["--crate-type=rlib", "--crate-name=lib", "lib.rs"], ["--extern=lib=liblib.rlib", "main.rs"]
    for words in (library, ["-Clto=fat", *program]):
        subprocess.run(["rustc", "-g", "-O", *words], cwd=tmp_path, check=True, capture_output=True)
    listed = subprocess.run(["nm", tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    (name,) = (line.split()[2] for line in listed.splitlines() if "3lib5other" in line)
    found = parameters(tmp_path / "main", name)
    assert found["_unused"].reason == "the compiler has optimised it out"
    assert found["used"].pieces != ((0, 4, 1, 0),) and found["p"].pieces != ((0, 8, 2, 0),)


@pytest.mark.parametrize("attribute", ["ms_abi", "vectorcall", "swiftcall"])
def test_a_function_that_is_called_in_another_way_is_refused(attribute: str, tmp_path: Path) -> None:
    define = "__attribute__((noinline, {})) int {}(int a) {{ return a; }}\n".format
    main = "int main() { return other(kept(0)); }\n"
    (tmp_path / "a.c").write_text(define(attribute, "other") + define("preserve_most", "kept") + main)
    subprocess.run(["clang", "-g", "-O1", "-o", "made", "a.c"], cwd=tmp_path, check=True)
    reason = parameters(tmp_path / "made", "other")["a"].reason
    assert reason == "the function does not use the ABI's calling convention"
    assert parameters(tmp_path / "made", "kept")["a"].pieces == ((0, 4, 0, 0),)
