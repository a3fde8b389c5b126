"""Where the kernel does not take a program from bcc, ftrace runs it: one line says so, and BEGIN has run once."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.cli import ROOT, TRACER, environment, tracer
from tests.harness.kernel import nothing_left
from tests.live.conftest import need
from tests.targets.build import build

pytestmark = pytest.mark.live

NO_ATTACH = (str(ROOT / "scripts" / "without-bpf"), "--attach")

BEGIN = (
    'BEGIN { printf("begun %s\\n", str($1)); @n = 3; @kept["x", 1] = 9; @c[1] = count(); @h = hist(5); @a = avg(40);'
    " @s = stats(8); @gone = 1; delete(@gone); @k[2] = 7; print(@k); @k[2] = 8; clear(@c); @c[2] = count();"
    ' system("echo ran >> %s; echo from the shell", str($1)); cat("/proc/sys/kernel/ostype"); errorf("told\\n"); }'
)


def program(path: Path) -> str:
    return (
        f"{BEGIN} usdt:{path}:depot:parcel {{ @n++; @c[2] = count(); @h = hist(arg0); @a = avg(arg3); @s = stats(arg3);"
        ' @k[arg0 & 1] += @kept["x", 1]; }'
    )


def test_what_cannot_be_attached_goes_to_ftrace_with_what_begin_did(tmp_path: Path) -> None:
    path = build("depot")
    alike = []
    for backend, prefix in (("ftrace", ()), ("bcc", ()), (None, NO_ATTACH)):
        ran = tmp_path / f"ran-{backend}"
        words = ("--unsafe", *(("--backend", backend) if backend else ()), "-e", program(path), "-c", f"{path} 40")
        with nothing_left():
            done = tracer(*words, str(ran), prefix=prefix)
        assert ran.read_text() == "ran\n"
        alike.append((done.status, done.text.replace(str(ran), "FILE"), done.err))
    through_ftrace, through_bcc, fell_back = alike
    assert fell_back[:2] == through_ftrace[:2] == through_bcc[:2]
    assert fell_back[1].startswith("begun FILE\n@k[2]: 7\nfrom the shell\n\nLinux\n")
    assert "@n: 43\n" in fell_back[1] and "@c[2]: 41\n" in fell_back[1] and '@kept[x, 1]: 9\n' in fell_back[1]
    refused = f"tracer: using ftrace, not bcc: cannot attach to usdt:{path}:depot:parcel: Permission denied\n"
    assert fell_back[2] == refused + through_ftrace[2]


def test_a_backend_that_was_named_is_not_left(tmp_path: Path) -> None:
    path = build("depot")
    point = f"usdt:{path}:depot:parcel"
    text = f'BEGIN {{ printf("begun\\n"); }} {point} {{ @ = count(); }}'
    done = tracer("--backend", "bcc", "-e", text, "-c", f"{path} 4", prefix=NO_ATTACH)
    assert (done.status, done.out) == (1, b"")
    caret = " " * text.index(point) + "^" * len(point)
    assert done.err == (
        f"{text}\n{caret} error: cannot attach to {point}: Permission denied;"
        " --backend ftrace attaches in another way\n"
    )


def test_exit_in_begin_ends_it_before_anything_is_attached() -> None:
    path = build("depot")
    text = f'BEGIN {{ @ = 5; printf("begun\\n"); exit(4); }} usdt:{path}:depot:parcel {{ @++; }}'
    done = tracer("-e", text, prefix=NO_ATTACH)
    assert (done.status, done.text, done.err) == (4, "begun\n@: 5\n", "")


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_what_begin_says_comes_after_the_number_of_probes(backend: str) -> None:
    path = build("depot")
    text = f'BEGIN {{ printf("begun\\n"); warnf("beware\\n"); }} usdt:{path}:depot:parcel {{ @ = count(); }}'
    done = subprocess.run(
        [*TRACER, "--backend", backend, "-e", text, "-c", f"{path} 4"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(), cwd=ROOT, check=True,
    )  # fmt: skip
    assert done.stdout == b"Attached 2 probes\nbegun\nstdin:1:28-45: WARNING: beware\n\n\n@: 4\n"


@pytest.fixture
def small_group() -> Iterator[tuple[Path, Path]]:
    """A control group with 64 MiB: its folder, and the file with the limit."""
    for point, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = Path(point, f"tracer-test-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            with suppress(OSError):
                (folder / limit).write_text("67108864")
                yield folder, folder / limit
                return
        finally:
            folder.rmdir()
    need(False, "a control group with a limit on memory")


def test_a_control_group_without_memory_for_the_maps_is_named_and_ftrace_needs_none(
    small_group: tuple[Path, Path],
) -> None:
    folder, limit = small_group
    path = build("depot")
    text = (
        "config = { max_map_keys = 300000 } BEGIN { @n = 3; } "
        f"usdt:{path}:depot:parcel {{ @n++; @a[arg0] = count(); @b[str(arg1)] = hist(arg2); @c[arg0] = stats(arg3); }}"
    )
    inside = ("/bin/sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh")
    tracer("--backend", "bcc", "-e", text, "-c", f"{path} 4")  # compiled where there is room for the compiler
    forced = tracer("--backend", "bcc", "-e", text, "-c", f"{path} 4", prefix=inside)
    why = "the kernel does not give memory for the maps: Cannot allocate memory"
    assert (forced.status, forced.out, forced.err) == (
        1, b"", f"tracer: error: {why}; raise the limit of the control group ({limit} has 64 MiB), or set max_map_keys"
        " lower\n",
    )  # fmt: skip
    done = tracer("-e", text, "-c", f"{path} 4", prefix=inside)
    assert (done.status, done.err) == (0, f"tracer: using ftrace, not bcc: {why}\nAttached 2 probes\n")
    assert "@n: 7\n" in done.text and done.out == tracer("--backend", "ftrace", "-e", text, "-c", f"{path} 4").out


def test_stacks_have_an_answer_in_a_control_group_that_is_too_small_for_the_compiler(
    small_group: tuple[Path, Path],
) -> None:
    folder, _ = small_group
    path = build("depot")
    text = f"usdt:{path}:depot:parcel {{ @[ustack(1)] = count(); @n = sum({time.time_ns()}); }}"  # compiled anew
    inside = ("/bin/sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh")
    done = tracer("-e", text, "-c", f"{path} 4", prefix=inside)
    assert (done.status, done.err.splitlines()[-1]) == (0, "Attached 1 probe")
    assert done.out == tracer("--backend", "ftrace", "-e", text, "-c", f"{path} 4").out
