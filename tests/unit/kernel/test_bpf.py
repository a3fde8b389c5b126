"""bpf(2)'s map commands, over an in-memory one: what older kernels lack, and what changes meanwhile."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterator

import pytest

from tests.harness.bpf import DELETE, DELETE_BATCH, HASH, LOOKUP_BATCH, NEXT, UPDATE_BATCH, FakeBpf, fake_bpf
from tracer.kernel import bpf
from tracer.kernel.bpf import MapType


@pytest.fixture
def fake() -> Iterator[FakeBpf]:
    with fake_bpf(cpus=2) as fake:
        yield fake


def filled(count: int, kind: MapType = MapType.HASH) -> tuple[int, dict[bytes, bytes]]:
    """A map with elements."""
    fd = bpf.map_create(kind, 4, 8, 1000)
    size = 16 if kind in (MapType.PERCPU_HASH, MapType.PERCPU_ARRAY) else 8
    elements = {struct.pack("=I", at): bytes([at % 256]) * size for at in range(count)}
    for key, value in elements.items():
        bpf.map_update(fd, key, value)
    return fd, elements


@pytest.mark.parametrize("kind", [MapType.HASH, MapType.PERCPU_HASH])
@pytest.mark.parametrize("chunk", [16, 50, 1000])
def test_a_hash_is_read_in_batches(fake: FakeBpf, kind: MapType, chunk: int) -> None:
    fd, elements = filled(100, kind)
    size = len(elements[bytes(4)])
    assert dict(bpf.map_batch(fd, 4, size, chunk) or ()) == elements
    assert fake.commands.count(LOOKUP_BATCH) == -(-100 // chunk)


def test_a_bucket_with_more_elements_than_asked_for_is_asked_for_again(fake: FakeBpf) -> None:
    fd, elements = filled(100)
    fake.bucket = 60
    assert dict(bpf.map_batch(fd, 4, 8, 16) or ()) == elements
    assert fake.commands.count(LOOKUP_BATCH) == 4  # 16 and 32 are too few, 64 and the rest


def test_an_empty_hash_has_no_elements(fake: FakeBpf) -> None:
    fd, _ = filled(0)
    assert bpf.map_batch(fd, 4, 8, 16) == []


def test_a_kernel_without_batches_is_asked_key_by_key(fake: FakeBpf) -> None:
    fd, elements = filled(40)
    fake.lacking = frozenset({LOOKUP_BATCH, DELETE_BATCH, UPDATE_BATCH})
    assert bpf.map_batch(fd, 4, 8, 16) is None
    assert set(bpf.map_keys(fd, 4)) == set(elements)
    bpf.map_delete_many(fd, list(elements)[:30])
    assert list(fake.maps[fd].elements) == list(elements)[30:]
    array = bpf.map_create(MapType.ARRAY, 4, 8, 3)
    bpf.array_fill(array, [b"a" * 8, b"b" * 8])
    assert bpf.map_lookup(array, struct.pack("=I", 1), 8) == b"b" * 8


def test_another_failure_of_a_batch_is_an_error(fake: FakeBpf) -> None:
    fd, _ = filled(40)
    fake.errors[LOOKUP_BATCH] = errno.EPERM
    with pytest.raises(PermissionError):
        bpf.map_batch(fd, 4, 8, 16)


def test_a_key_that_goes_while_keys_are_walked_starts_the_walk_anew(fake: FakeBpf) -> None:
    fd, elements = filled(10)
    third = list(elements)[2]
    for _ in range(3):
        fake.on_next(NEXT, lambda: None)
    fake.on_next(NEXT, lambda: bpf.map_delete_many(fd, [third]))
    assert bpf.map_keys(fd, 4) == list(elements)


def test_elements_go_in_one_call_or_one_by_one_where_one_is_not_there(fake: FakeBpf) -> None:
    fd, elements = filled(10)
    keys = list(elements)
    bpf.map_delete_many(fd, keys[:3])
    assert (fake.commands.count(DELETE_BATCH), fake.commands.count(DELETE)) == (1, 0)
    bpf.map_delete_many(fd, keys[2:8])
    assert list(fake.maps[fd].elements) == keys[8:]
    bpf.map_delete_many(fd, [])
    assert fake.commands.count(DELETE_BATCH) == 2


def test_elements_are_made_and_replaced_as_the_flags_say(fake: FakeBpf) -> None:
    fd = bpf.map_create(MapType.HASH, 4, 8, 1)
    assert fake.maps[fd].kind == HASH
    key, other = b"key1", b"key2"
    assert bpf.map_lookup(fd, key, 8) is None
    assert not bpf.map_delete(fd, key)
    bpf.map_update(fd, key, b"a" * 8, bpf.UPDATE_NEW)
    with pytest.raises(FileExistsError):
        bpf.map_update(fd, key, b"b" * 8, bpf.UPDATE_NEW)
    with pytest.raises(FileNotFoundError):
        bpf.map_update(fd, other, b"b" * 8, bpf.UPDATE_EXISTING)
    with pytest.raises(OSError, match="too long") as full:
        bpf.map_update(fd, other, b"b" * 8)
    assert full.value.errno == errno.E2BIG
    assert bpf.map_lookup(fd, key, 8) == b"a" * 8
    assert bpf.map_delete(fd, key)


@pytest.mark.parametrize(
    ("number", "level"), [(errno.E2BIG, 4), (errno.EFAULT, 4), (errno.EINVAL, 1), (errno.EACCES, 1)]
)
def test_the_verifier_is_asked_about_each_instruction_only_where_it_has_not_given_up(number: int, level: int) -> None:
    levels: list[tuple[int, int | None]] = []

    def load(level: int, log: ctypes.Array[ctypes.c_char] | None) -> int:
        levels.append((level, None if log is None else len(log)))
        if log is None:
            raise OSError(number, "refused")
        log.value = b"the reason"
        raise OSError(number, "refused")

    with pytest.raises(bpf.ProgramRefused) as refused:
        bpf._loaded(load)
    assert levels == [(0, None), (level, 1 << 20)]
    assert (refused.value.errno, refused.value.log) == (number, "the reason")
    with pytest.raises(bpf.ProgramRefused) as unexplained:
        bpf._loaded(load, explained=False)
    assert levels[2:] == [(0, None)]
    assert (unexplained.value.errno, unexplained.value.log) == (number, "")
