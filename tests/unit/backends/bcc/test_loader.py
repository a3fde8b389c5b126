"""Maps and programs on their way into the kernel, over an in-memory bpf(2)."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

import pytest

from tests.harness.bpf import (
    ARRAY,
    ATTACH_UPROBE_MULTI,
    CREATE,
    HASH,
    PERCPU_ARRAY,
    PERCPU_HASH,
    PROG_LOAD,
    RINGBUF,
    FakeBpf,
    fake_bpf,
)
from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc.attach.loader import Loaded, create_maps, load_programs
from tracer.backends.bcc.codegen.generate import RING, generate
from tracer.backends.bcc.codegen.maps.steps import FIRST_TABLE
from tracer.backends.bcc.host import trials
from tracer.backends.bcc.host.refused import TOO_MANY_MAPS, Refused
from tracer.errors import ProgramError, TracerError
from tracer.kernel import bpf
from tracer.plan.model import Plan

EXIT = bytes.fromhex("b700000000000000" "9500000000000000")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBpf]:
    monkeypatch.setattr(trials, "has", lambda feature: True)
    with fake_bpf() as fake:
        yield fake


def created(plan: Plan) -> Loaded:
    return create_maps(generate(plan), plan)


def load(plan: Plan, code: bytes = EXIT, multi: bool = True) -> Loaded:
    """Loads `code` for every function."""
    generated = generate(plan)
    loaded = create_maps(generated, plan)
    functions = dict.fromkeys(generated.functions.values(), code)
    load_programs(loaded, plan, generated, functions, generated.waits, multi=multi)
    return loaded


def test_each_table_gets_the_map_that_it_was_meant_for(fake: FakeBpf) -> None:
    plan = plan_of(probe("{ @n = count(); @k[arg1] = count(); @x[arg1] = arg1; @s[str(arg1)] = sum(arg1); }"))
    loaded = created(plan)
    made = [fake.maps[fd] for number, fd in loaded.maps.items() if FIRST_TABLE <= number < 1000]
    assert [(each.kind, each.key_size, each.value_size) for each in made[:3]] == [
        (PERCPU_ARRAY, 4, 8), (PERCPU_HASH, 8, 8), (HASH, 8, 8),
    ]  # fmt: skip
    assert [(each.kind, each.value_size) for each in made[3:]] == [(PERCPU_HASH, 16)] * 3
    assert [each.key_size for each in made[3:]] == sorted(each.key_size for each in made[3:])
    loaded.close()
    assert [fd for fd in fake.maps if os.path.exists(f"/proc/self/fd/{fd}")] == []


def test_what_is_large_is_allocated_as_it_is_needed(fake: FakeBpf, monkeypatch: pytest.MonkeyPatch) -> None:
    text = probe("{ @k[arg1] = count(); @x[arg1] = arg1; }")
    loaded = created(plan_of(text))
    flags = {fake.maps[fd].kind: fake.maps[fd].flags for number, fd in loaded.maps.items() if number >= FIRST_TABLE}
    assert (flags[PERCPU_HASH], flags[HASH]) == (bpf.F_NO_PREALLOC, 0)
    monkeypatch.setattr(trials, "has", lambda feature: feature != "late_allocation")
    loaded = created(plan_of(text))
    assert {fake.maps[fd].flags for number, fd in loaded.maps.items() if number >= FIRST_TABLE} == {0}


def test_a_ring_that_is_too_large_is_halved(fake: FakeBpf) -> None:
    plan = plan_of(probe('{ printf("x"); }'))
    wanted = created(plan).ring_size
    fake.refuse = lambda command, kind, entries: (
        errno.ENOMEM if command == CREATE and kind == RINGBUF and entries > wanted // 4 else 0
    )
    loaded = created(plan)
    assert (loaded.ring_wanted, loaded.ring_size) == (wanted, wanted // 4)
    assert fake.maps[loaded.maps[RING]].max_entries == wanted // 4


@pytest.mark.parametrize(
    ("number", "message", "hint"),
    [
        (errno.EPERM, "the kernel does not give memory for the maps: Operation not permitted", "raise the limit"),
        (errno.ENOMEM, "the kernel does not give memory for the maps: Cannot allocate memory", "max_map_keys lower"),
        (errno.EMFILE, "cannot create the maps: Too many open files", "ulimit -n"),
        (errno.E2BIG, "cannot create the maps: Argument list too long", "max_map_keys lower, or --backend ftrace"),
    ],
)
def test_where_there_is_no_room_for_maps_nothing_is_left_open(
    fake: FakeBpf, number: int, message: str, hint: str
) -> None:
    fake.refuse = lambda command, kind, entries: number if kind == HASH else 0
    with pytest.raises(TracerError) as caught:
        created(plan_of(probe("{ @k[arg1] = count(); @x[arg1] = arg1; }")))
    assert caught.value.message == message
    assert hint in (caught.value.hint or "")
    assert [fd for fd in fake.maps if os.path.exists(f"/proc/self/fd/{fd}")] == []


STRINGS = "give its strings sizes, as in str(arg0, 64)"
FRAMES = "take {0} frames of its stacks at most, as in ustack({0})"


@pytest.mark.parametrize(
    ("key", "ways"),
    [
        ("str(arg1)", [STRINGS]),
        ("ustack", [FRAMES.format(56)]),
        ("ustack(57), arg1", [FRAMES.format(56)]),
        ("str(arg1), comm, ustack", [STRINGS, FRAMES.format(48)]),
        ("str(arg1), ustack(30)", [STRINGS]),
        ("ustack, (1, ustack)", [FRAMES.format(24)]),
    ],
)
def test_a_key_that_this_kernel_cannot_have_is_said_under_its_map_with_what_it_can_have(
    fake: FakeBpf, monkeypatch: pytest.MonkeyPatch, key: str, ways: list[str]
) -> None:
    monkeypatch.setattr(trials, "has", lambda feature: feature != "long_keys")
    with pytest.raises(ProgramError) as caught:
        created(plan_of(probe(f"{{ @[{key}] = count(); }}")))
    (said,) = caught.value.diagnostics
    assert said.hint == ", ".join((*ways, "or --backend ftrace"))


@pytest.mark.parametrize(
    "key", ["str(arg1, 64)", "ustack(56)", "str(arg1, 64), comm, ustack(48)", "ustack(24), (1, ustack(24))"]
)
def test_a_key_as_long_as_was_said_is_taken(fake: FakeBpf, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(trials, "has", lambda feature: feature != "long_keys")
    created(plan_of(probe(f"{{ @[{key}] = count(); }}")))


def test_variants_whose_code_is_the_same_share_a_program(fake: FakeBpf) -> None:
    plan = plan_of(probe("{ @ = count(); }"), site(), site("other", ((8, False, site().args[1].operand),)))
    loaded = load(plan)
    assert len(loaded.programs) >= 1
    assert len(fake.programs) == len(set(loaded.programs.values()))
    loaded.unload()
    assert loaded.programs == {}


def test_a_program_that_reads_strings_may_sleep_and_one_for_links_is_declared_so(fake: FakeBpf) -> None:
    load(plan_of(probe("{ @[str(arg1)] = count(); }")))
    load(plan_of(probe("{ @ = count(); }")), multi=False)
    sleeping, plain = fake.programs.values()
    assert (sleeping.flags, sleeping.attach_type) == (1 << 4, ATTACH_UPROBE_MULTI)
    assert (plain.flags, plain.attach_type) == (0, 0)


def test_constants_of_maps_become_descriptors(fake: FakeBpf) -> None:
    tag = 0xFEED_FACE
    code = struct.pack("=BBhIBBhI", 0x18, 1, 0, 3 * FIRST_TABLE, 0, 0, 0, tag) + EXIT
    loaded = load(plan_of(probe("{ @ = count(); }")), code)
    (program,) = fake.programs.values()
    assert program.code == struct.pack("=BBhIBBhI", 0x18, 0x11, 0, loaded.maps[FIRST_TABLE], 0, 0, 0, 0) + EXIT


@pytest.mark.parametrize(
    ("number", "maps", "message"),
    [
        (errno.EACCES, 1, "the kernel's verifier refuses the program: Permission denied"),
        (errno.E2BIG, 1, "the kernel's verifier refuses the program: Argument list too long"),
        (errno.E2BIG, 65, TOO_MANY_MAPS.reason),
    ],
)
def test_what_the_verifier_says_is_the_detail(fake: FakeBpf, number: int, maps: int, message: str) -> None:
    fake.refuse = lambda command, kind, entries: number if command == PROG_LOAD else 0
    fake.log = b"R1 is not a pointer"
    code = b"".join(struct.pack("=BBhIBBhI", 0x18, 0x11, 0, each, 0, 0, 0, 0) for each in range(maps)) + EXIT
    with pytest.raises(Refused) as caught:
        load(plan_of(probe("{ @ = count(); }")), code)
    assert (caught.value.message, caught.value.detail) == (message, "R1 is not a pointer")


def test_maps_for_all_are_there_whatever_the_program(fake: FakeBpf) -> None:
    loaded = created(plan_of(probe("{ exit(); }")))
    kinds = sorted(fake.maps[fd].kind for fd in loaded.maps.values())
    assert {ARRAY, PERCPU_ARRAY, RINGBUF} <= set(kinds)
