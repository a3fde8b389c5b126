from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import DATA_ADDRESS, TEXT_ADDRESS, ElfWriter, usdt_note
from tests.unit.resolve.programs import PROBES_C, THROWS_CC
from tracer.errors import Source, TracerError, printable
from tracer.kinds.site import Target, places_among
from tracer.lang.syntax import attach
from tracer.lang.syntax.attach import read
from tracer.lang.syntax.parser import parse
from tracer.resolve.attach_texts import as_written, quoted
from tracer.resolve.listing import list_lines, list_probes
from tracer.resolve.sites.expand import expand

LIBJVM = "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so"
EVERYONE = Target()


def probes(pattern: str | None, target: Target = EVERYONE) -> list[str]:
    found = [each.probe for each in list_probes(pattern, target)]
    assert "".join(list_lines(pattern, target)) == "".join(f"{each}\n" for each in found)
    return found


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return ElfWriter(
        symbols=[
            ("f", TEXT_ADDRESS, 8, 0x12),
            ("g", TEXT_ADDRESS + 8, 8, 0x12),
            ("odd name", TEXT_ADDRESS + 9, 1, 0x12),
        ],
        notes=usdt_note("p", "q", "-4@%edi 8@.LC0(%rip)", semaphore=DATA_ADDRESS + 2)
        + usdt_note("p", "q", "-4@%esi 8f@(%rax)", TEXT_ADDRESS + 4, semaphore=DATA_ADDRESS + 2)
        + usdt_note("p", "a")
        + usdt_note("x", "q"),
    ).write(tmp_path / "app")


def test_patterns_may_leave_parts_out(app: Path) -> None:
    usdt = [f"usdt:{app}:p:a", f"usdt:{app}:p:q", f"usdt:{app}:x:q"]
    functions = [f"uprobe:{app}:f", f"uprobe:{app}:g", f'uprobe:{app}:"odd name"']
    for pattern, expected in [
        (f"usdt:{app}", usdt),
        (f"usdt:{app}:*", usdt),
        (f"usdt:{app}:*:*", usdt),
        (f"usdt:{app}:p:*", usdt[:2]),
        (f"usdt:{app}:q", usdt[1:]),
        (f"uprobe:{app}", functions),
        (f"uprobe:{app}:*", functions),
        (f"uprobe:{app}:g", functions[1:2]),
        (f"uretprobe:{app}:g", [f"uretprobe:{app}:g"]),
        (f"*:{app}:q", [usdt[1], usdt[2]]),
        (f"*:{app}:g", functions[1:2]),
        (f"*:{app}:p:*", usdt[:2]),
        (f"{app}", usdt + functions),
        (f"{app.parent}/*", usdt + functions),
    ]:
        assert probes(pattern) == expected, pattern


@pytest.mark.parametrize(
    "names",
    [
        ("a", "b2", "_c", "d.part.0", "d"),
        ("a", "0x12", "b"),
        ("a", ".b", "c"),
        ("a", "main.(*T).f", "b"),
        ("a", "tab\there", "b", "line\nend"),
        ("gr\u00fc\u00dfe", "a", "\u4e2d"),
        ("tab\there",),
        ("a$b", "operator==", "f@@V1", "x" * 20_000),
    ],
)
def test_unusual_names_are_written_so_that_they_mean_themselves(tmp_path: Path, names: tuple[str, ...]) -> None:
    symbols = [(name, TEXT_ADDRESS + 4 * at, 4, 0x12) for at, name in enumerate(names)]
    app = ElfWriter(symbols=symbols).write(tmp_path / "app")
    known = sorted(printable(name.partition("@")[0][: 1 << 14]) for name in names)
    shown = [f"uprobe:{app}:{quoted(name)}" for name in known]
    assert probes(f"uprobe:{app}:*") == shown


@pytest.mark.parametrize(
    "name",
    [b"new\nline", b"bad\xff", b"half\xc3", b"back\\slash", b"lit\\xff", b"lit\\n", b'quo"te', b"tab\t", b"esc\x1b[31m",
     "grün".encode(), "\u202eleft".encode(), b"end\\", b"a b,c{d:e"],
)  # fmt: skip
def test_a_file_of_any_name_is_listed_as_an_attach_point_that_finds_it(tmp_path: Path, name: bytes) -> None:
    path = str(tmp_path / os.fsdecode(name))
    ElfWriter(symbols=[("f", TEXT_ADDRESS, 4, 0x12)]).write(Path(path))
    (listed,) = list_probes(path, EVERYONE)
    (line,) = list_lines(path, EVERYONE)
    assert line == f"{listed.probe}\n" and listed.probe.isprintable()
    listed.probe.encode()  # strictly: no byte is a lone surrogate
    point, end = read(f"{listed.probe} {{ }}", 0)
    assert (point.path, end) == (path, len(listed.probe))
    assert [each.path for each in list_probes(listed.probe, EVERYONE)] == [path]
    said = listed.as_json()["path"]
    said.encode()
    assert read('uprobe:"{}":f'.format(said.replace('"', '\\"')), 0)[0].path == path


def test_several_patterns_stand_with_commas_between_them(tmp_path: Path) -> None:
    names = [("f", TEXT_ADDRESS, 2, 0x12), ("a,b", TEXT_ADDRESS + 2, 2, 0x12)]
    app = ElfWriter(symbols=names, notes=usdt_note("p", "x")).write(tmp_path / "app")
    wanted = [f"uprobe:{app}:f", f"usdt:{app}:p:x", "interval:hz:"]
    assert probes(f"uprobe:{app}:f, usdt:{app}:*,interval:hz") == wanted
    assert probes(f"uprobe:{app}:a,b") == [f'uprobe:{app}:"a,b"']
    assert probes(f'uprobe:{app}:"a,b",u:{app}:f') == [f'uprobe:{app}:"a,b"', f"uprobe:{app}:f"]


def test_intervals_are_listed_by_their_units() -> None:
    everything = ["interval:hz:", "interval:ms:", "interval:s:", "interval:us:"]
    for pattern in ("interval:*", "interval:", "i:*", "interval:*:"):
        assert probes(pattern) == everything
        assert list(list_lines(pattern, EVERYONE)) == [f"{line}\n" for line in everything]
    assert probes("interval:?s") == ["interval:ms:", "interval:us:"]


def test_json_has_the_shape_that_is_promised(app: Path) -> None:
    (listed,) = list_probes(f"usdt:{app}:p:q", EVERYONE)
    assert json.loads(json.dumps(listed.as_json())) == {
        "probe": f"usdt:{app}:p:q",
        "kind": "usdt",
        "path": str(app),
        "provider": "p",
        "name": "q",
        "sites": [
            {
                "address": "0x1000",
                "offset": "0x1000",
                "semaphore": "0x3002",
                "args": [
                    {"text": "-4@%edi", "size": 4, "signed": True, "float": False, "readable": True},
                    {"text": "8@.LC0(%rip)", "size": 8, "signed": False, "float": False, "readable": False},
                ],
            },
            {
                "address": "0x1004",
                "offset": "0x1004",
                "semaphore": "0x3002",
                "args": [
                    {"text": "-4@%esi", "size": 4, "signed": True, "float": False, "readable": True},
                    {"text": "8f@(%rax)", "size": 8, "signed": False, "float": True, "readable": True},
                ],
            },
        ],
    }
    (function,) = list_probes(f"uprobe:{app}:g", EVERYONE)
    assert function.as_json() == {
        "probe": f"uprobe:{app}:g",
        "kind": "uprobe",
        "path": str(app),
        "provider": None,
        "name": "g",
        "sites": [{"address": "0x1008", "offset": "0x1008", "semaphore": None, "args": []}],
    }


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ("name", "name"),
        ("/usr/bin/app-1.2", "/usr/bin/app-1.2"),
        ("a b", '"a b"'),
        ("ns::f(int, char*)", '"ns::f(int, char*)"'),
        ('say "hi" \\', '"say \\"hi\\" \\\\"'),
        ("0x10", '"0x10"'),
        ("12", '"12"'),
        ("f+8", '"f+8"'),
        ("a/b", '"a/b"'),
        ("$1", '"$1"'),
        ("f@V1", "f@V1"),
        ("f.isra.0", "f.isra.0"),
    ],
)
def test_parts_are_quoted_where_they_would_mean_something_else(part: str, written: str) -> None:
    assert quoted(part, path=part.startswith("/")) == written


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("./app", "./app"), ("../a/b.so.1", "../a/b.so.1"), ("a/b", "a/b"), ("/bin/c++", "/bin/c++"), ("a+4", "a+4"),
        ("./a b", '"./a b"'), ("./a:b", '"./a:b"'),
    ],
)  # fmt: skip
def test_a_relative_path_needs_no_quotes(path: str, written: str) -> None:
    assert quoted(path, path=True) == written
    text = f"uprobe:{written}:main"
    point, end = attach.read(f"{text} {{ }}", 0)
    assert (point.path, point.name, end) == (path, "main", len(text))


ODD_NAMES = (
    "odd name", "f+8", "0x10", "12", "ns::f(int)", "x{y}", "a,b", "str*ng", "what?", "a[b]", "[a", "**", "(*)",
    "net/http.(*conn).serve", "main.both[go.shape.struct { A int; B string }_0,go.shape.map[string]int_1]", "a\u00b7b",
    "a\u2192b", "gr\u00fc\u00dfe", "$1", "a$b", '"', "\\", 'a\\"b', "/a", "/a:1", "@f", "@@f", "a:b", "12:3", "cpp",
    "f /1/", "//", "f\udcff", "\\xff", "x" * 20_000, "_ZN", "operator()", "~f",
)  # fmt: skip


def test_what_is_listed_can_be_attached_as_it_stands(tmp_path: Path) -> None:
    places = {name: TEXT_ADDRESS + 2 * at for at, name in enumerate(ODD_NAMES)}
    path = ElfWriter(
        text=b"\x90\xc3" * len(places),
        symbols=[(name, address, 2, 0x12) for name, address in places.items()],
        notes=b"".join(usdt_note(name, name, "", address) for name, address in places.items() if len(name) < 99),
    ).write(tmp_path / "a b")
    found: dict[str, dict[int, str]] = {"usdt": {}, "uprobe": {}}
    for listed in list_probes(str(path), EVERYONE):
        tree = parse(Source(listed.probe + " { }"))
        (site,) = places_among(expand(tree, EVERYONE)[0])
        assert site.address == listed.sites[0].address, listed.probe
        assert as_written(site, tree.clauses[0].points[0]) == listed.probe
        found[listed.kind][site.address] = listed.probe
    assert sorted(found["uprobe"]) == list(places.values())
    assert probes(f"uprobe:{path}:*") == probes(f"uprobe:{path}")
    assert sorted(found["usdt"]) == [address for name, address in places.items() if len(name) < 99]


def test_in_a_pattern_the_asterisk_of_a_receiver_is_none(tmp_path: Path) -> None:
    names = ["main.(*Cart).Add", "main.(*Cart).Drop", "main.(*BigCart).Add", "main.Cart.Add"]
    path = ElfWriter(symbols=[(name, TEXT_ADDRESS + 2 * at, 2, 0x12) for at, name in enumerate(names)]).write(
        tmp_path / "app"
    )
    assert probes(f'uprobe:{path}:"main.(*Cart).*"') == [f'uprobe:{path}:"{name}"' for name in names[:2]]
    assert probes(f"uprobe:{path}:*Cart).Add") == [f'uprobe:{path}:"{names[2]}"', f'uprobe:{path}:"{names[0]}"']


def test_every_listed_probe_of_a_real_program_can_be_attached(build: Build) -> None:
    for path in (build(PROBES_C, "-O2"), build(THROWS_CC, "-O2", language="c++")):
        for probe in probes(str(path)):
            assert expand(parse(Source(probe + " { }")), EVERYONE)[0]


def test_names_that_would_break_the_list_are_escaped_and_any_is_left_out(tmp_path: Path) -> None:
    path = ElfWriter(
        symbols=[("a\nb", TEXT_ADDRESS, 2, 0x12), ("*", TEXT_ADDRESS + 2, 2, 0x12), ("ok", TEXT_ADDRESS + 4, 2, 0x12)],
        notes=usdt_note("p", "x\x1b[31m") + usdt_note("*", "x") + usdt_note("", "x") + usdt_note("p", "ok"),
    ).write(tmp_path / "app")
    assert probes(str(path)) == [
        f"usdt:{path}:p:ok",
        f'usdt:{path}:p:"x\\\\x1b[31m"',
        f'uprobe:{path}:"a\\\\nb"',
        f"uprobe:{path}:ok",
    ]


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        ("usdt:{app}:zzz", "{app}: no USDT probe matches 'zzz'", None),
        ("usdt:{app}:a:b:c", "'usdt:{app}:a:b:c': usdt takes a path, a provider and a name", "usdt:PATH:PROVIDER:NAME"),
        ("uprobe:{app}:zz*", "{app}: no function matches 'zz*'", "`tracer list 'uprobe:{app}:*'` shows its functions"),
        ("{app}x", "{app}x: no such file", "did you mean {app}?"),
        ("usdt:{folder}/text", "{folder}/text: a text file, not an ELF file", None),
        (
            "k:vfs_read",
            "kprobe probes are not supported: of the kernel tracer traces events and samples, no functions",
            "attach to a tracepoint (tracepoint:SYSTEM:NAME), to a function of a program (uprobe:FILE:FUNCTION) or to a"
            " USDT probe (usdt:FILE:PROVIDER:NAME)",
        ),
        ("probe:vfs_read", "'probe' is no kind of probe that can be listed", "list usdt:PATH or uprobe:PATH"),
        ("interval:day", "no probe matches 'interval:day'", "interval:* lists the units"),
        (
            "*",
            "the attach point names no file",
            "name the program or library, or a process with -p PID, whose files are then searched",
        ),
    ],
)
def test_nothing_found_is_an_error(app: Path, pattern: str, message: str, hint: str | None) -> None:
    (app.parent / "text").write_text("hello")
    values = {"app": app, "folder": app.parent}
    with pytest.raises(TracerError) as caught:
        probes(pattern.format(**values))
    expected = None if hint is None else hint.format(**values)
    assert (caught.value.message, caught.value.hint) == (message.format(**values), expected)


def test_a_process_lists_what_it_has_mapped() -> None:
    command = ["/usr/bin/python3.11", "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "\n"
            usdt = probes("usdt", Target([process.pid]))
            assert "usdt:/usr/bin/python3.11:python:gc__start" in usdt
            everything = probes("*", Target([process.pid]))
            assert set(usdt) < set(everything)
            assert any(each.endswith("/libc.so.6:malloc") for each in everything)
        finally:
            process.communicate("\n")


def test_libjvm_is_listed_whole() -> None:
    listed = list(list_probes(f"usdt:{LIBJVM}", EVERYONE))
    text = subprocess.run(["readelf", "-nW", LIBJVM], capture_output=True, text=True, check=True).stdout
    assert sum(len(each.sites) for each in listed) == len(
        set(line for line in text.split("stapsdt") if "Provider" in line)
    )
    assert max(len(site.args) for each in listed for site in each.sites) == 9
