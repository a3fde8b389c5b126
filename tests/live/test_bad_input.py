"""Bad input: one message, the right exit status, nothing attached and nothing left.

Each test states the whole of stderr.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.cli import TRACER, Done, target, tracer
from tests.targets.build import build
from tests.targets.symbols import function_addresses

pytestmark = pytest.mark.live

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@dataclass(frozen=True)
class Wrong:
    """A program whose attach point is wrong: `marked` is what the caret marks, `message` what stands beside it."""

    name: str
    program: str
    message: str
    marked: str = ""
    status: int = 2


def carets(program: str, marked: str, message: str) -> str:
    """The line of the program, and under it the carets and the message."""
    return f"{program}\n{' ' * program.index(marked)}{'^' * len(marked)} error: {message}\n"


# {T} is depot, {S} the same without symbols, {X} a C++ program, {D} a directory with broken files.
WRONG = [
    Wrong("no_such_file", "uprobe:/no/such/file:main", "/no/such/file: no such file; there is no directory /no/such"),
    Wrong("no_such_file_usdt", "usdt:{D}/nothing:a:b", "{D}/nothing: no such file"),
    Wrong("a_directory", "uprobe:{D}:main", "{D}: not a regular file"),
    Wrong("a_text_file", "uprobe:{D}/text:main", "{D}/text: a script, not an ELF file"),
    Wrong("an_empty_file", "uprobe:{D}/empty:main", "{D}/empty: an empty file, not an ELF file"),
    Wrong("random_bytes", "usdt:{D}/random:a:b", "{D}/random: a flat binary without any header, not an ELF file"),
    Wrong("random_elf", "uprobe:{D}/random_elf:main", "{D}/random_elf: not a valid ELF file: class 255"),
    Wrong(
        "truncated_elf",
        "usdt:{D}/truncated:depot:parcel",
        "{D}/truncated: truncated ELF file: the section header table would end at byte {SIZE} of 5000",
    ),
    Wrong(
        "no_such_usdt_probe",
        "usdt:{T}:depot:parcell",
        "{T}: no USDT probe 'depot:parcell'; did you mean depot:parcel, depot:cell or depot:label?",
    ),
    Wrong("no_such_function", "uprobe:{T}:prize", "{T}: no function 'prize'; did you mean price?"),
    Wrong(
        "no_match", "uprobe:{T}:zz*", "{T}: no function matches 'zz*'; `tracer list 'uprobe:{T}:*'` shows its functions"
    ),
    Wrong(
        "inside_an_instruction",
        "uprobe:{T}:landmark+3",
        "{T}: {LANDMARK+3} is inside an instruction, not at its start;"
        " the nearest starts are landmark+2 ({LANDMARK+2}) and landmark+6 ({LANDMARK+6})",
    ),
    Wrong(
        "beyond_the_function",
        "uprobe:{T}:landmark+4000",
        "{T}: landmark has 7 bytes, so there is no landmark+4000",
    ),
    Wrong("not_executable", "uprobe:{T}:0x10", "{T}: the address at 0x10 is not in an executable segment"),
    Wrong(
        "stripped",
        "uprobe:{S}:price",
        "{S}: no function 'price', and the file is stripped of all names but those it exports;"
        " install its debug symbols, or give an address: uprobe:{S}:0x…",
    ),
    Wrong(
        "return_that_an_exception_crosses",
        "uretprobe:{X}:aside",
        "{X}: a return probe on aside could kill the program: a C++ exception may cross it"
        " (the file needs libstdc++.so.6);"
        " and its returns cannot all be found: only a pointer tells where the jump at {JUMP} goes;"
        " trace its entry with uprobe, or the return of a function that calls it; --unsafe-returns takes the risk",
    ),
    Wrong("syntax", "uprobe:{T}:price {{ @ = count( }}", "expected an expression, found '}'", "}"),
    Wrong(
        "unknown_function", "uprobe:{T}:price {{ @ = cont(); }}", "unknown function 'cont'; did you mean count?", "cont"
    ),
    Wrong("wrong_type", 'uprobe:{T}:price {{ @ = "a" * 2; }}', "'*' needs integers, not a string", '"a"'),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("broken")
    (directory / "text").write_text("#!/bin/sh\necho\n")
    (directory / "empty").write_bytes(b"")
    (directory / "random").write_bytes(random.Random(1).randbytes(4000))
    (directory / "random_elf").write_bytes(b"\x7fELF\xff" + random.Random(2).randbytes(4000))
    (directory / "truncated").write_bytes(build("depot").read_bytes()[:5000])
    return directory


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_program_is_refused(wrong: Wrong, backend: str, broken: Path, clean: None) -> None:
    landmark = function_addresses(build("depot"))["landmark"]
    names = {"T": build("depot"), "S": build("depot-stripped"), "X": build("throws"), "D": broken}
    numbers = {f"{{LANDMARK+{n}}}": f"{landmark + n:#x}" for n in (2, 3, 6)}
    numbers["{JUMP}"] = jump_of(build("throws"), "aside")
    numbers["{SIZE}"] = str(first_section_header_end(build("depot")))

    def filled(text: str) -> str:
        for place, value in {**{f"{{{name}}}": str(path) for name, path in names.items()}, **numbers}.items():
            text = text.replace(place, value)
        return text.replace("{{", "{").replace("}}", "}")

    program = filled(wrong.program if "{{" in wrong.program else wrong.program + " {{ @ = count(); }}")
    done = tracer("--backend", backend, "-e", program)
    marked = wrong.marked or program.partition(" ")[0]
    assert (done.status, done.out, done.err) == (wrong.status, b"", carets(program, marked, filled(wrong.message)))


def jump_of(path: Path, function: str) -> str:
    """The address of the last jump of a function."""
    words = ["objdump", "-d", f"--disassemble={function}", str(path)]
    listing = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return f"0x{re.findall(r'^ *([0-9a-f]+):.*jmp', listing, re.MULTILINE)[-1]}"


def first_section_header_end(path: Path) -> int:
    """Where the first section header ends, which says how many there are: e_shoff + e_shentsize of an ELF64 header."""
    return int.from_bytes(path.read_bytes()[40:48], "little") + 64


def test_what_is_broken_at_random_is_refused_or_read_but_never_a_crash(tmp_path: Path) -> None:
    whole = build("depot").read_bytes()
    dice = random.Random(20261121)
    file = tmp_path / "broken"
    for round in range(24):
        content = bytearray(whole)
        if round % 2:
            content = content[: dice.choice([10, 63, 64, 500, 4096, 5000, len(whole) // 2, len(whole) - 1])]
        else:
            # Bytes of the headers and of the notes and symbols near the end.
            for _ in range(20):
                content[dice.choice([dice.randrange(0x40, 0x400), dice.randrange(len(whole) - 20000, len(whole))])] ^= (
                    1 << dice.randrange(8)
                )
        file.write_bytes(content)
        for program in (f"usdt:{file}:depot:* {{ @ = count(); }}", f"uprobe:{file}:p* {{ @ = count(); }}"):
            done = tracer("--dry-run", "-e", program)
            assert done.status in (0, 2), done.err
            assert "internal error" not in done.err
            assert "Traceback" not in done.err


def test_a_return_probe_where_returns_can_be_found_does_no_harm(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("throws")
    program = f"uretprobe:{path}:middle {{ @[(int32)retval] = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 3")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert done.text == "6\n@[-4]: 1\n@[-2]: 1\n@[0]: 1\n"


def test_a_process_that_is_gone(backend: str, clean: None) -> None:
    with target("/bin/true") as process:
        process.wait()
        done = tracer("--backend", backend, "-p", str(process.pid), "-e", "uprobe:libc:malloc { @ = count(); }")
    assert (done.status, done.out) == (1, b"")
    assert done.err == f"tracer: error: no process {process.pid}; list processes with: ps -e\n"


@pytest.mark.parametrize("pid", ["0", "-1", "x", "99999999999"])
def test_a_pid_that_is_none(pid: str, clean: None) -> None:
    done = tracer("-p", pid, "-e", "uprobe:libc:malloc { @ = count(); }")
    assert (done.status in (1, 2), done.out, done.err.count("\n")) == (True, b"", 1)
    assert done.err.startswith("tracer: error: ")
    assert pid in done.err


def test_a_program_with_several_faults_is_told_all_of_them(clean: None) -> None:
    program = f'uprobe:{build("depot")}:price {{ @a = cont(); @b = "x" * 2; }}'
    done = tracer("-e", program)
    assert (done.status, done.out) == (2, b"")
    assert done.err == (
        carets(program, "cont", "unknown function 'cont'; did you mean count?")
        + carets(program, '"x"', "'*' needs integers, not a string")
    )


# --- not root --------------------------------------------------------------------------------------------------------


def test_not_root(clean: None) -> None:
    path = build("depot")
    program = f"usdt:{path}:depot:plain {{ @ = count(); }}"
    for backend in ("auto", "bcc", "ftrace"):
        done = tracer("--backend", backend, "-e", program, "-c", f"{path} 3", prefix=AS_NOBODY)
        assert (done.status, done.out) == (1, b"")
        assert done.err == "tracer: error: tracing needs root; run it with sudo\n"


def test_what_needs_no_root_works_without() -> None:
    path = build("depot")
    done = tracer("-e", 'BEGIN { printf("hi\\n"); exit(); }', prefix=AS_NOBODY)
    assert (done.status, done.text, done.err) == (0, "hi\n", "")
    done = tracer("list", f"usdt:{path}:depot:plain", prefix=AS_NOBODY)
    assert (done.status, done.text, done.err) == (0, f"usdt:{path}:depot:plain\n", "")
    done = tracer("--dry-run", "-e", f"usdt:{path}:depot:plain {{ @ = count(); }}", prefix=AS_NOBODY)
    assert (done.status, done.err) == (0, "")
    assert f"usdt:{path}:depot:plain" in done.text


# --- no tracefs, no BCC ----------------------------------------------------------------------------------------------


@contextmanager
def hidden_bcc(replacement: Path) -> Iterator[tuple[str, ...]]:
    """A command in whose eyes the distribution's binding is `replacement`, in a mount namespace of its own."""
    found = [path for path in Path("/usr/lib/python3/dist-packages").glob("bcc") if path.is_dir()]
    assert found, "the binding is not where Debian and Ubuntu put it"
    script = f'mount --bind {replacement} {found[0]} && exec "$@"'
    yield ("unshare", "--mount", "sh", "-c", script, "sh")


WITHOUT_TRACEFS = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'umount -R /sys/kernel/debug/tracing 2>/dev/null; umount -R /sys/kernel/tracing && exec "$@"',
    "sh",
)


def test_tracefs_that_is_not_mounted_is_mounted_for_root(backend: str, clean: None) -> None:
    path = build("depot")
    program = f"usdt:{path}:depot:plain {{ @ = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 3", prefix=WITHOUT_TRACEFS)
    assert (done.status, done.text, done.err) == (0, "@: 3\n", "Attached 1 probe\n")


def test_what_is_mounted_elsewhere_may_have_any_name(backend: str, tmp_path: Path, clean: None) -> None:
    path, place = build("depot"), os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(place)
    mount = (*WITHOUT_TRACEFS[:4], f'mount -t tmpfs none "$0/"* && {WITHOUT_TRACEFS[4]}', str(tmp_path))
    program = f"usdt:{path}:depot:plain {{ @ = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 3", prefix=mount)
    assert (done.status, done.text, done.err) == (0, "@: 3\n", "Attached 1 probe\n")


def test_tracefs_that_is_not_mounted_without_root(clean: None) -> None:
    path = build("depot")
    program = f"usdt:{path}:depot:plain {{ @ = count(); }}"
    done = tracer("--backend", "ftrace", "-e", program, "-c", f"{path} 3", prefix=(*WITHOUT_TRACEFS, *AS_NOBODY))
    assert (done.status, done.out, done.err) == (1, b"", "tracer: error: tracing needs root; run it with sudo\n")


@pytest.fixture
def lattice() -> Iterator[Path]:
    """What PyPI calls bcc."""
    with tempfile.TemporaryDirectory() as directory:
        package = Path(directory) / "bcc"
        package.mkdir()
        (package / "__init__.py").write_text("class Lattice:\n    pass\n")
        yield package


def test_a_wrong_bcc_on_the_path_is_passed_by(lattice: Path, clean: None) -> None:
    path = build("depot")
    program = f"usdt:{path}:depot:plain /arg0 != {os.getpid() + 1000000}/ {{ @ = count(); }}"
    command = [*TRACER, "--backend", "bcc", "-e", program, "-c", f"{path} 3"]
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": f"{lattice.parent}:{root}"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n\n@: 3\n", "Attached 1 probe\n")


def test_a_wrong_bcc_and_no_other_is_named(lattice: Path, clean: None) -> None:
    path = build("depot")
    # A program that no earlier run has compiled.
    program = f"usdt:{path}:depot:plain /arg0 != {os.getpid() + 2000000}/ {{ @ = count(); }}"
    reason = (
        "the package bcc in /usr/lib/python3/dist-packages/bcc is an unrelated one,"
        " and the BPF Compiler Collection is not installed"
    )
    with hidden_bcc(lattice) as prefix:
        asked = tracer("--backend", "bcc", "-e", program, "-c", f"{path} 3", prefix=prefix)
        free = tracer("-e", program, "-c", f"{path} 3", prefix=prefix)
    assert asked == Done(1, b"", f"tracer: error: {reason}; sudo apt-get install python3-bpfcc\n")
    assert free == Done(
        0,
        b"\n\n@: 3\n",
        f"tracer: using ftrace, not bcc: {reason} (sudo apt-get install python3-bpfcc)\nAttached 1 probe\n",
    )
