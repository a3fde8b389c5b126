"""Compiled object → maps and programs in the kernel."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from tracer.backends.bcc.attach.registry import attacher_of
from tracer.backends.bcc.codegen.generate import (
    CONTROL,
    FOLLOW,
    FOLLOWED,
    FULL_MAPS,
    LOSSES,
    PLACES,
    PYTHON_CODES,
    PYTHON_HOST,
    PYTHON_IMAGES,
    RING,
    SCRATCH,
    STACK_RULES,
    Generated,
)
from tracer.backends.bcc.codegen.maps.steps import FIRST_TABLE
from tracer.backends.bcc.codegen.sites import SITE_TEXTS, SITE_WORD_TAG
from tracer.backends.bcc.compile.compiler import Bytecode
from tracer.backends.bcc.host import mappings, pid_namespace, trials
from tracer.backends.bcc.host.callbacks import TAG as CALLBACK_TAG, called_back, joined, uses
from tracer.backends.bcc.host.refused import (
    LONGEST_OLD_KEY,
    MOST_MAPS,
    NO_ATOMICS,
    TOO_MANY_MAPS,
    Refused,
    reads_back,
)
from tracer.backends.bcc.maps.control import control_size
from tracer.backends.bcc.maps.tables import Table
from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.host.clock import ahead_ns
from tracer.kernel import bpf, buffers
from tracer.kernel.bpf import MapType, ProgramRefused
from tracer.kernel.limits import MORE_DESCRIPTORS
from tracer.lang.typed import Config
from tracer.plan.model import Plan
from tracer.plan.points import count, first_numbers

if TYPE_CHECKING:
    from tracer.backends.bcc.attach.older.page_groups import Groups

LOSS_CAUSES = ("events", "unreadable", "truncated", "keys", "loops", "stacks", "busy", "outrun", "divisions")
"""The first counters of the LOSSES map, as `Loss` names them; see the enum in prelude.h. Those of stacks' endings
follow, then those of full maps.
"""

HITS, SITE_PLACES = 1002, 1003
"""The numbers, as prelude.h has them, of the maps of the hits of each attach point and of the pages of `Groups`."""

FOLLOWER, CALLS, RETURNS = (-1, 0), (-2, -1), (-3, -1)
"""The key of programs that belong to no variant."""

_TAG, _CONTROL_TAG = 0xFEED_FACE, 0xFEED_FACB
_POINT_TAG, _TAI_TAG = 0xFEED_FACC, 0xFEED_FACF
_STEP = 3
_ATTACH_COOKIE = 174  # of enum bpf_func_id
_ELEMENT_BYTES, _AT_ONCE_BYTES, _SHARED_BYTES = 64, 64 << 20, 4 << 20
"""About how many bytes an element of a hash takes beside key and value, and how much memory a table may take at the
start: one that expects many keys, and any that is for all CPUs.
"""

MOST_PLACES = 1 << 14
"""Addresses of symbols, of all processes; the kernel drops those used least."""

_MOST_NAMED = 16  # functions that are called back, in a dump
_LD_IMM64, _MAP_BY_DESCRIPTOR, _ADDRESS_IN_MAP = 0x18, 1, 2
_RING_SMALLEST = 256 << 10


@dataclass(slots=True)
class Loaded:
    """Descriptors of a session: maps by their number in the C, programs by the variant and the number of the attach
    point they are for (FOLLOWER: the one that notes new processes).
    """

    maps: dict[int, int] = field(default_factory=dict)
    programs: dict[tuple[int, int], int] = field(default_factory=dict)
    ring_size: int = 0
    ring_wanted: int = 0

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


def create_maps(
    generated: Generated, plan: Plan, groups: Groups | None = None, shared: Loaded | None = None
) -> Loaded:
    """The maps of a program; of `shared` it uses all but what is about its own sites. Raises `TracerError` where the
    kernel has no room for them, `ProgramError` for a key that is too long for it.
    """
    loaded = Loaded()
    try:
        if shared is None:
            _create(generated, loaded, plan)
        else:
            of_sites = (SCRATCH, SITE_TEXTS, SITE_PLACES)
            loaded.maps |= {number: os.dup(fd) for number, fd in shared.maps.items() if number not in of_sites}
        _create_own(generated, loaded)
        if groups is not None:
            _create_pages(loaded, groups)
    except BaseException as error:
        loaded.close()
        if not isinstance(error, OSError):
            raise
        if error.errno in (errno.EPERM, errno.ENOMEM):
            message = f"the kernel does not give memory for the maps: {error.strerror}"
            raise TracerError(message, f"{_more_memory(error.errno)}, or set max_map_keys lower") from error
        message = f"cannot create the maps: {error.strerror}"
        full = error.errno == errno.EMFILE
        raise TracerError(
            message, MORE_DESCRIPTORS if full else "set max_map_keys lower, or --backend ftrace"
        ) from error
    return loaded


def _more_memory(number: int) -> str:
    """The remedy where the kernel has too little memory: it says EPERM for the limit on locked memory, which maps count
    against before Linux 5.11, and ENOMEM for the control group's, or where there is none left.
    """
    if number == errno.EPERM:
        return "raise the limit on locked memory (ulimit -l)"
    from tracer.host.tables.cgroups import more_memory

    return more_memory()


def _create(generated: Generated, loaded: Loaded, plan: Plan) -> None:
    maps = loaded.maps
    size = control_size(*generated.control)
    maps[CONTROL] = bpf.map_create(MapType.ARRAY, 4, size, 1, bpf.F_MMAPABLE, "tracer_control")
    points = first_counter(plan)
    maps[HITS] = bpf.map_create(MapType.PERCPU_ARRAY, 4, 8, points + 2, name="tracer_hits")
    losses = FULL_MAPS + FIRST_TABLE + sum(len(table.numbers) for table in generated.tables.values())
    if generated.unwinds:
        from tracer.backends.bcc.maps.stacks import create_rules

        maps[STACK_RULES] = create_rules()
    maps[LOSSES] = bpf.map_create(MapType.PERCPU_ARRAY, 4, 8, losses, name="tracer_losses")
    copies = generated.unwinds or generated.interprets
    loaded.ring_wanted = buffers.shared_ring(copies) if generated.records else os.sysconf("SC_PAGESIZE")
    maps[RING], loaded.ring_size = _create_ring(loaded.ring_wanted)
    if generated.places:
        maps[PLACES] = bpf.map_create(MapType.LRU_HASH, 16, 4, MOST_PLACES, name="tracer_places")
    if generated.interprets:
        from tracer.backends.bcc.maps.python import create_maps as create_python

        maps.update(create_python(PYTHON_HOST))
    if generated.follow:
        from tracer.backends.bcc.host.follow import create_map

        maps[FOLLOWED] = create_map(generated.threads)
    sites = [site for probe in plan.probes for variant in probe.variants for site in variant.sites]
    inside = any(site.leads_to_kernel for site in sites)
    many = plan.program.config.max_map_keys > Config().max_map_keys or any(site.others for site in sites)
    for table in generated.tables.values():
        for number, key_size in _parts(table):
            if key_size > LONGEST_OLD_KEY and not trials.has("long_keys"):
                from tracer.backends.bcc.attach.older.long_keys import long_key

                assert table.key is not None
                raise long_key(table.decl, table.key, plan)
            maps[FIRST_TABLE + number] = _create_table(table, key_size, many, inside)


def _create_own(generated: Generated, loaded: Loaded) -> None:
    maps = loaded.maps
    if generated.scratch_slots:
        maps[SCRATCH] = bpf.map_create(
            MapType.ARRAY, 4, generated.scratch_size, generated.scratch_slots, name="tracer_scratch"
        )
    texts = generated.site_texts
    if texts.words:
        size = 8 * texts.count
        maps[SITE_TEXTS] = bpf.map_create(MapType.ARRAY, 4, size, len(texts.words), name="tracer_texts")
        bpf.array_fill(maps[SITE_TEXTS], list(texts.words.values()))


def first_counter(plan: Plan) -> int:
    """The index in HITS at which the elements for calls and returns begin, behind those of the attach points."""
    return count(plan)


def _create_pages(loaded: Loaded, groups: Groups) -> None:
    pages = groups.pages
    loaded.maps[SITE_PLACES] = bpf.map_create(MapType.ARRAY, 4, len(pages[0]), len(pages), name="tracer_places")
    bpf.array_fill(loaded.maps[SITE_PLACES], pages)


def _parts(table: Table) -> list[tuple[int, int]]:
    if table.key is None:
        return [(table.numbers[0], 4)]
    return list(zip(table.numbers, table.key.sizes, strict=True))


def _create_table(table: Table, key_size: int, many: bool, inside: bool) -> int:
    """`many`: the program expects more keys than usual, or wakes and switches of threads, where a key that needs memory
    may get none: of the wakes by timers nine of ten had none (Linux 6.18). `inside`: it has hits within the kernel, of
    which others may be like that; of a table for all CPUs it costs a millisecond to be safe.
    """
    if table.key is None:
        return bpf.map_create(MapType.PERCPU_ARRAY, 4, table.value_size, table.max_entries)
    if table.decl.forgets:
        kind = MapType.LRU_PERCPU_HASH if table.per_cpu else MapType.LRU_HASH
        return bpf.map_create(kind, key_size, table.value_size, table.max_entries)
    kind = MapType.PERCPU_HASH if table.per_cpu else MapType.HASH
    # Without preallocation a table for 16,384 long keys on a hundred CPUs costs nothing while it is empty; but
    # a new key of a per-CPU table then takes 11 us of its hit instead of 0.3 (Linux 6.18, in a virtual machine). Who
    # raises the limit expects many keys: to allocate for a hundred thousand takes 0.2 s, at the start.
    # Of one for all CPUs a thousand elements take 0.02 ms, and a key that comes and goes costs 30 ns less.
    element = key_size + _ELEMENT_BYTES + table.value_size * (bpf.possible_cpus() if table.per_cpu else 1)
    affordable = 0 if table.per_cpu else _SHARED_BYTES
    if many or (inside and not table.per_cpu):
        affordable = _AT_ONCE_BYTES
    worth = table.max_entries * element <= affordable
    flags = bpf.F_NO_PREALLOC if trials.has("late_allocation") and not worth else 0
    return bpf.map_create(kind, key_size, table.value_size, table.max_entries, flags)


def _create_ring(wanted: int) -> tuple[int, int]:
    """The ring's descriptor and size. Where that much is not given (before Linux 5.11 maps count against the limit on
    locked memory, later against the control group's), half of it is tried, and so on.
    """
    size = wanted
    while True:
        try:
            return bpf.map_create(MapType.RINGBUF, 0, 0, size, name="tracer_ring"), size
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOMEM) or size <= _RING_SMALLEST:
                raise
            size //= 2


def load_programs(
    loaded: Loaded, plan: Plan, generated: Generated, compiled: Bytecode, waits: frozenset[str], *, multi: bool,
    groups: Groups | None = None, here: Sequence[int] = (), explained: bool = True,
) -> None:
    """Loads the function of every variant, once for each of its attach points, and for each of the `groups` there are;
    those in `waits` as sleepable programs. `here`: what `pid_namespace.words` says.

    Raises `Refused` with the verifier's log as detail, which it is asked for only where that is to be `explained`: it
    goes through the program once more.
    """
    shared: dict[tuple[str, int, int], int] = {}
    variants = [variant for probe in plan.probes for variant in probe.variants]
    attachers = {variant.id: attacher_of(variant.sites) for variant in variants}
    awake = {generated.functions[one.id] for one in variants if not attachers[one.id].sleeps(one.sites)}
    if generated.follow:
        code = link(compiled[FOLLOW], loaded.maps, here=here)
        loaded.programs[FOLLOWER] = bpf.program_load(code, FOLLOW, kind=bpf.TRACEPOINT)
    for variant, point in _wanted(plan):
        name = generated.functions[variant]
        group = groups.of.get(variant, 0) if groups is not None else 0
        if (multi or groups is not None) and (name, point, group) in shared:
            loaded.programs[variant, point] = shared[name, point, group]
            continue
        words = generated.site_texts.words.get(variant) if groups is None else struct.pack("=Q", group)
        functions = called_back(name, compiled)
        whole = compiled[name] + b"".join(functions.values())
        for number, asked in ((mappings.NUMBER, mappings.reader), (mappings.COMES, mappings.comes)):
            if uses(whole, number):
                functions[number] = asked()
        whole, starts = joined(compiled[name], functions)
        linked = link(whole, loaded.maps, words, point, here)
        if multi and not attachers[variant].cookies:
            linked = with_cookie(linked, generated.site_texts.cookies.get(variant, 0))
        if reads_back(linked) and not trials.has("atomics"):
            raise Refused(name, NO_ATOMICS.reason, NO_ATOMICS.hint or "", "")
        try:
            program = attachers[variant].load(linked, name, name in waits - awake, multi, starts, explained)
            loaded.programs[variant, point] = shared[name, point, group] = program
        except ProgramRefused as error:
            if error.errno == errno.E2BIG and _maps_used(linked) > MOST_MAPS:
                raise Refused(name, TOO_MANY_MAPS.reason, TOO_MANY_MAPS.hint or "", error.log) from error
            hint = "a long loop or many long strings in one clause can be too much for it; -v shows what it says"
            message = f"the kernel's verifier refuses the program: {error.strerror}"
            raise Refused(name, message, hint, error.log) from error


def _maps_used(linked: bytes) -> int:
    """The number of maps that a linked program names, by descriptor or by an address in them."""
    slots = struct.iter_unpack("=BBhI", linked)
    kinds = (_MAP_BY_DESCRIPTOR, _ADDRESS_IN_MAP)
    return len({low for opcode, registers, _, low in slots if opcode == _LD_IMM64 and registers >> 4 in kinds})


def constants(generated: Generated) -> dict[int, str]:
    """The name of each constant that `link` replaces."""
    fixed = {LOSSES: "losses", RING: "ring", SCRATCH: "scratch", SITE_TEXTS: "texts", FOLLOWED: "followed"}
    fixed |= {STACK_RULES: "rules", PLACES: "places"}
    fixed |= {PYTHON_HOST: "host", PYTHON_IMAGES: "images", PYTHON_CODES: "codes"}
    maps = {number: f"map {name}" for number, name in (*fixed.items(), (HITS, "hits"))}
    for name, table in generated.tables.items():
        for tier, number in enumerate(table.numbers):
            size = table.key.sizes[tier] if table.key is not None and tier else None
            maps[FIRST_TABLE + number] = f"map {name}" + (f" (keys of {size} bytes)" if size else "")
    callbacks = {CALLBACK_TAG << 32 | _STEP * number: f"function {number}" for number in range(_MOST_NAMED)}
    return {_CONTROL_TAG << 32: "control block", _POINT_TAG << 32: "attach point"} | callbacks | {
        _TAG << 32 | _STEP * number: text for number, text in maps.items()
    }


def _wanted(plan: Plan) -> Iterator[tuple[int, int]]:
    """Yields each variant with the numbers of the attach points that its sites are of."""
    first = first_numbers(plan)
    for probe in plan.probes:
        if len(probe.clause.names) == 1:
            yield from zip((variant.id for variant in probe.variants), repeat(first[probe.clause.id]))
            continue
        for variant in probe.variants:
            points = {first[probe.clause.id] + site.point for site in variant.sites}
            yield from ((variant.id, point) for point in sorted(points))


def link(
    code: bytes, maps: dict[int, int], words: bytes | None = None, point: int = 0, here: Sequence[int] = ()
) -> bytes:
    """Puts descriptors in the place of map constants (`MAP` in prelude.h), the address of the control block in that of
    its own (`CONTROL`), the words of texts, the number of the attach point and what is `here` in those of theirs.
    """
    linked = bytearray(code)
    for offset in range(0, len(code) - 8, 8):
        opcode, registers, _, low = struct.unpack_from("=BBhI", code, offset)
        high = struct.unpack_from("=I", code, offset + 12)[0]
        if opcode == _LD_IMM64 and high in (_TAG, _CONTROL_TAG) and registers >> 4 == 0:
            kind, number = (_ADDRESS_IN_MAP, CONTROL) if high == _CONTROL_TAG else (_MAP_BY_DESCRIPTOR, low // _STEP)
            struct.pack_into("=BBhI", linked, offset, opcode, registers | kind << 4, 0, maps[number])
            struct.pack_into("=I", linked, offset + 12, 0)
        elif opcode == _LD_IMM64 and high == SITE_WORD_TAG and words is not None:
            first = 8 * (low // _STEP)
            linked[offset + 4 : offset + 8] = words[first : first + 4]
            linked[offset + 12 : offset + 16] = words[first + 4 : first + 8]
        elif opcode == _LD_IMM64 and high in (_POINT_TAG, pid_namespace.TAG):
            struct.pack_into("=I", linked, offset + 4, point if high == _POINT_TAG else here[low // _STEP])
            struct.pack_into("=I", linked, offset + 12, 0)
        elif opcode == _LD_IMM64 and high == _TAI_TAG:
            ahead = ahead_ns("tai")
            struct.pack_into("=I", linked, offset + 4, ahead & 0xFFFF_FFFF)
            struct.pack_into("=I", linked, offset + 12, ahead >> 32 & 0xFFFF_FFFF)
    return bytes(linked)


def with_cookie(code: bytes, cookie: int) -> bytes:
    """A linked program with the cookie, of 31 bits, in the place of each call that asks for it."""
    asks, says = struct.pack("=BBhi", 0x85, 0, 0, _ATTACH_COOKIE), struct.pack("=BBhi", 0xB7, 0, 0, cookie)
    slots = (code[offset : offset + 8] for offset in range(0, len(code), 8))
    return b"".join([says if slot == asks else slot for slot in slots])


