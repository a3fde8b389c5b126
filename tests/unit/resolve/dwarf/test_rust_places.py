"""Parameters of Rust's functions, where its compiler puts them.

Generated programs of 60 functions were compared at each value with what they printed, of rustc 1.63 and 1.95.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.dwarf.test_debug_info import parameters
from tracer import cache

SOURCE = """
#![allow(dead_code, improper_ctypes_definitions, private_interfaces)]
#[inline(never)] fn keep<T>(value: &T) { unsafe { std::ptr::read_volatile(value as *const T as *const u8); } }
pub struct Pair(u8, u32);
struct Three(u8, u32, u64);
#[repr(C, packed)] struct Packed(u8, u32);
#[repr(align(8))] struct Aligned(u32, u32);
#[repr(transparent)] struct Metres(f64);
#[repr(C)] union Bits { a: u8, b: [u16; 2] }
union Same { a: u64, b: std::mem::ManuallyDrop<u64> }
enum Tagged { A(u32), B(u32), C }
enum Mixed { A(u32), B(u8) }
union Either { a: (u64, u64) }
enum Signs { A(i32), B(u32) }
macro_rules! f { ($n:ident $($p:ident: $t:ty),* => $r:expr, $rt:ty) => {
    #[inline(never)] fn $n($($p: $t),*) -> $rt { $(keep(&$p);)* $r } } }
f!(pair p: Pair, s: &'static str, after: u8 => 1, u8);
f!(memory t: Three, p: Packed, a: Aligned, three: [u8; 3], long: [u32; 3], after: u8 => 1, u8);
f!(enums o: Option<Box<u8>>, t: Tagged, m: Mixed, n: Option<u32>, after: u8 => 1, u8);
f!(text o: Option<&'static str>, v: Result<Vec<u8>, String>, unit: (), after: u8 => 1, u8);
f!(signs s: Signs, after: u8 => 1, u8);
f!(unions b: Bits, s: Same, after: u8 => 1, u8);
f!(number m: Metres, after: u8 => 1, u8);
f!(reals f: f32, p: (f32, u8), after: u8 => 1, u8);
f!(wide a: u8, w: u128, b: u8, c: u8, on_stack: u64, after: u8 => 1, u8);
f!(split a: u8, b: u8, c: u8, d: u8, e: u8, s: &'static str, t: &'static str, after: u8 => 1, u8);
f!(no_room a: u8, b: u8, c: u8, d: u8, e: u8, w: u128, after: u8 => 1, u8);
f!(by_address after: u8 => [0; 9], [u8; 9]);
f!(in_registers after: u8 => (1, 2), (u64, u64));
f!(either after: u8 => Either { a: (1, 2) }, Either);
#[no_mangle] #[inline(never)]
pub extern "C" fn exported(n: u8, s: &str, p: Pair, after: u8) -> u8 { keep(&p); n + after }
#[inline(never)]
pub extern "C" fn called_back(n: u8, p: Pair, t: [u8; 12], after: u8) -> u8 { keep(&p); keep(&t); n + after }
fn main() {
    called_back(1, Pair(1, 2), [1; 12], 2);
    pair(Pair(1, 2), "a", 3);
    memory(Three(1, 2, 3), Packed(1, 2), Aligned(1, 2), [1; 3], [1; 3], 4);
    enums(None, Tagged::A(1), Mixed::A(1), Some(2), 3);
    text(Some("a"), Ok(vec![]), (), 3);
    signs(Signs::A(1), 2);
    unions(Bits { a: 1 }, Same { a: 1 }, 2);
    number(Metres(1.0), 2);
    reals(1.0, (2.0, 3), 4);
    wide(1, 2, 3, 4, 5, 6);
    split(1, 2, 3, 4, 5, "a", "b", 6);
    no_room(1, 2, 3, 4, 5, 6, 7);
    by_address(1);
    in_registers(1);
    either(1);
    exported(1, "a", Pair(1, 2), 2);
}
"""

PLACES: dict[str, dict[str, list[int] | int | str]] = {
    "pair": {"p": [0, 1], "s": [2, 3], "after": [4]},
    "memory": {"t": "at 0", "p": [1], "a": [2], "three": [3], "long": "at 4", "after": [5]},
    "enums": {"o": [0], "t": [1, 2], "m": [3], "n": [4, 5], "after": 8},
    "text": {"o": [0, 1], "v": "at 2", "after": [3]},
    "signs": {"s": "Rust's own", "after": "Rust's own"},
    "unions": {"b": [0], "s": [1], "after": [2]},
    "number": {"m": "Rust's own", "after": "Rust's own"},
    "reals": {"f": "floating", "p": "a part", "after": [1]},
    "wide": {"w": [1, 2], "b": [3], "c": [4], "on_stack": [5], "after": 8},
    "split": {"s": "on the stack", "t": 16, "after": 32},
    "no_room": {"e": [4], "w": "Rust's own", "after": "Rust's own"},
    "by_address": {"after": [1]},
    "in_registers": {"after": [0]},
    "either": {"after": "Rust's own"},
    "exported": {"n": [0], "s": [1, 2], "p": "in different ways", "after": "in different ways"},
    "called_back": {"n": [0], "t": "in different ways", "after": "in different ways"},
}
"""Of parameters the numbers of their registers, of that which holds the address, or the bytes above the stack pointer;
or words of why they cannot be read.
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rust")
    (place / "places.rs").write_text(SOURCE)
    command = ["rustc", "-g", "-Copt-level=0", "--edition", "2021", "places.rs"]
    subprocess.run(command, check=True, cwd=place, capture_output=True)
    return place / "places"


@pytest.mark.parametrize("name", PLACES)
def test_each_parameter_is_where_rustc_puts_it(program: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "load", lambda kind, key: None)
    monkeypatch.setattr(cache, "store", lambda kind, key, content: None)
    found = parameters(program, name if name == "exported" else f"places::{name}")
    for each, wanted in PLACES[name].items():
        one = found[each]
        registers = sorted({register for _, _, register, _ in one.pieces})
        if isinstance(wanted, str) and not wanted.startswith("at "):
            assert wanted in one.reason, each
        elif one.indirect:
            assert f"at {registers[0]}" == wanted, each
        else:
            assert (not one.reason, one.stack if one.stack is not None else registers) == (True, wanted), each
