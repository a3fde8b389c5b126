"""An in-memory bpf(2): maps as the kernel keeps them, driven through the same attributes as the real one.

A test can do at any command what programs do at that moment (`at`), and take from the kernel what older ones lack
(`lacking`). Descriptors are real ones, so that they can be closed, and arrays made for it can be mapped.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import pytest

from tracer.kernel import bpf, syscall

CREATE, LOOKUP, UPDATE, DELETE, NEXT = 0, 1, 2, 3, 4
ATTACH_UPROBE_MULTI = 48
PROG_LOAD, LOOKUP_BATCH, UPDATE_BATCH, DELETE_BATCH, LINK_CREATE = 5, 24, 26, 27, 28
HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, RINGBUF = 1, 2, 5, 6, 27

Attribute: TypeAlias = "ctypes.Array[ctypes.c_char]"


@dataclass
class Map:
    """A map of the fake kernel. `elements` are those of a hash, or of an array what is not zero."""

    kind: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    cpus: int
    elements: dict[bytes, bytes] = field(default_factory=dict)
    memory: mmap.mmap | None = None

    @property
    def is_array(self) -> bool:
        return self.kind in (ARRAY, PERCPU_ARRAY)

    @property
    def per_cpu(self) -> bool:
        return self.kind in (PERCPU_HASH, PERCPU_ARRAY)

    @property
    def size(self) -> int:
        """Bytes of a value as bpf(2) hands it over."""
        return -(-self.value_size // 8) * 8 * self.cpus if self.per_cpu else self.value_size

    def keys(self) -> list[bytes]:
        return [struct.pack("=I", index) for index in range(self.max_entries)] if self.is_array else list(self.elements)

    def get(self, key: bytes) -> bytes:
        if not self.is_array:
            if key not in self.elements:
                raise _failure(errno.ENOENT)
            return self.elements[key]
        (index,) = struct.unpack("=I", key)
        if index >= self.max_entries:
            raise _failure(errno.ENOENT)
        if self.memory is not None:
            return self.memory[index * self.value_size : (index + 1) * self.value_size]
        return self.elements.get(key, bytes(self.size))

    def set(self, key: bytes, value: bytes, flags: int = 0) -> None:
        assert len(value) == self.size
        there = self.is_array or key in self.elements
        if flags == bpf.UPDATE_NEW and there:
            raise _failure(errno.EEXIST)
        if flags == bpf.UPDATE_EXISTING and not there:
            raise _failure(errno.ENOENT)
        full = not there and len(self.elements) >= self.max_entries
        if full or (self.is_array and struct.unpack("=I", key)[0] >= self.max_entries):
            raise _failure(errno.E2BIG)
        if self.memory is not None:
            start = struct.unpack("=I", key)[0] * self.value_size
            self.memory[start : start + self.value_size] = value
        else:
            self.elements[key] = value

    def delete(self, key: bytes) -> None:
        if self.is_array:
            raise _failure(errno.EINVAL)
        if self.elements.pop(key, None) is None:
            raise _failure(errno.ENOENT)

    def words(self, key: bytes, cpu: int = 0) -> list[int]:
        """The words that a program on this CPU sees: those of its slot, zeros where there is none yet."""
        try:
            value = self.get(key)
        except OSError:
            value = bytes(self.size)
        slot = self.size // self.cpus if self.per_cpu else self.size
        start = slot * cpu if self.per_cpu else 0
        return list(struct.unpack(f"={slot // 8}Q", value[start : start + slot]))

    def put(self, key: bytes, words: list[int], cpu: int = 0) -> None:
        """A program writes its slot; a full map takes no new key."""
        data = struct.pack(f"={len(words)}Q", *(word % 2**64 for word in words))
        if self.per_cpu:
            try:
                value = self.get(key)
            except OSError:
                value = bytes(self.size)
            data = value[: len(data) * cpu] + data + value[len(data) * (cpu + 1) :]
        self.set(key, data)


@dataclass
class Program:
    """A program as it was loaded: its code, type, flags and expected attach type."""

    code: bytes
    kind: int
    flags: int
    attach_type: int


@dataclass
class Link:
    """A link as it was made: which program runs where."""

    fd: int
    program: int
    offsets: tuple[int, ...]
    references: tuple[int, ...]
    cookies: tuple[int, ...]
    pid: int
    flags: int


@dataclass
class FakeBpf:
    """The kernel. `commands` are all so far; `bucket` is the least number of elements that a batch must have room for.

    `errors` are for the next such command; `refuse` gives the error number, else 0, for a command that makes something,
    by its map or program type and number of elements or instructions; `log` is then the verifier's. The kernel does not
    probe the offsets `unprobable`, and another tracer has those `held`; `refuse_link` says what comes of the next link,
    by how many there were.
    """

    cpus: int = 4
    bucket: int = 1
    lacking: frozenset[int] = frozenset()
    errors: dict[int, int] = field(default_factory=dict)
    refuse: Callable[[int, int, int], int] = lambda command, kind, count: 0
    log: bytes = b""
    maps: dict[int, Map] = field(default_factory=dict)
    programs: dict[int, Program] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    unprobable: frozenset[int] = frozenset()
    held: frozenset[int] = frozenset()
    refuse_link: Callable[[int], int] = lambda links: 0
    commands: list[int] = field(default_factory=list)
    _pending: deque[tuple[int, bool, Callable[[], None]]] = field(default_factory=deque)

    def on_next(self, command: int, action: Callable[[], None], after: bool = False) -> None:
        """Once, right before (else `after`) the next such command. Several wait for each other."""
        self._pending.append((command, after, action))

    def call(self, number: int, *arguments: object) -> int:
        """Stands in for `kernel.syscall.call`."""
        assert number == syscall.number_of("bpf")
        command, attribute, _ = arguments
        assert isinstance(command, ctypes._SimpleCData)
        assert isinstance(attribute, ctypes.Array)
        self.commands.append(command.value)
        self._run_pending(command.value, False)
        if command.value in self.lacking:
            raise _failure(errno.EINVAL)
        if (code := self.errors.pop(command.value, None)) is not None:
            raise _failure(code)
        try:
            return self._does[command.value](self, attribute)
        finally:
            self._run_pending(command.value, True)

    def _run_pending(self, command: int, after: bool) -> None:
        if self._pending and self._pending[0][:2] == (command, after):
            self._pending.popleft()[2]()

    # --- commands ---

    def _create(self, attribute: Attribute) -> int:
        kind, key_size, value_size, max_entries, flags = struct.unpack_from("=IIIII", attribute)
        self._may_make(CREATE, kind, max_entries)
        fd = os.memfd_create("map")
        map = self.maps[fd] = Map(kind, key_size, value_size, max_entries, flags, self.cpus)
        if flags & bpf.F_MMAPABLE:
            os.ftruncate(fd, -(-value_size * max_entries // mmap.PAGESIZE) * mmap.PAGESIZE)
            map.memory = mmap.mmap(fd, 0)
        return fd

    def _element(self, attribute: Attribute) -> tuple[Map, int, int, int]:
        fd, key, value, flags = struct.unpack_from("=I4xQQQ", attribute)
        return self.maps[fd], key, value, flags

    def _lookup(self, attribute: Attribute) -> int:
        held, key, value, _ = self._element(attribute)
        value_there = held.get(ctypes.string_at(key, held.key_size))
        ctypes.memmove(value, value_there, len(value_there))
        return 0

    def _update(self, attribute: Attribute) -> int:
        held, key, value, flags = self._element(attribute)
        held.set(ctypes.string_at(key, held.key_size), ctypes.string_at(value, held.size), flags)
        return 0

    def _delete(self, attribute: Attribute) -> int:
        held, key, _, _ = self._element(attribute)
        held.delete(ctypes.string_at(key, held.key_size))
        return 0

    def _next(self, attribute: Attribute) -> int:
        held, key, following, _ = self._element(attribute)
        keys = held.keys()
        previous = ctypes.string_at(key, held.key_size) if key else None
        # From the start where the one before is gone.
        index = keys.index(previous) + 1 if previous in keys else 0
        if index >= len(keys):
            raise _failure(errno.ENOENT)
        ctypes.memmove(following, keys[index], held.key_size)
        return 0

    def _lookup_batch(self, attribute: Attribute) -> int:
        cursor, out, keys, values, count, fd = struct.unpack_from("=QQQQII", attribute)
        held = self.maps[fd]
        struct.pack_into("=I", attribute, 32, 0)
        if count < self.bucket and not held.is_array:
            raise _failure(errno.ENOSPC)
        start = struct.unpack("=I", ctypes.string_at(cursor, 4))[0] if cursor else 0
        batch = held.keys()[start : start + count]
        for number, key in enumerate(batch):
            ctypes.memmove(keys + number * held.key_size, key, held.key_size)
            ctypes.memmove(values + number * held.size, held.get(key), held.size)
        struct.pack_into("=I", attribute, 32, len(batch))
        ctypes.memmove(out, struct.pack("=I", start + len(batch)), 4)
        if start + count >= len(held.keys()):
            raise _failure(errno.ENOENT)
        return 0

    def _update_batch(self, attribute: Attribute) -> int:
        _, _, keys, values, count, fd = struct.unpack_from("=QQQQII", attribute)
        held = self.maps[fd]
        for number in range(count):
            key = ctypes.string_at(keys + number * held.key_size, held.key_size)
            held.set(key, ctypes.string_at(values + number * held.size, held.size))
        return 0

    def _delete_batch(self, attribute: Attribute) -> int:
        _, _, keys, _, count, fd = struct.unpack_from("=QQQQII", attribute)
        held = self.maps[fd]
        for number in range(count):
            struct.pack_into("=I", attribute, 32, number)
            held.delete(ctypes.string_at(keys + number * held.key_size, held.key_size))
        return 0

    def _load(self, attribute: Attribute) -> int:
        kind, count, code, _, level, size, log = struct.unpack_from("=IIQQIIQ", attribute)
        if level:
            ctypes.memmove(log, self.log[: size - 1] + b"\0", min(len(self.log) + 1, size))
        self._may_make(PROG_LOAD, kind, count)
        flags = struct.unpack_from("=I", attribute, 44)[0]
        attach_type = struct.unpack_from("=I", attribute, 68)[0]
        fd = os.memfd_create("program")
        self.programs[fd] = Program(ctypes.string_at(code, 8 * count), kind, flags, attach_type)
        return fd

    def _may_make(self, command: int, kind: int, count: int) -> None:
        number = self.refuse(command, kind, count)
        if number:
            raise _failure(number)

    def _link(self, attribute: Attribute) -> int:
        program, _, kind, _, path, offsets, references, cookies, count, flags, pid, _ = struct.unpack_from(
            "=IIIIQQQQIIII", attribute
        )
        assert kind == ATTACH_UPROBE_MULTI
        assert os.path.exists(ctypes.string_at(path))

        def numbers(address: int) -> tuple[int, ...]:
            return struct.unpack(f"={count}Q", ctypes.string_at(address, 8 * count)) if address else ()

        if self.unprobable & set(numbers(offsets)):
            raise _failure(errno.EOPNOTSUPP)
        if self.held & set(numbers(offsets)):
            raise _failure(errno.EINVAL)
        if number := self.refuse_link(len(self.links)):
            raise _failure(number)
        fd = os.memfd_create("link")
        self.links.append(Link(fd, program, numbers(offsets), numbers(references), numbers(cookies), pid, flags))
        return fd

    _does: ClassVar[dict[int, Callable[[FakeBpf, Attribute], int]]] = {
        CREATE: _create, LOOKUP: _lookup, UPDATE: _update, DELETE: _delete, NEXT: _next, PROG_LOAD: _load,
        LOOKUP_BATCH: _lookup_batch, UPDATE_BATCH: _update_batch, DELETE_BATCH: _delete_batch, LINK_CREATE: _link,
    }  # fmt: skip

    def close(self) -> None:
        """Closes what is still open."""
        for held in self.maps.values():
            if held.memory is not None:
                held.memory.close()
        for fd in (*self.maps, *self.programs, *(link.fd for link in self.links)):
            with suppress(OSError):
                os.close(fd)


@contextmanager
def fake_bpf(**settings: int) -> Iterator[FakeBpf]:
    """Puts it in the place of the kernel's."""
    fake = FakeBpf(**settings)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        for module in (syscall, bpf):
            patch.setattr(module, "call", fake.call)
        yield fake
    fake.close()


def _failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))
