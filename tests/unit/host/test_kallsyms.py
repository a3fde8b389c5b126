"""/proc/kallsyms, as the kernel writes it and as it writes it for others than root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.host.tables.kallsyms import KernelSymbols

TEXT = b"""ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 T __pi__text
ffffffff81001000 t __do_sys_getuid
ffffffff81001000 T __x64_sys_getuid
ffffffff81001040 T panic
ffffffff81001100 W later
ffffffff82000000 T _etext
ffffffff82400000 D jiffies
ffffffffc0001000 t ext4_sync_file\t[ext4]
ffffffffc0025c34 t bpf_prog_0a2c7b3cac3deca8_probe_0\t[bpf]
"""


@pytest.fixture
def symbols(tmp_path: Path) -> KernelSymbols:
    path = tmp_path / "kallsyms"
    path.write_bytes(TEXT)
    return KernelSymbols(str(path))


@pytest.mark.parametrize(
    ("address", "name", "module"),
    [
        (0xFFFFFFFF81000010, "_text", "[kernel]"),
        (0xFFFFFFFF81001000, "__x64_sys_getuid", "[kernel]"),
        (0xFFFFFFFF810010FF, "panic", "[kernel]"),
        (0xFFFFFFFF82400000, "0xffffffff82400000", None),
        (0xFFFFFFFFC0001001, "ext4_sync_file", "[ext4]"),
        (0xFFFFFFFFC0025C40, "bpf_prog_0a2c7b3cac3deca8_probe_0", "[bpf]"),
        (0xFFFFFFFFFF600000, "0xffffffffff600000", None),
        (0x401000, "0x401000", None),
    ],
    ids=str,
)
def test_an_address_is_named(symbols: KernelSymbols, address: int, name: str, module: str | None) -> None:
    assert (symbols.symbol(address), symbols.module(address)) == (name, module)


def test_a_call_that_does_not_return_is_its_callers(symbols: KernelSymbols) -> None:
    assert symbols.frame(0xFFFFFFFF81001100) == "later+0"
    assert symbols.frame(0xFFFFFFFF81001100, returned=True) == "panic+192"


def test_a_symbol_is_looked_up(symbols: KernelSymbols) -> None:
    assert symbols.address_of("jiffies") == 0xFFFFFFFF82400000
    assert symbols.address_of("ext4_sync_file") == 0xFFFFFFFFC0001000
    assert symbols.address_of("nothing") is None and not symbols.hidden


def test_what_the_kernel_hides_is_said(tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_bytes(b"0000000000000000 T _text\n0000000000000000 T panic\n")
    symbols = KernelSymbols(str(path))
    assert symbols.frame(0xFFFFFFFF81000010) == "0xffffffff81000010" and symbols.hidden
    assert KernelSymbols(str(path)).address_of("panic") is None
    assert KernelSymbols(str(tmp_path / "none")).symbol(1 << 63) == "0x8000000000000000"


def test_one_reading_does_for_all_checks_of_a_name() -> None:
    from tracer.lang.builtins.hit import kernel

    kernel._address_of.cache_clear()
    first = kernel._address_of("vfs_read", kernel._modules())
    assert kernel._address_of("vfs_read", kernel._modules()) == first
    assert kernel._address_of("vfs_read", b"another module") == first
    assert kernel._address_of.cache_info().misses == 2
