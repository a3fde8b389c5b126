"""Compiled object → maps and programs in the kernel."""

from __future__ import annotations

import errno
import os
import struct

from tracer.backends.bcc import follow, kernel, syscall
from tracer.backends.bcc.codegen.generate import CONTROL, FOLLOW, FOLLOWED, LOSSES, RING, SCRATCH, Generated
from tracer.backends.bcc.codegen.maps import FIRST_TABLE
from tracer.backends.bcc.codegen.site_text import SITE_TEXTS, SITE_WORD_TAG
from tracer.backends.bcc.compiler import CompiledObject
from tracer.backends.bcc.control import control_size
from tracer.backends.bcc.refused import LONGEST_OLD_KEY, NO_ATOMICS, Refused, long_key, reads_back
from tracer.backends.bcc.syscall import MapType, ProgramRefused
from tracer.backends.bcc.tables import Table
from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.plan.model import Plan

LOSS_CAUSES = 6
"""How many counters the LOSSES map has; see the enum in prelude.h."""

FOLLOWER = -1
"""Among the programs: none of a variant."""

_TAG = 0xFEED_FACE
_STEP = 3
_LD_IMM64, _MAP_BY_DESCRIPTOR = 0x18, 1
_RING_LARGEST, _RING_SMALLEST = 16 << 20, 256 << 10


@dataclass(slots=True)
class Loaded:
    """Descriptors of a session: maps by their number in the C, programs by the variant they are for (FOLLOWER: the one
    that notes new processes).
    """

    maps: dict[int, int] = field(default_factory=dict)
    programs: dict[int, int] = field(default_factory=dict)
    ring_size: int = 0

    def close(self) -> None:
        """Closes all; the kernel frees what nobody else holds."""
        self.unload()
        for descriptor in self.maps.values():
            os.close(descriptor)
        self.maps.clear()

    def unload(self) -> None:
        """Closes the programs alone."""
        for descriptor in set(self.programs.values()):
            os.close(descriptor)
        self.programs.clear()


def create_maps(generated: Generated, plan: Plan) -> Loaded:
    """The maps of a program. Raises `TracerError` where the kernel has no room for them, `ProgramError` for a key that
    is too long for it.
    """
    loaded = Loaded()
    try:
        _create(generated, loaded, plan)
    except BaseException as error:
        loaded.close()
        if not isinstance(error, OSError):
            raise
        if error.errno in (errno.EPERM, errno.ENOMEM):
            raise TracerError(
                f"the kernel does not give memory for the maps: {error.strerror}",
                "raise the limit on locked memory (ulimit -l), or set max_map_keys lower",
            ) from error
        message = f"cannot create the maps: {error.strerror}"
        raise TracerError(message, "set max_map_keys lower, or --backend ftrace") from error
    return loaded


def _create(generated: Generated, loaded: Loaded, plan: Plan) -> None:
    maps = loaded.maps
    size = control_size(generated.generations, generated.lengths, len(generated.records), len(generated.marks))
    maps[CONTROL] = syscall.map_create(MapType.ARRAY, 4, size, 1, syscall.F_MMAPABLE, "tracer_control")
    maps[LOSSES] = syscall.map_create(MapType.PERCPU_ARRAY, 4, 8, LOSS_CAUSES, name="tracer_losses")
    loaded.ring_size = _ring_size() if generated.records else os.sysconf("SC_PAGESIZE")
    maps[RING] = syscall.map_create(MapType.RINGBUF, 0, 0, loaded.ring_size, name="tracer_ring")
    if generated.scratch_slots:
        maps[SCRATCH] = syscall.map_create(
            MapType.ARRAY, 4, generated.scratch_size, generated.scratch_slots, name="tracer_scratch"
        )
    texts = generated.site_texts
    if texts.words:
        size = 8 * (texts.probe_words + texts.function_words)
        maps[SITE_TEXTS] = syscall.map_create(MapType.ARRAY, 4, size, len(texts.words), name="tracer_texts")
        for index, words in enumerate(texts.words.values()):
            syscall.map_update(maps[SITE_TEXTS], struct.pack("=I", index), struct.pack(f"={len(words)}Q", *words))
    if generated.follow:
        maps[FOLLOWED] = follow.create_map()
    for table in generated.tables.values():
        for number, key_size in _parts(table):
            if key_size > LONGEST_OLD_KEY and not kernel.has_long_keys():
                raise long_key(table.decl, plan)
            maps[FIRST_TABLE + number] = _create_table(table, key_size)


def _parts(table: Table) -> list[tuple[int, int]]:
    if table.key is None:
        return [(table.number, 4)]
    if table.long_number is None or table.key.short is None:
        return [(table.number, table.key.size)]
    return [(table.number, table.key.short), (table.long_number, table.key.size)]


def _create_table(table: Table, key_size: int) -> int:
    if table.key is None:
        return syscall.map_create(MapType.PERCPU_ARRAY, 4, table.value_size, table.max_entries)
    kind = MapType.PERCPU_HASH if table.per_cpu else MapType.HASH
    # Without preallocation a table for sixteen thousand long keys on a hundred CPUs costs nothing while it is empty.
    flags = syscall.F_NO_PREALLOC if kernel.allocates_at_hits() else 0
    return syscall.map_create(kind, key_size, table.value_size, table.max_entries, flags)


def _ring_size() -> int:
    """A power of two: an 256th of the memory, within bounds."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    size = _RING_SMALLEST
    while size < _RING_LARGEST and size * 512 <= memory:
        size *= 2
    return size


def load_programs(
    loaded: Loaded, generated: Generated, compiled: CompiledObject, waits: frozenset[str], *, multi: bool
) -> None:
    """Loads the function of every variant; those in `waits` as sleepable programs.

    Raises `Refused` with the verifier's log as detail.
    """
    shared: dict[str, int] = {}
    if generated.follow:
        code = link(compiled.functions[FOLLOW], loaded.maps)
        loaded.programs[FOLLOWER] = syscall.program_load(code, FOLLOW, kind=syscall.TRACEPOINT)
    for variant, name in generated.functions.items():
        if multi and name in shared:
            loaded.programs[variant] = shared[name]
            continue
        linked = link(compiled.functions[name], loaded.maps, generated.site_texts.words.get(variant))
        if reads_back(linked) and not kernel.has_atomics():
            raise Refused(name, NO_ATOMICS.reason, NO_ATOMICS.hint or "", "")
        try:
            program = syscall.program_load(linked, name, sleepable=name in waits, multi=multi)
            loaded.programs[variant] = shared[name] = program
        except ProgramRefused as error:
            hint = "a long loop or many long strings in one clause can be too much for it; -v shows what it says"
            message = f"the kernel's verifier refuses the program: {error.strerror}"
            raise Refused(name, message, hint, error.log) from error


def link(code: bytes, maps: dict[int, int], words: tuple[int, ...] | None = None) -> bytes:
    """Puts descriptors in the place of map constants (`MAP` in prelude.h), the words of texts in that of theirs."""
    linked = bytearray(code)
    for at in range(0, len(code) - 8, 8):
        opcode, registers, _, low = struct.unpack_from("=BBhI", code, at)
        high = struct.unpack_from("=I", code, at + 12)[0]
        if opcode == _LD_IMM64 and high == _TAG and registers >> 4 == 0:
            struct.pack_into("=BBhI", linked, at, opcode, registers | _MAP_BY_DESCRIPTOR << 4, 0, maps[low // _STEP])
            struct.pack_into("=I", linked, at + 12, 0)
        elif opcode == _LD_IMM64 and high == SITE_WORD_TAG and words is not None:
            word = words[low // _STEP]
            struct.pack_into("=I", linked, at + 4, word & 0xFFFF_FFFF)
            struct.pack_into("=I", linked, at + 12, word >> 32)
    return bytes(linked)


