"""Tracer inside a pid namespace (a container): every number is one of that namespace's, on both backends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import target, tracer
from tests.live.answers import maps
from tests.live.test_follow import ANSWER, HITS, N, by_kind

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

Place = Callable[[str], Path]

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
NUMBERS = 'pgrep -x ticker | tr "\\n" " " >&2'  # of what runs in the namespace, as seen there


def inside(script: str) -> tuple[str, ...]:
    """A prefix that runs a command in a namespace of its own, after a script of the shell."""
    return (*UNSHARE, "sh", "-c", f'{script}\n"$@"', "sh")


def test_numbers_are_those_of_our_namespace(backend: str, place: Place) -> None:
    """Of a process there, of one in a namespace inside it, and 0 for one outside, which has none."""
    path = place("ticker")
    nested = f"unshare --pid --fork --kill-child {path} 9 10 >/dev/null &"
    prefix = inside(f"{path} 9 10 >/dev/null & {nested} until [ $(pgrep -xc ticker) = 2 ]; do :; done; {NUMBERS}")
    program = f"usdt:{path}:ticker:tick {{ @[pid, tid, pid == tid] = count(); }} interval:ms:300 {{ exit(); }}"
    with target(path, 9, 10):
        done = tracer("--backend", backend, "-f", "json", "-e", program, prefix=prefix)
    assert done.status == 0, done.err
    numbers = done.err.partition("Attached")[0].split()
    assert len(numbers) == 2
    assert set(maps(done)["@"]) == {f"{number},{number},true" for number in ("0", *numbers)}


def test_the_numbers_of_the_first_namespace_are_told_or_refused(backend: str, place: Place) -> None:
    """Of a process outside, which has none here."""
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @[pid(init), tid(init), pid] = count(); }} interval:ms:300 {{ exit(); }}"
    with target(path, 9, 10) as process:
        done = tracer("--backend", backend, "-f", "json", "-e", program, prefix=UNSHARE)
    if backend == "bcc":
        assert list(maps(done)["@"]) == [f"{process.pid},{process.pid},0"]
    else:
        assert done.status == 1
        refused = "is not available with ftrace: the kernel's events carry the numbers of the container"
        assert f"error: pid(init) {refused};" in done.err and f"error: tid(init) {refused};" in done.err


@pytest.mark.parametrize("off", ["", "uprobe_multi"])
def test_the_command_is_known_by_its_number(backend: str, place: Place, off: str) -> None:
    path = place("ticker")
    program = (
        f"usdt:{path}:ticker:tick /pid == cpid/ {{ @start[tid] = nsecs; @ = count(); @n[tid == cpid] = count(); }}"
        " END { clear(@start); }"
    )
    words = ("--backend", backend, "-e", program, "-c", f"{path} 0.2 10")
    done = tracer(*words, prefix=UNSHARE, env={"TRACER_WITHOUT": off})
    assert (done.status, done.text, done.err) == (0, "20\n@: 20\n@n[true]: 20\n", "Attached 2 probes\n")


def test_a_process_is_named_by_its_number_there(backend: str, place: Place) -> None:
    path = place("ticker")
    prefix = inside(f"{path} 3 10 >/dev/null & echo $! >&2")
    # 2: the first that the shell, which is 1, starts.
    words = ("--backend", backend, "-f", "json", "-e", f"usdt:{path}:ticker:tick {{ @[pid, cpid] = count(); }}", "-p")
    with target(path, 9, 10):
        done = tracer(*words, "2", prefix=prefix)
    assert (done.status, done.err) == (0, "2\nAttached 1 probe\n")
    assert list(maps(done)["@"]) == ["2,0"]


def test_stacks_and_symbols_are_named_by_the_process_there(backend: str, place: Place) -> None:
    path = place("depot")
    program = f"usdt:{path}:depot:plain {{ @[ustack(2)] = count(); }} uprobe:{path}:main {{ print(usym(arg1 * 0)); }}"
    words = ("--backend", backend, "-e", program, "-c", f"{path} 5")
    done, outside = tracer(*words, prefix=UNSHARE), tracer(*words)
    assert (done.status, done.err) == (0, outside.err)
    assert done.text == outside.text
    assert "main" in done.text


@pytest.mark.parametrize("option", ["-c", "-p"])
def test_descendants_are_followed(backend: str, place: Place, option: str) -> None:
    path = place("family")
    words = ("--backend", backend, "--follow", "-e", by_kind(path), option)
    with target(path, 3000):
        if option == "-c":
            done = tracer(*words, f"{path} {N}", prefix=UNSHARE)
        else:
            os.mkfifo(path.parent / "go")
            waiting = f"{path} {N} wait <go >/dev/null & exec 3>go"
            attached = "until grep -qs Attached said; do sleep 0.05; done"
            go = f'"$@" 2>said & {attached}; echo >&3; wait $!; status=$?; cat said >&2; exit $status'
            done = tracer(*words, "2", prefix=inside(f"cd {path.parent}; {waiting}; {go}"))
    assert (done.status, done.text.removeprefix("done\n"), done.err) == (0, ANSWER, "Attached 1 probe\n")


def test_descendants_of_several_are_followed(backend: str, place: Place) -> None:
    """2 and 3 are the first that the shell, which is 1, starts."""
    path = place("family")
    for name in ("go2", "go3"):
        os.mkfifo(path.parent / name)
    waiting = "".join(f"{path} {N} wait <go{number} >/dev/null & exec {number + 3}>go{number}; " for number in (2, 3))
    attached = "until grep -qs Attached said; do sleep 0.05; done"
    go = f'"$@" 2>said & {attached}; echo >&5; echo >&6; wait $!; status=$?; cat said >&2; exit $status'
    program = f"usdt:{path}:family:hit {{ @[arg0] = count(); }}"
    words = ("--backend", backend, "-f", "json", "--follow", "-e", program, "-p", "2,3")
    with target(path, 3000):
        done = tracer(*words, prefix=inside(f"cd {path.parent}; {waiting}{go}"))
    assert (done.status, maps(done)["@"]) == (0, {str(kind): 2 * count for kind, count in HITS.items()})
    assert done.err == "Attached 1 probe\n"


def test_what_is_compiled_for_one_namespace_fits_another(place: Place, tmp_path: Path) -> None:
    path = place("ticker")
    words = ("--backend", "bcc", "-e", f"usdt:{path}:ticker:tick {{ @[pid == cpid] = count(); }}", "-c", f"{path} 0.1")
    for prefix in (UNSHARE, UNSHARE, (*UNSHARE, *UNSHARE), ()):
        done = tracer(*words, prefix=prefix, env={"XDG_CACHE_HOME": str(tmp_path)})
        assert (done.status, done.text) == (0, "10\n@[true]: 10\n")
    assert len(list((tmp_path / "tracer").glob("bpf/*"))) == 2  # inside, and in the first namespace


@pytest.mark.parametrize(("asks", "what"), [("pid", "pid"), ("tid", "tid"), ("ustack", "ustack")])
def test_a_kernel_that_does_not_describe_itself_leaves_it_to_ftrace(place: Place, asks: str, what: str) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @[{asks}] = count(); }}"
    env = {"TRACER_WITHOUT": "btf"}
    reason = f"{what} is not available with bcc: processes have other numbers in this container (a pid namespace)"
    words = ("-e", program, "-c", f"{path} 0.1")
    done = tracer(*words, prefix=UNSHARE, env=env)
    assert done.status == 0
    assert done.err.startswith(f"tracer: using ftrace, not bcc: {reason}, and the kernel has no BTF (--backend ftrace")
    done = tracer("--backend", "bcc", *words, prefix=UNSHARE, env=env)
    assert (done.status, done.out) == (1, b"")
    at = " " * program.index(f"[{asks}]") + " " + "^" * len(asks)
    assert done.err == f"{program}\n{at} error: {reason}, and the kernel has no BTF; --backend ftrace can\n"
    assert tracer("--backend", "bcc", *words, env=env).status == 0  # the first namespace needs none


@pytest.mark.parametrize("words", [("-c", "true"), ("-p", "2")], ids=str)
def test_a_proc_of_another_namespace_is_not_believed(words: tuple[str, str]) -> None:
    """Process 2 there is another one than ours: its memory map would be read, and -p would name another."""
    prefix = tuple(word for word in UNSHARE if word != "--mount-proc")
    done = tracer("-e", "uprobe:libc:exit { @[ustack] = count(); }", *words, prefix=prefix)
    assert (done.status, done.out) == (1, b"")
    assert done.err == (
        "tracer: error: /proc shows another pid namespace, whose process numbers differ;"
        " mount this namespace's own: mount -t proc proc /proc (unshare has --mount-proc)\n"
    )
