"""Programs whose code does not stay where the kernel has set breakpoints: hits that cannot be counted are told."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tracer, tracing, until
from tests.live.answers import maps
from tests.live.test_silence import said
from tests.targets.build import build
from tracer.errors import Source
from tracer.host.maps import Picture
from tracer.kinds.site import Target, places_among
from tracer.lang.syntax.parser import parse
from tracer.resolve.sites.expand import expand
from tracer.resolve.sites.in_memory import states
from tracer.silence.history import History

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

Place = Callable[[str], Path]

BY = "(node --use-largepages and PHP's opcache.huge_code_pages do that): run it without"
MOVED = f"moved its code to memory of its own, where nothing can be probed {BY}"
COPIED = f"copied its code, with tracer's breakpoints in it, to memory of its own, where a breakpoint ends it {BY}"


def counted(backend: str, how: str, path: Path, *options: str) -> tuple[str, list[str]]:
    """What is printed of a run with `-c`, and what is said."""
    program = f"uprobe:{path}:step {{ @ = count(); }}"
    done = tracer("--backend", backend, *options, "-e", program, "-c", f"{path} {how}")
    assert done.status == 0
    return done.text, said(done.err)


def test_code_that_stays_is_counted_and_nothing_is_said(backend: str, place: Place) -> None:
    assert counted(backend, "stay 5 7", place("moves")) == ("12 calls\n@: 12\n", [])


def test_code_that_the_program_moves_is_told_after_it_has_ended(backend: str, place: Place) -> None:
    path = place("moves")
    lost = f"uprobe:{path}:step was hit 5 times, and calls after that are not counted: moves {MOVED}"
    assert counted(backend, "file 5 7", path) == ("12 calls\n@: 5\n", [lost])
    for options in (), ("-q",):
        assert counted(backend, "file 0 7", path, *options) == ("7 calls\n", [f"no probe was hit: moves {MOVED}"])


def test_the_signal_that_ends_a_program_which_copies_its_breakpoints_is_explained(backend: str, place: Place) -> None:
    path = place("moves")
    ended = f"{path} was ended by SIGTRAP: it may have {COPIED}"
    for options in (), ("--follow",):
        assert counted(backend, "copy 5 7", path, *options) == ("@: 5\n", [ended])
    silent = "no probe was hit: a breakpoint has ended the process"
    assert counted(backend, "copy 0 7", path) == ("", [ended, silent])


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_breakpoint_that_was_copied_with_its_code_is_taken_out_of_the_copy(
    end: int, backend: str, place: Place, tmp_path: Path
) -> None:
    """The kernel knows nothing of it, and the process would be ended by it after the trace."""
    path = place("moves")
    command = "--backend", backend, "-e", f"uprobe:{path}:step {{ @ = count(); }}"
    with tracing(tmp_path, *command) as trace, target(path, "copy", 5, 0, 3000, 7) as process:
        assert read_line(process) == "ready"
        trace.signal(end)
        trace.wait()
        assert read_line(process) == "12 calls"
        assert process.wait() == 0
    assert end == signal.SIGKILL or trace.out == b"@: 5\n"


def test_code_that_was_written_over_is_told(backend: str, place: Place) -> None:
    path = place("moves")
    text, lines = counted(backend, "patch 0 7", path)
    rewrote = "or wrote other code over it (it made its code writable)"
    assert (text, lines) == ("7 calls\n", [f"no probe was hit: moves did not call it, {rewrote}, and has ended"])
    # While it runs its memory tells.
    program = f"uprobe:{path}:step {{ @ = count(); }} interval:ms:600 {{ exit(); }}"
    for before, which in ("0", "no probe was hit: "), ("5", f"uprobe:{path}:step was hit 5 times, and calls after"):
        done = tracer("--backend", backend, "-e", program, "-c", f"{path} patch {before} 7 20000 1")
        (line,) = said(done.err)
        assert line.startswith(which)
        assert re.search(
            r": process \d+ \(moves\) has written other code over the place, and so over the breakpoint, as XRay and"
            " live patching do: probe a function that it calls$",
            line,
        )


def test_code_that_was_written_over_before_is_refused(backend: str, place: Place) -> None:
    """The kernel would execute the instruction of the file, and go on in the middle of the other code."""
    path = place("moves")
    program = f"uprobe:{path}:behind {{ @ = count(); }} uprobe:{path}:step {{ @ = count(); }}"
    with target(path, "patch", 5, 7, 60_000, 1) as process:
        assert read_line(process) == "ready"
        done = tracer("--backend", backend, "-p", str(process.pid), "-e", program)
        assert (done.status, done.out) == (2, b"")
        _, line = done.err.splitlines()
        assert line.strip() == (
            f"{'^' * len(f'uprobe:{path}:step')} error: process {process.pid} (moves) has written other code over"
            f" uprobe:{path}:step, as XRay and live patching do: a probe would execute the instruction of the file"
            " there; probe a function that it calls"
        )


def test_a_process_that_moved_its_code_before_is_told(backend: str, place: Place) -> None:
    path = place("moves")
    program = f"uprobe:{path}:step {{ @ = count(); }} interval:ms:600 {{ exit(); }}"
    with target(path, "file", 5, 7, 60_000, 1) as process:
        assert read_line(process) == "ready"
        for options in ("-p", str(process.pid)), ():
            done = tracer("--backend", backend, *options, "-e", program)
            assert said(done.err) == [f"no probe was hit: process {process.pid} (moves) has {MOVED}"]


def test_a_breakpoint_that_the_process_has_given_back_is_set_again(
    backend: str, place: Place, tmp_path: Path
) -> None:
    path = place("moves")
    program = f"uprobe:{path}:step {{ @ = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-e", program, "-c", f"{path} drop 5 7 8000 20") as trace:
        trace.wait_for("is set again")
        done = trace.wait()
    # The seven in between had no breakpoint to meet.
    assert done.text == "ready\n32 calls\n@: 25\n"
    (line,) = said(done.err)
    assert re.fullmatch(
        rf"the breakpoint of uprobe:{path}:step was gone from the memory of process \d+ \(moves\), which gave the page"
        r" back \(MADV_DONTNEED\), or the kernel had not set it: it is set again, and calls before are not counted",
        line,
    )


def test_it_is_set_again_within_the_first_second_of_a_command(backend: str, place: Place) -> None:
    path = place("moves")
    text, (line,) = counted(backend, "drop 5 7 2500 20", path)
    # The seven in between had no breakpoint to meet.
    assert text == "ready\n32 calls\n@: 25\n"
    assert line.endswith(": it is set again, and calls before are not counted")


def overlaid(folder: Path, then: str) -> tuple[str, ...]:
    """Runs before a tracer: `moves` of an overlay is copied while a process runs it. `then` comes next."""
    folder.mkdir()
    script = f"""
        cd {folder} && mkdir lower upper work merged && cp {build("moves")} lower/
        mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none merged
        ./merged/moves stay 1 1 4000 1 > said & until grep -qs ready said; do sleep 0.01; done
        touch merged/moves; {then}
    """
    return ("unshare", "-m", "sh", "-c", script, "sh")


@pytest.mark.parametrize(
    ("then", "options", "says"),
    [
        ('exec "$@" -p $!', (), "no probe was hit: "),
        ('./merged/moves stay 1 1 1 3000 1 > /dev/null & "$@"', ("-q",), r"uprobe:\S+:step misses calls: "),
    ],
)
def test_a_process_that_runs_a_file_as_it_was_before_its_overlay_copied_it_is_told(
    then: str, options: tuple[str, ...], says: str, backend: str, tmp_path: Path
) -> None:
    path = tmp_path / "over/merged/moves"
    program = f"uprobe:{path}:step {{ @ = count(); }} interval:ms:600 {{ exit(); }}"
    done = tracer("--backend", backend, *options, "-e", program, prefix=overlaid(tmp_path / "over", then))
    (line,) = said(done.err)
    assert re.fullmatch(
        rf"{says}process \d+ \(moves\) runs {path} as it was before the overlay file system made a copy of it to be"
        " written, and that copy is what is probed: programs started from now on run it",
        line,
    )
    assert bool(done.text) == (options == ("-q",))


PHP = os.path.realpath(shutil.which("php") or "php")
NODE = os.path.realpath(shutil.which("node") or "node")


@pytest.mark.parametrize(
    ("path", "function", "command", "why", "remedy"),
    [
        (PHP, "PHP_MD5InitArgs", "php -d opcache.huge_code_pages=1 -r 1;", "opcache.huge_code_pages=1",
         "run it with -d opcache.huge_code_pages=0"),
        (NODE, "uv_run", "node --use-largepages=on -e 1", "--use-largepages=on", "leave --use-largepages out"),
    ],
)  # fmt: skip
def test_programs_that_would_copy_their_breakpoints_are_refused(
    backend: str, path: str, function: str, command: str, why: str, remedy: str
) -> None:
    program = f"uprobe:{path}:{function} {{ @ = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", command)
    name = os.path.basename(path)
    assert (done.status, done.out) == (2, b"")
    assert done.err.splitlines()[2:] == [] and done.err.splitlines()[1] == (
        f"{'^' * len(f'uprobe:{path}:{function}')} error: {name} copies its code to large pages when it starts ({why}),"
        f" and breakpoints with it: the first that it reached would end it with SIGTRAP; {remedy}"
    )
    # What it calls elsewhere stays.
    other = tracer("--backend", backend, "-f", "json", "-e", "uprobe:libc:exit { @ = count(); }", "-c", command)
    assert maps(other) == {"@": 1}


def test_php_without_large_pages_is_counted(backend: str) -> None:
    program, counts = f"uprobe:{PHP}:PHP_MD5InitArgs {{ @ = count(); }}", []
    for rounds in 0, 20:
        code = f"for ($i = 0; $i < {rounds}; $i++) md5($i);"
        command = f"php -d opcache.huge_code_pages=0 -r '{code}'"
        done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", command)
        counts.append(int(str(maps(done).get("@", 0))))
    assert counts[1] - counts[0] == 20


LEADERLESS_C = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) void work(int number) { __asm__ volatile("nop" ::"r"(number)); }
static void *others(void *main_one) {
  pthread_join(*(pthread_t *)main_one, 0);
  puts("ready");
  fflush(stdout);
  for (int i = 0;; i++) work(i), usleep(2000);
}
int main(void) {
  static pthread_t own, other;
  own = pthread_self();
  pthread_create(&other, 0, others, &own);
  pthread_exit(0);
}
"""


def test_what_a_process_has_at_a_place_is_known_when_its_main_thread_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "leaderless"
    subprocess.run(
        ["gcc", "-O1", "-pthread", "-x", "c", "-o", path, "-"], input=LEADERLESS_C, text=True, check=True
    )
    with target(path) as process:
        assert read_line(process) == "ready"
        (site,) = places_among(expand(parse(Source(f"uprobe:{path}:work {{ }}")), Target())[0])
        until(lambda: not os.path.exists(f"/proc/{process.pid}/exe"))  # a joined thread is still on its way out
        assert states(Picture(process.pid), [site]) == ["lacking"]
        with closing(History([process.pid])) as history:
            assert history.goes_on and history.complete
