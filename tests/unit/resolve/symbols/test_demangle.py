"""Rust's names; `tests/live/test_rust.py` compares all those of a program with what c++filt makes of them."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from tracer.resolve.symbols import demangle
from tracer.resolve.symbols.demangle import MAX_TEXT, demangle_rust

HASH = "17h0123456789abcdefE"

READABLE = {
    f"_ZN4core3fmt9Formatter3pad{HASH}": "core::fmt::Formatter::pad",
    f"_ZN4core3fmt9Formatter3pad{HASH}.llvm.123456": "core::fmt::Formatter::pad",
    f"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar{HASH}":
        "<Test + 'static as foo::Bar<Test>>::bar",
    f"_ZN8$RF$testing{HASH}": None,  # shorter than it says
    f"_ZN13test$u20$test4foob{HASH}": "test test::foob",
    f"_ZN5foo.x{HASH}": "foo.x",
    f"_ZN6g$u1b$3bar{HASH}": "g$u1b$::bar",  # an escape that would steer the terminal stays as it is
    "_ZN4core3fmt9Formatter3padEv": None,  # C++'s
    "_RNvC6_123foo3bar": "123foo::bar",
    "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y": "utf8_idents::საჭმელად_გემრიელი_სადილი",
    "_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_": "cc::spawn::{closure#0}::{closure#0}",
    "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std":
        "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>",
    "_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new": "<arrayvec::ArrayVec<u8, 123>>::new",
    "_RMC0INtC8unsigned8unsignedKhb_E": "<unsigned::unsigned<11>>",
    "_RMC0INtC6signed6signedKs98_E": "<signed::signed<152>>",
    "_RMC0INtC6signed6signedKanb_E": "<signed::signed<-11>>",
    "_RMC0INtC4bool4boolKb1_E": "<bool::bool<true>>",
    "_RMC0INtC4char4charKc76_E": "<char::char<'v'>>",
    "_RMC0INtC4char4charKca_E": "<char::char<'\\n'>>",
    "_RMC0INtC4char4charKc2202_E": "<char::char<'∂'>>",
    "_RNvNvMCs4fqI2P2rA04_13const_genericINtB4_3FooKpE3foo3FOO": "<const_generic::Foo<_>>::foo::FOO",
    "_RINvC1n3tuphAxj3_EB2_": "n::tup::<u8, [i64; 3]>",
    "_RINvC1n1fFUKCRhEuEB2_": 'n::f::<unsafe extern "C" fn(&u8)>',
    "_RINvC1n1fFG_RL0_eEBa_EB2_": "n::f::<for<'a> fn(&'a str) -> &'a str>",
    "_RINvC1n1fFG_RL0_eERL0_eEB2_": "n::f::<for<'a> fn(&'a str) -> &'a str>",
    "_RINvC1n1fDG_INtNtC4core2op2FnTRL0_eEEp6OutputRL0_eEL_EB2_":
        "n::f::<dyn for<'a> core::op::Fn<(&'a str,), Output = &'a str>>",
    "_RINvC1n1fTQhPOSaEEB2_": "n::f::<(&mut u8, *const *mut [i8])>",
    "_RNSNvYNCNvC1n1f0INtNtC4core2op6FnOnceuE9call_once6vtableB4_":
        "<n::f::{closure#0} as core::op::FnOnce<()>>::call_once::{shim:vtable#0}",
    "_RNvC1n1f.llvm.123": "n::f",
    "_RNvC1n1": None,
    "_RNvC1n1fx": None,
    "_R": None,
    "_RNvC1nu2\x1b_f": None,
    "main": None,
}  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_names_are_readable_in_both_manglings(name: str) -> None:
    assert demangle_rust(name) == READABLE[name]


def base_62(value: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    tens, ones = divmod(value - 1, 62)
    return (digits[tens] if tens else "") + digits[ones] + "_"


def test_a_name_that_unfolds_without_end_is_none() -> None:
    name, back = "_RINvC1n1f", "h"
    for _ in range(30):  # a tuple of two of the tuple before, and so on; B says how far behind `_R` that begins
        start = len(name) - 2
        name += f"T{back}{back}E"
        back = f"B{base_62(start)}"
    assert demangle_rust(name + "E") is None
    assert demangle_rust("_RINvC1n1f" + "R" * 100_000 + "hE") is None
    assert demangle_rust("_RINvC1n1fFGzzzzzzzzzz_EuE") is None
    assert demangle_rust("_RB_") is None


@given(st.text("_RNvCMXYIBETFDSAPOQKLGpsu0123456789ahn", max_size=60))
def test_any_text_gets_an_answer_and_no_long_one(text: str) -> None:
    found = demangle_rust("_RNv" + text)
    assert found is None or len(found) <= MAX_TEXT


def test_without_the_package_names_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "multi_demangle", None)
    demangle._of_rust.cache_clear()
    try:
        assert demangle_rust("_RNvC6_123foo3bar") is None
    finally:
        demangle._of_rust.cache_clear()
