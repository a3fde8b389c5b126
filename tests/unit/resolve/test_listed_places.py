"""What `tracer list` takes beside patterns of names: places in code, programs, all that runs; and names to guess."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tracer import pipeline
from tracer.errors import ProgramError, Source, TracerError
from tracer.kinds.site import Target, places_among
from tracer.lang.syntax.parser import parse
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.debug_info import prototype
from tracer.resolve.functions.lookup import find_functions, names_to_suggest, not_found
from tracer.resolve.listing import Listed, list_lines, list_probes
from tracer.resolve.sites.expand import expand

SHOP_C = """
long sink;
__attribute__((noinline)) long price(long n)
{
    sink = n;
    return n * 3;
}
int main(int argc, char **argv)
{
    return price(argc) > 5;
}
"""

SHOP_RS = """
pub mod shop {
    pub struct Cart(pub u64);
    impl Cart {
        #[inline(never)]
        pub fn add(&mut self, n: u64) { self.0 += n; println!("{}", self.0); }
        #[inline(never)]
        pub fn one<T: std::fmt::Display>(&self, n: T) { println!("{} {}", self.0, n); }
    }
}
pub mod other { #[inline(never)] pub fn add(n: u64) { println!("other {n}"); } }
fn main() { let mut c = shop::Cart(1); c.add(2); c.one(1u8); c.one("x"); other::add(3); }
"""


@pytest.fixture
def shop(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Binary:
    monkeypatch.chdir(tmp_path)
    os.link(build(SHOP_C, "-O1", "-g"), "shop")
    return Binary("shop")


@pytest.fixture(scope="module")
def rust(tmp_path_factory: pytest.TempPathFactory) -> Binary:
    folder = tmp_path_factory.mktemp("rust")
    (folder / "app.rs").write_text(SHOP_RS)
    subprocess.run(["rustc", "-O", "-g", "app.rs"], cwd=folder, check=True, capture_output=True)
    return Binary(str(folder / "app"))


def one(pattern: str) -> Listed:
    (found,) = list_probes(pattern, Target())
    assert list(list_lines(pattern, Target())) == [f"{found.probe}\n"]
    return found


def test_an_address_an_instruction_and_a_line_are_listed_as_they_are_probed(shop: Binary) -> None:
    (price,) = find_functions(shop, "price")
    inside = next(each for each in shop.code.instructions(shop.code.range_of(price)) if each.address > price.address)
    distance = inside.address - price.address
    for pattern, name, address in (
        (f"uprobe:./shop:{price.address:#x}", str(price.address), price.address),
        (f"uprobe:./shop:price+{distance:#x}", f"price+{distance}", inside.address),
    ):
        found = one(pattern)
        assert (found.probe, found.kind, found.name) == (f"uprobe:./shop:{name}", "uprobe", name)
        assert [(each.address, each.offset) for each in found.sites] == [(address, shop.elf.offset_of(address))]
        assert places_among(expand(parse(Source(f"{found.probe} {{ }}")), Target())[0])[0].address == address
    assert shop.lines is not None
    source = os.path.basename((shop.lines.line_at(price.address) or "").rpartition(":")[0])
    line = one(f"uprobe:./shop:{source}:5")
    assert line.probe.endswith(f"{source}:5")
    assert line.sites and all(price.address <= each.address < price.address + price.size for each in line.sites)


def test_a_place_that_is_none_is_refused_as_it_is_for_a_probe(shop: Binary) -> None:
    for pattern, said in (("0x1", "./shop: the address at 0x1 is not"), ("price+1000", "./shop: price has ")):
        with pytest.raises(TracerError) as caught:
            one(f"uprobe:./shop:{pattern}")
        assert caught.value.message.startswith(said)


def test_the_probes_of_a_program_have_their_sites(shop: Binary) -> None:
    text = "uprobe:./shop:price, uretprobe:./shop:price { @ = count(); } interval:s:1 { } uprobe:./shop:price { }"
    found, warnings = pipeline.probes(Source(text))
    assert warnings == []
    (price,) = find_functions(shop, "price")
    assert [(each.probe, each.kind, each.name) for each in found] == [
        ("uprobe:./shop:price", "uprobe", "price"),
        ("uretprobe:./shop:price", "uretprobe", "price"),
        ("interval:s:", "interval", "interval:s:"),
        ("uprobe:./shop:price", "uprobe", "price"),
    ]
    places = [[price.address], [price.address], [], [price.address]]
    assert [[site.address for site in each.sites] for each in found] == places


def test_a_star_for_the_file_means_what_processes_run() -> None:
    libc = {os.path.realpath(each.path) for each in list_probes("uprobe:*:getaddrinfo", Target())}
    assert os.path.realpath("/lib/x86_64-linux-gnu/libc.so.6") in libc
    with pytest.raises(TracerError, match=r"no probe matches 'uprobe:\*:getaddrinfoo'"):
        list(list_probes("uprobe:*:getaddrinfoo", Target()))
    for pattern in ("*", "uprobe:*", "uprobe:*:*", None):
        with pytest.raises(TracerError, match="the attach point names no file"):
            list(list_probes(pattern, Target()))


def test_a_name_of_rust_goes_without_its_crate_where_it_is_the_only_one(rust: Binary) -> None:
    (whole,) = find_functions(rust, "app::shop::Cart::add")
    assert find_functions(rust, "shop::Cart::add") == (whole,)
    assert find_functions(rust, "Cart::add") == find_functions(rust, "add") == ()
    names = list(names_to_suggest(rust, "add"))
    assert {"shop::Cart::add", "other::add"} <= set(names)
    assert not [each for each in names if each.startswith(("_ZN", "_R", "app::shop"))]
    assert not_found(rust, "shop::Cart::addd").hint == "did you mean shop::Cart::add or shop::Cart::one?"


def test_who_writes_names_as_people_do_gets_a_list_of_such_names(rust: Binary) -> None:
    path = rust.path
    (add,) = find_functions(rust, "app::shop::Cart::add")
    (found,) = list_probes(f'uprobe:{path}:"app::shop::*add"', Target())
    assert found.probe == f'uprobe:{path}:"app::shop::Cart::add"'
    assert (found.name, [each.address for each in found.sites]) == (add.name, [add.address])
    assert places_among(expand(parse(Source(f"{found.probe} {{ }}")), Target())[0])[0].address == add.address
    # Two functions of one name keep those of the linker, which tell them apart; so does who asks as the linker does.
    two = list(list_probes(f'uprobe:{path}:"app::shop::Cart::one"', Target()))
    assert len(two) == 2 and all(each.probe == f"uprobe:{path}:{each.name}" for each in two)
    (plain,) = list_probes(f"uprobe:{path}:{add.name}", Target())
    assert plain.probe == f"uprobe:{path}:{add.name}"
    for pattern in ('"app::shop::*"', add.name):
        listed = list(list_probes(f"uprobe:{path}:{pattern}", Target()))
        lines = "".join(list_lines(f"uprobe:{path}:{pattern}", Target()))
        assert lines == "".join(f"{each.probe}\n" for each in listed)


def test_what_several_files_do_not_have_is_guessed_from_all_their_names(shop: Binary, build: Build) -> None:
    os.link(build("int shipment(void) { return 1; } int main(void) { return shipment(); }", "-O0"), "ship")
    for name, hint in (
        ("prise", "did you mean price?"),
        ("shipmnt", "did you mean shipment?"),
        ("./ship", "that is a file: write uprobe:./ship:FUNCTION"),
        ("ship", "that is a file: write uprobe:ship:FUNCTION"),
        ("zzzzzz", None),
    ):
        with pytest.raises(ProgramError) as caught:
            expand(parse(Source(f'uprobe:./sh*p:"{name}" {{ }}')), Target())
        (found,) = caught.value.diagnostics
        assert (found.message, found.hint) == (f"no function matches '{name}' in any of 2 files", hint)


def test_a_result_of_go_is_no_parameter(tmp_path: Path) -> None:
    (tmp_path / "a.go").write_text(
        "package main\n//go:noinline\nfunc both(n int, s string) (sum int, err error) { return n + len(s), nil }\n"
        "func main() { n, err := both(1, \"x\"); println(n, err == nil) }\n"
    )
    subprocess.run(
        ["go", "build", "-o", "a", "a.go"], cwd=tmp_path, check=True, env={**os.environ, "GO111MODULE": "auto"}
    )
    (both,) = find_functions(Binary(str(tmp_path / "a")), "main.both")
    assert prototype(str(tmp_path / "a"), both.address) == ("int n", "struct string s")
