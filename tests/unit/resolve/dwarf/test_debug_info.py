"""Types and parameters out of what compilers write, in each of its forms."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.targets.build import HERE
from tracer import cache
from tracer.kinds.site import FileSite
from tracer.lang.types import (
    ArrayType,
    CharType,
    EnumType,
    FloatType,
    IntType,
    NamedType,
    PointerType,
    StructType,
    Type,
    memory_size,
)
from tracer.lang.types.declared import Declared
from tracer.lang.types.outside import Parameter
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.debug_info import DebugInfo, prototype
from tracer.resolve.functions.lookup import find_functions

INT, LONG = IntType(32), IntType(64)

FORMS = {
    "plain": ("-O2", "-g"),
    "O0": ("-O0", "-g"),
    "dwarf-2": ("-O1", "-gdwarf-2", "-gstrict-dwarf"),
    "dwarf-3": ("-O1", "-gdwarf-3"),
    "dwarf-4": ("-O1", "-gdwarf-4"),
    "dwarf-5": ("-O1", "-gdwarf-5"),
    "type units 4": ("-O1", "-gdwarf-4", "-fdebug-types-section"),
    "type units 5": ("-O1", "-gdwarf-5", "-fdebug-types-section"),
    "compressed": ("-O1", "-g", "-gz=zlib"),
    "compressed as before": ("-O1", "-g", "-gz=zlib-gnu"),
    "no .debug_aranges": ("-O1", "-g", "-fno-dwarf2-cfi-asm", "-Wl,--strip-debug-aranges"),
    "64 bits": ("-O1", "-gdwarf-5", "-gdwarf64"),
    "sections": ("-O1", "-g", "-ffunction-sections", "-Wl,--gc-sections"),
    "lto": ("-O2", "-g", "-flto"),
    "zstd": ("-O1", "-g", "-Wl,--compress-debug-sections=zstd"),
    **{f"split {version}": ("-O1", f"-gdwarf-{version}", "-gsplit-dwarf") for version in (4, 5)},
    **{f"split {version}, type units": ("-O1", f"-gdwarf-{version}", "-gsplit-dwarf", "-fdebug-types-section")
       for version in (4, 5)},
    **{f"package {version}": ("-O1", f"-gdwarf-{version}", "-gsplit-dwarf", "-fdebug-types-section")
       for version in (4, 5)},
    "clang 2": ("clang", "-O1", "-gdwarf-2"),
    "clang 3": ("clang", "-O1", "-gdwarf-3"),
    "clang 4": ("clang", "-O1", "-gdwarf-4"),
    "clang 5": ("clang", "-O1", "-gdwarf-5"),
    "clang 5, zlib": ("clang", "-O1", "-gdwarf-5", "-gz=zlib"),
    "clang 5, type units": ("clang", "-O1", "-gdwarf-5", "-fdebug-types-section"),
    "clang 5, .debug_names": ("clang", "-O1", "-gdwarf-5", "-gpubnames"),
    "clang 5, for lldb": ("clang", "-O1", "-gdwarf-5", "-glldb"),
    "clang split 4": ("clang", "-O1", "-gdwarf-4", "-gsplit-dwarf"),
    "clang split 5": ("clang", "-O1", "-gdwarf-5", "-gsplit-dwarf"),
    "clang package 4": ("clang", "-O1", "-gdwarf-4", "-gsplit-dwarf"),
    "clang package 5": ("clang", "-O1", "-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "load", lambda kind, key: None)
    monkeypatch.setattr(cache, "store", lambda kind, key, content: None)


def compiled(place: Path, source: Path, *flags: str, compiler: str = "gcc") -> Path:
    program = place / "program"
    flags = tuple(flag for flag in flags if flag != "-Wl,--strip-debug-aranges")
    if flags[0] == "clang":
        compiler, flags = "clang", flags[1:]
    if "-gsplit-dwarf" not in flags:
        subprocess.run([compiler, *flags, "-w", "-o", str(program), str(source)], check=True)
        return program
    subprocess.run([compiler, *flags, "-w", "-c", "-o", "part.o", str(source)], check=True, cwd=place)
    subprocess.run([compiler, "-o", str(program), "part.o"], check=True, cwd=place)
    assert (place / "part.dwo").exists()
    return program


def packed(program: Path, version: str) -> None:
    """Puts what was split off into one file, and the parts away."""
    tool = "dwp" if version == "4" else "llvm-dwp"
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not there")
    subprocess.run([tool, "-e", program.name, "-o", f"{program.name}.dwp"], check=True, cwd=program.parent)
    (program.parent / "part.dwo").unlink()


def sites(program: Path, *names: str) -> list[FileSite]:
    binary = Binary(str(program))
    found = [function for name in names for function in find_functions(binary, name, "uprobe", False, (), [])]
    return [
        FileSite(
            "uprobe", f"uprobe:{program}:{each.name}", each.name, (), 0, str(program), binary.identity, each.address, 0
        )
        for each in found
    ]


def parameters(program: Path, name: str) -> dict[str, Parameter]:
    (site,) = sites(program, name)
    found = DebugInfo([site]).parameters(site)
    assert not isinstance(found, str), found
    return {each.name: each for each in found}


@pytest.fixture(scope="module", params=list(FORMS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = compiled(tmp_path_factory.mktemp("form"), HERE / "records.c", *FORMS[request.param])
    if request.param == "no .debug_aranges":
        subprocess.run(["objcopy", "--remove-section=.debug_aranges", str(made)], check=True)
    if "package" in request.param:
        packed(made, request.param[-1])
    yield made


COLOUR = EnumType(32, False, "enum colour", (("RED", 0), ("GREEN", 5), ("BLUE", 6)))


def in_register(number: int, size: int) -> tuple[tuple[int, int, int, int], ...]:
    return ((0, size, number, 0),)


def test_parameters_in_registers(program: Path) -> None:
    found = parameters(program, "take")
    assert [(each.name, each.text, each.pieces, each.reason) for each in found.values()] == [
        ("a", "int", in_register(0, 4), ""),
        ("n", "struct node*", in_register(1, 8), ""),
        ("s", "const char*", in_register(2, 8), ""),
        ("c", "enum colour", in_register(3, 4), ""),
        ("u", "u32", in_register(4, 4), ""),
        ("b", "_Bool", in_register(5, 1), ""),
    ]
    assert [found[name].type for name in "ascub"] == [
        INT, PointerType(target=CharType()), COLOUR, IntType(32, False), IntType(8, False),
    ]  # fmt: skip


def test_parameters_on_the_stack_and_by_value(program: Path) -> None:
    assert [parameters(program, "more")[name].stack for name in ("seventh", "eighth")] == [8, 16]
    found = parameters(program, "pass")
    assert [(each.name, each.pieces, each.stack) for each in found.values()] == [
        ("s", in_register(0, 8), None),
        ("m", ((0, 8, 1, 0), (8, 8, 2, 0)), None),
        ("g", (), 8),
        ("o", ((0, 8, 3, 0), (8, 2, 4, 0), (10, 1, 4, 16)), None),
        ("after", in_register(5, 4), None),
    ]


def test_prototypes_are_written_as_bpftrace_writes_them(program: Path) -> None:
    binary = Binary(str(program))
    (found,) = find_functions(binary, "more", "uprobe", False, (), [])
    shown = prototype(str(program), found.address)
    assert shown is not None
    assert tuple("short int sh" if each == "short sh" else each for each in shown) == (  # clang calls it so
        "signed char c", "node_t* n", "char ch", "enum sign e", "short int sh", "box_t* t", "int64_t seventh",
        "uint8_t eighth",
    )  # fmt: skip


def test_what_is_in_floating_point_registers_is_refused_and_the_rest_found(program: Path) -> None:
    found = parameters(program, "floats")
    assert [(each.name, each.pieces) for each in found.values() if not each.reason] == [
        ("i", in_register(0, 4)),
        ("j", in_register(2, 4)),
    ]
    assert "floating-point register" in found["d"].reason and found["d"].type == FloatType(64)
    assert found["m"].reason.startswith("a part of it")


def test_a_result_in_memory_takes_the_first_register(program: Path) -> None:
    assert parameters(program, "make")["i"].pieces == in_register(1, 8)
    assert parameters(program, "none") == {}


def test_members(program: Path) -> None:
    info = DebugInfo(sites(program, "take"))
    node = info.type("struct node")
    assert isinstance(node, StructType) and node.size == memory_size(node) == 40
    inner = info.type("struct inner")
    assert isinstance(inner, StructType)
    assert node.field("in") is not None and node.field("in").type == inner  # type: ignore[union-attr]
    assert inner.field("name") is not None and inner.field("name").type == ArrayType(CharType(), 8)  # type: ignore[union-attr]
    for name, shift, width in (("low", 0, 3), ("high", 3, 5)):
        field = node.field(name)
        assert field is not None and isinstance(field.type, IntType)
        assert (8 * field.offset + field.shift, field.width) == (8 * 26 + shift, width)
    member = node.field("u")
    assert member is not None and (member.type, member.offset) == (IntType(32, False), 32)
    following = node.field("next")
    assert following is not None and isinstance(following.type, PointerType)
    assert isinstance(following.type.target, NamedType) and following.type.target.name == "struct node"
    assert Declared(outside=lambda: info).complete(following.type.target) == node
    assert info.type("node_t") == node
    assert info.type("box_t") == StructType("box_t", 4, info.type("box_t").fields)  # type: ignore[union-attr]
    assert info.type("struct nothing") is None


def test_enums(program: Path) -> None:
    info = DebugInfo(sites(program, "take"))
    assert info.type("enum colour") == COLOUR
    assert (info.constant("BLUE"), info.constant("MINUS"), info.constant("NOTHING")) == (6, -1, None)


LARGE = """
enum large { A = 128, B = 255, C = 40000, D = 65535, E = 3000000000u };
enum below { F = -1, G = -200, H = 200 };
enum __attribute__((packed)) byte { I, J = 255 };
struct room {
  char text[200]; unsigned char bytes[40000]; int numbers[129], none[0], most[1 << 20];
  enum large e; enum below f; enum byte b;
};
int f(struct room *room) { return room->e; }
int main(void) { return f(&(struct room){0}); }
"""


@pytest.mark.parametrize("form", ["O0", "dwarf-2", "dwarf-5", "clang 2", "clang 5"])
def test_constants_that_fill_their_bytes_are_not_below_0(form: str, tmp_path: Path) -> None:
    source = tmp_path / "large.c"
    source.write_text(LARGE)
    info = DebugInfo(sites(compiled(tmp_path, source, *FORMS[form]), "f"))
    assert [info.constant(each) for each in "ABCDEFGHJ"] == [128, 255, 40000, 65535, 3000000000, -1, -200, 200, 255]
    for name, bits, signed, word in (("large", 32, False, "E"), ("below", 32, True, "G"), ("byte", 8, False, "J")):
        found = info.type(f"enum {name}")
        assert isinstance(found, EnumType) and (found.bits, found.signed) == (bits, signed)
        value = info.constant(word)
        assert isinstance(value, int) and found.word(value) == word
    room = info.type("struct room")
    assert isinstance(room, StructType)
    assert [f.type.count for f in room.fields if isinstance(f.type, ArrayType)] == [200, 40000, 129, 0, 1 << 20]


def names_of(type: Type | str | None) -> list[str]:
    assert isinstance(type, StructType)
    return [field.name for field in type.fields]


def test_a_debug_file_by_link(tmp_path: Path) -> None:
    made = compiled(tmp_path, HERE / "records.c", "-O1", "-g")
    subprocess.run(["objcopy", "--only-keep-debug", str(made), f"{made}.debug"], check=True)
    subprocess.run(["strip", "-g", str(made)], check=True)
    (site,) = sites(made, "take")
    assert DebugInfo([site]).parameters(site) == "there is no debug information of it"
    subprocess.run(["objcopy", f"--add-gnu-debuglink={made}.debug", str(made)], check=True)
    assert list(parameters(made, "take")) == ["a", "n", "s", "c", "u", "b"]
    assert "next" in names_of(DebugInfo(sites(made, "take")).type("struct node"))


def test_what_dwz_moved_to_another_file(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    made = [compiled(folder, HERE / "records.c", "-O1", "-g") for folder in folders]
    for each in made:
        subprocess.run(["cp", str(each), f"{each}-2"], check=True)
    common = tmp_path / "common"
    subprocess.run(["dwz", "-m", str(common), *map(str, made)], check=True)
    assert common.exists()
    test_parameters_in_registers(made[0])
    test_members(made[1])
    test_enums(made[1])


def test_a_damaged_section_is_an_answer_and_no_traceback(tmp_path: Path) -> None:
    made = compiled(tmp_path, HERE / "records.c", "-O1", "-g")
    whole = made.read_bytes()
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.debug_info", "--set-section-flags=.debug_info=alloc",
                    str(made), f"{made}.info"], check=True)  # fmt: skip
    info = Path(f"{made}.info").read_bytes()
    start = whole.index(info)
    for at in range(0, len(info), max(1, len(info) // 60)):
        damaged = bytearray(whole)
        damaged[start + at] ^= 0xFF
        made.write_bytes(damaged)
        (site,) = sites(made, "take")
        answers = DebugInfo([site])
        found = answers.parameters(site)
        assert isinstance(found, str | tuple)
        try:
            answers.type("struct node")
        except Exception as error:
            assert "debug information cannot be read" in str(error)


def test_a_second_run_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(cache, "load", lambda kind, key: kept.get(key))
    monkeypatch.setattr(cache, "store", lambda kind, key, content: kept.update({key: content}))
    made = compiled(tmp_path, HERE / "records.c", "-O1", "-g")
    (site,) = sites(made, "take")
    first = DebugInfo([site])
    answers = first.parameters(site), first.type("struct node"), first.constant("BLUE"), first.type("struct nothing")
    first.keep()
    made.unlink()
    second = DebugInfo([site])
    assert (second.parameters(site), second.type("struct node"), second.constant("BLUE"),
            second.type("struct nothing")) == answers  # fmt: skip


def test_the_last_answers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(cache, "load", lambda kind, key: kept.get(key))
    monkeypatch.setattr(cache, "store", lambda kind, key, content: kept.update({key: content}))
    monkeypatch.setattr("tracer.resolve.dwarf.debug_info._MOST_KEPT", 3)
    made = compiled(tmp_path, HERE / "records.c", "-O1", "-g")
    for name in ("node", "inner", "nothing", "node", "shape"):
        info = DebugInfo(sites(made, "take"))
        info.type(f"struct {name}")
        info.keep()
    (content,) = kept.values()
    asked = [about.split()[1] for _, about in marshal.loads(content)]
    assert asked == ["inner", "nothing", "shape"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_name_that_ends_many_others(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "names.c"
    others = "".join(f"struct x{number}_klass {{ int f; }} v{number};\n" for number in range(200))
    own = "struct klass { long a, b; } v; struct only; int f(struct only *o) { return v.a; }"
    source.write_text(f"{others}{own}\nint main(void) {{ return f(0); }}\n")
    info = DebugInfo(sites(compiled(tmp_path, source, "-O0", "-g", compiler=compiler), "f"))
    found = info.type("struct klass")
    assert isinstance(found, StructType) and found.size == 16
    assert info.type("struct x7_klass") is not None
    assert info.type("struct only") is None  # it is declared but never defined


def test_files_that_units_were_split_off_to_do_not_stay_open(tmp_path: Path) -> None:
    made = compiled(tmp_path, HERE / "records.c", "-O1", "-gdwarf-5", "-gsplit-dwarf")
    (site,) = sites(made, "take")
    info = DebugInfo([site])
    assert isinstance(info.parameters(site), tuple) and info.type("struct nowhere") is None
    held = [os.readlink(each) for each in map(str, Path("/proc/self/fd").iterdir()) if os.path.exists(each)]
    assert not any(each.endswith("part.dwo") for each in held)


def test_what_was_split_off_and_is_gone_is_no_answer_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(cache, "load", lambda kind, key: kept.get(key))
    monkeypatch.setattr(cache, "store", lambda kind, key, content: kept.update({key: content}))
    made = compiled(tmp_path, HERE / "records.c", "-O1", "-gdwarf-5", "-gsplit-dwarf")
    split = tmp_path / "part.dwo"
    split.rename(tmp_path / "elsewhere")
    (site,) = sites(made, "take")
    first = DebugInfo([site])
    assert first.parameters(site) == "its debug information was split off to part.dwo, which is not there"
    first.keep()
    (tmp_path / "elsewhere").rename(split)
    assert isinstance(DebugInfo([site]).parameters(site), tuple)
