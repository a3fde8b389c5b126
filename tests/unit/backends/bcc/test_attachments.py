"""Programs and their sites, over an in-memory bpf(2): one link for many sites, and none where one cannot be had."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.bpf import FakeBpf, fake_bpf
from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc.attach import anchors, attachments, uprobe
from tracer.backends.bcc.attach.attachments import Attachments
from tracer.backends.bcc.codegen.generate import generate
from tracer.errors import ProgramError
from tracer.kernel.syscall import Call
from tracer.kinds.site import FileSite
from tracer.plan.model import Plan


class MadeHere:
    """A watcher that makes all calls itself."""

    not_undone = None
    settled = True

    def open(self, calls: Sequence[Call], together: bool = False) -> list[int]:
        results = []
        for call in calls:
            try:
                results.append(call.make())
            except OSError as error:
                results.append(-(error.errno or 0))
        return results

    def mind(self, sites: Sequence[FileSite], pid: int | None) -> None:
        pass

    def check(self, sites: Sequence[FileSite]) -> None:
        pass

    def close(self, descriptors: Iterable[int], together: bool = False, idle: bool = False) -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    def leave(self) -> None:
        pass

    end = settle = leave


def _no_tracepoints(pid: int, stops: bool) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    path.write_bytes(bytes(range(256)) * 64)
    return path


@pytest.fixture
def fake(binary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBpf]:
    monkeypatch.setattr(attachments, "Watcher", MadeHere)
    monkeypatch.setattr(uprobe, "unprobable", lambda plan, watcher, stop: {})
    monkeypatch.setattr(uprobe, "open_verified", lambda path, identity: os.open(binary, os.O_RDONLY))
    monkeypatch.setattr(anchors, "MainThread", _no_tracepoints)
    with fake_bpf() as fake:
        yield fake


def sites(count: int, semaphore: int | None = None) -> list[FileSite]:
    return [replace(site(), offset=16 * at, address=16 * at, semaphore=semaphore) for at in range(count)]


def attached(plan: Plan, pid: int | None = None, stop: Callable[[], bool] = lambda: False) -> tuple[Attachments, int]:
    """What each clause's program, 100 and following, is attached to."""
    made = Attachments(() if pid is None else [pid], multi=True)
    programs = {(each.id, at): 100 + at for at, probe in enumerate(plan.probes) for each in probe.variants}
    return made, made.attach(plan, programs, generate(plan).site_texts, {}, stop)


def test_many_sites_of_a_file_are_one_link(fake: FakeBpf) -> None:
    made, number = attached(plan_of(probe("{ @ = count(); }"), *sites(1000)), pid=42)
    (link,) = fake.links
    assert (number, len(link.offsets), link.program, link.pid, link.flags) == (1000, 1000, 100, 42, 0)
    assert link.offsets == tuple(range(0, 16000, 16))
    assert (link.references, link.cookies) == ((), ())
    made.detach()
    assert not os.path.exists(f"/proc/self/fd/{link.fd}")


def test_a_link_tells_semaphores_and_returns(fake: FakeBpf) -> None:
    attached(plan_of(probe("{ @ = count(); }"), *sites(3, semaphore=0x40)))
    returning = [replace(each, kind="uretprobe") for each in sites(2)]
    attached(plan_of("uretprobe:/bin/app:checkout { @ = count(); }", *returning))
    with_semaphore, at_return = fake.links
    assert with_semaphore.references == (0x40,) * 3
    assert (at_return.flags, at_return.pid) == (1, 0)


def test_texts_of_sites_come_by_cookies(fake: FakeBpf) -> None:
    two = [replace(each, function=f"f{at}") for at, each in enumerate(sites(2))]
    attached(plan_of(probe("{ @[func] = count(); }"), *two))
    (link,) = fake.links
    assert len(set(link.cookies)) == 2


def test_what_the_kernel_does_not_probe_is_left_out_where_there_is_more(fake: FakeBpf) -> None:
    fake.unprobable = frozenset({32})
    found = [replace(each, probe=f"usdt:/bin/app:shop:order{at}") for at, each in enumerate(sites(8))]
    made, number = attached(plan_of("usdt:/bin/app:shop:order* { @ = count(); }", *found))
    assert number == 7
    assert [site.offset for site in made.left_out.values()] == [32]
    assert sorted(offset for link in fake.links for offset in link.offsets) == [0, 16, 48, 64, 80, 96, 112]


def test_the_one_place_that_was_asked_for_is_not_left_out(fake: FakeBpf) -> None:
    fake.unprobable = frozenset({0})
    with pytest.raises(ProgramError) as caught:
        attached(plan_of(probe("{ @ = count(); }"), *sites(1)))
    (said,) = caught.value.diagnostics
    assert said.message == "cannot attach to usdt:/bin/app:shop:order: not supported"


@pytest.mark.parametrize(
    ("number", "words", "hint"),
    [
        (errno.EPERM, "Operation not permitted", "lockdown"),
        (errno.EMFILE, "too many open files", "ulimit -n"),
        (errno.EIO, "Input/output error", "--backend ftrace"),
    ],
)
def test_a_refusal_is_said_under_the_attach_point_and_leaves_nothing(
    fake: FakeBpf, number: int, words: str, hint: str
) -> None:
    plan = plan_of(probe("{ @ = count(); }") + " " + probe("{ @b = count(); }"), *sites(2))
    fake.refuse_link = lambda links: number if links else 0
    with pytest.raises(ProgramError) as caught:
        attached(plan)
    (said,) = caught.value.diagnostics
    assert said.message == f"cannot attach to usdt:/bin/app:shop:order and 1 more sites: {words}"
    assert hint in (said.hint or "")
    assert [link for link in fake.links if os.path.exists(f"/proc/self/fd/{link.fd}")] == []


def test_the_place_that_another_tracer_holds_is_named_in_hexadecimal(fake: FakeBpf) -> None:
    one, two, held, last = sites(4)
    held = replace(held, probe=f"uprobe:/bin/app:{held.address}")
    fake.held = frozenset({held.offset})
    with pytest.raises(ProgramError) as caught:
        attached(plan_of(probe("{ @ = count(); }"), one, two, held, last))
    (said,) = caught.value.diagnostics
    assert said.message == (
        f"cannot attach to uprobe:/bin/app:{held.address:#x}: a probe with another semaphore, or with none, is at this"
        " place already"
    )
    assert said.hint == "Linux has one semaphore for each place: end the other tracer, or trace a copy of the file"
    assert [link for link in fake.links if os.path.exists(f"/proc/self/fd/{link.fd}")] == []


def test_a_stop_while_attaching_leaves_nothing(fake: FakeBpf) -> None:
    plan = plan_of(probe("{ @ = count(); }") + " " + probe("{ @b = count(); }"), *sites(2))
    assert attached(plan, stop=lambda: bool(fake.links))[1] == 0
    assert [link for link in fake.links if os.path.exists(f"/proc/self/fd/{link.fd}")] == []


def test_one_attach_point_can_be_detached_alone(fake: FakeBpf) -> None:
    plan = plan_of(probe("{ @ = count(); }") + " " + probe("{ @b = count(); }"), *sites(2))
    made, _ = attached(plan)
    assert [link.program for link in fake.links] == [101, 100]  # the last clause first
    made.detach_point(0, ())
    assert [os.path.exists(f"/proc/self/fd/{link.fd}") for link in fake.links] == [True, False]
    made.close()
