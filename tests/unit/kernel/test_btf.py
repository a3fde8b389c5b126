"""Offsets of members by BTF: those that the compiler gives, and no reading of damaged data."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracer.kernel.btf import offsets
from tracer.resolve.kernel_types import KernelTypes

SOURCE = """
#include <stddef.h>
#include <stdio.h>
enum colour { RED, GREEN };
typedef int (*handler)(void *, const char *);
struct later;
struct inner { char c; long numbers[3]; };
struct outer {
    char first;
    struct { int a; union { short b; long c; }; };
    unsigned bits : 3, more : 5;
    struct inner named;
    volatile const struct later *pointer;
    handler call;
    enum colour colour;
    double last;
};
struct later { struct outer o; int end; };
struct later one;
int main(void) {
    printf("%zu %zu %zu %zu %zu %zu ", offsetof(struct outer, first), offsetof(struct outer, a),
        offsetof(struct outer, b), offsetof(struct outer, c), offsetof(struct outer, named),
        offsetof(struct outer, last));
    printf("%zu %zu\\n", offsetof(struct later, end), offsetof(struct inner, numbers));
}
"""
WANTED = {"outer": ("first", "a", "b", "c", "named", "last"), "later": ("end", "none"), "inner": ("numbers",)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """BTF by gcc, and the offsets in the order of WANTED."""
    home = tmp_path_factory.mktemp("btf")
    (home / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-gbtf", "-o", "a", "a.c"], cwd=home, check=True)
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.BTF", "--set-section-flags", ".BTF=alloc", "a", "btf"],
                   cwd=home, check=True)  # fmt: skip
    said = subprocess.run(["./a"], cwd=home, check=True, capture_output=True, text=True).stdout
    return (home / "btf").read_bytes(), [int(word) for word in said.split()]


def test_members_lie_where_the_compiler_puts_them(made: tuple[bytes, list[int]]) -> None:
    data, expected = made
    found = offsets({**WANTED, "nobody": ("x",)}, KernelTypes(data))
    names = [(owner, member) for owner, members in WANTED.items() for member in members if member != "none"]
    assert found == dict(zip(names, expected, strict=True))


def test_the_kernels_own_is_read() -> None:
    path = Path("/sys/kernel/btf/vmlinux")
    if not path.exists():
        pytest.skip("a kernel with BTF is needed")
    found = offsets({"upid": ("nr", "ns"), "pid": ("level",)}, KernelTypes.own())
    assert (found["upid", "nr"], found["upid", "ns"]) == (0, 8)
    assert ("pid", "level") in found


def test_damaged_data_is_an_error_or_an_answer_but_no_crash(made: tuple[bytes, list[int]]) -> None:
    data, _ = made
    for cut in range(0, len(data), 7):
        for damaged in (data[:cut], data[:cut] + b"\xff\xff\xff\xff" + data[cut + 4 :]):
            try:
                offsets(WANTED, KernelTypes(damaged))
            except ValueError:
                continue
    with pytest.raises(ValueError, match="no BTF"):
        KernelTypes(bytes(len(data)))
