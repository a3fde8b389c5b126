"""Finds the code that processes run for indirect functions (STT_GNU_IFUNC).

The symbol of such a function stands at a resolver. The dynamic loader calls it when the file is loaded; what it returns
is the implementation for this processor, and is what everybody calls from then on. A probe on the resolver would count
nothing. Which one it is, is told without running anything that does not run anyway:

* of the process that `-p` names, by its memory: the loader has written the choices into the slots of its files' GOTs;
* by the loader of our own process, where that has the very file loaded: dlsym(3) gives the address that programs get;
* where it has not, by the memory of the other processes that have.

Processes differ where GLIBC_TUNABLES does, so what our own loader says of another process is believed only if theirs
is ours. What is told must be where a function begins, by a symbol or by the unwind tables.

Source: gABI, chapter 5 (relocations), and the GNU extension R_*_IRELATIVE, whose addend is the resolver's address.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence

from tracer.dataclass import NamedTuple
from tracer.errors import TracerError, and_more, printable
from tracer.host.maps import Mapping, Picture, mappings, path_of, users
from tracer.host.memory import environment_of, open_memory, read
from tracer.host.stat import directory
from tracer.kinds.arch import ARCHES
from tracer.resolve.binary import Binary
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.relocations import relocations
from tracer.resolve.elf.structures import PF_X, SHT_DYNSYM, ElfError
from tracer.resolve.elf.symbol_table import Function, read_table
from tracer.resolve.elf.symbols import unique_places

_OTHERS = 8
"""The number of processes that are asked about a file that this one has not loaded."""

_NAMED = 3

_VDSO = -1
"""The address that stands for an implementation in the kernel's vDSO."""

_TUNABLES = b"GLIBC_TUNABLES="


def implemented(
    binary: Binary, functions: Sequence[Function], kind: str, processes: Sequence[Picture], left_out: list[str],
    meant: Callable[[Sequence[Function]], Sequence[Function]] = tuple,
) -> tuple[Function, ...]:
    """The functions, indirect ones by the start of their implementation, or of each that a process has chosen: each
    place once, in order of address. Where an implementation cannot be told, the function is left out, and `left_out`
    gets a line about those that are `meant`. Raises `ElfError` where none is left.
    """
    binary.reproducible = False  # another process, or the same file on another processor, has other ones
    indirect = [function for function in functions if function.ifunc]
    choices = [_chosen(binary, indirect, group) for group in _alike(processes)]
    implementations: list[Function] = []
    unknown: list[Function] = []
    for function in functions:
        if not function.ifunc:
            implementations.append(function)
            continue
        addresses = dict.fromkeys(chosen.get(function.address, _VDSO) for chosen in choices)
        sizes = [(address, size) for address in addresses if (size := _size(binary, address)) is not None]
        implementations += [function._replace(address=address, size=size, ifunc=False) for address, size in sizes]
        if not sizes:
            unknown.append(function)
    if not implementations:
        in_kernel = any(chosen.get(unknown[0].address) == _VDSO for chosen in choices)
        raise _refused(binary, unknown[0], kind, in_kernel)
    if unknown := [*meant(unknown)]:
        names = and_more((printable(function.name) for function in unknown[:_NAMED]), len(unknown))
        left_out.append(
            f"{len(unknown)} of {len(meant(functions))} functions left out: it is not known which code runs for the"
            f" indirect functions {names}"
        )
    return unique_places(implementations)


def _size(binary: Binary, address: int) -> int | None:
    """The bytes of the function that begins there; None where none does."""
    if address == _VDSO or not binary.code.executable(address):
        return None
    function = binary.symbols.function_at(address)
    if function is not None and function.address == address:
        return None if function.ifunc else function.size
    frame = binary.code.frames.frame_at(address)
    return frame.size if frame is not None and frame.start == address and frame.size else None


def _alike(processes: Sequence[Picture]) -> list[list[Picture]]:
    """The processes by what they choose: the processor is the same for all, and GLIBC_TUNABLES may say otherwise."""
    groups: dict[bytes | None, list[Picture]] = {}
    for process in processes:
        groups.setdefault(_tunables(process.pid) if len(processes) > 1 else b"", []).append(process)
    return [*groups.values()] or [[]]


def _chosen(binary: Binary, functions: Sequence[Function], processes: Sequence[Picture]) -> dict[int, int]:
    """The address of each symbol's implementation, or _VDSO, by that of the symbol; those that cannot be told are
    absent.
    """
    implementations: dict[int, int] = {}
    wanted = {function.address for function in functions}
    for answers in _sources(binary, functions, processes):
        for symbol, address in answers:
            if symbol in wanted and (address == _VDSO or _size(binary, address) is not None):
                implementations.setdefault(symbol, address)
        if len(implementations) == len(wanted):
            break
    return implementations


def _sources(
    binary: Binary, functions: Sequence[Function], processes: Sequence[Picture]
) -> Iterator[Iterator[tuple[int, int]]]:
    for process in processes:
        yield _of_process(binary, functions, process)
    this = Picture(os.getpid())
    ours = _loaded(binary, this)
    if ours is not None and (not processes or _tunables(processes[0].pid) == _tunables(this.pid)):
        yield _asked(binary, functions, ours)
        yield _of_process(binary, functions, this)
    elif not processes:
        for other in users({binary.identity.inode})[:_OTHERS]:
            yield _of_process(binary, functions, Picture(other))


class _Loaded(NamedTuple):
    """A file as a process has it loaded: `bias` is what its addresses there differ by, `path` one of it from here."""

    path: str
    bias: int


def _loaded(binary: Binary, process: Picture) -> _Loaded | None:
    """The file as the process has it loaded; None where it has not this very file."""
    identity = binary.identity
    try:
        for mapping in process.mappings:
            if mapping.executable and mapping.file is not None and mapping.file[1] == identity.inode:
                path = _path(process, mapping)
                bias = _bias(binary.elf, mapping)
                if path is not None and bias is not None and _is(path, identity.device, identity.inode):
                    return _Loaded(path, bias)
    except TracerError:
        pass  # it has ended, or is somebody else's
    return None


def _path(process: Picture, mapping: Mapping) -> str | None:
    if mapping.deleted:
        return f"{directory(process.pid)}/map_files/{mapping.key}"
    return path_of(process.pid, mapping, process.root)


def _is(path: str, device: int, inode: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (device, inode)


def _bias(elf: Elf, mapping: Mapping) -> int | None:
    for segment in elf.loads:
        before = segment.offset - mapping.offset
        if segment.flags & PF_X and -segment.file_size < before < mapping.end - mapping.start:
            return mapping.start + before - segment.address
    return None


def _tunables(pid: int) -> bytes | None:
    """The GLIBC_TUNABLES that the process started with; a unique value if they cannot be read."""
    try:
        return next((variable for variable in environment_of(pid).split(b"\0") if variable.startswith(_TUNABLES)), b"")
    except OSError:
        return f"unknown of {pid}".encode()


def _asked(binary: Binary, functions: Sequence[Function], loaded: _Loaded) -> Iterator[tuple[int, int]]:
    """The answer of this process's own loader. The file is loaded already, so none of its code starts to run."""
    import ctypes

    table = binary.symbols.exported
    try:
        library = ctypes.CDLL(loaded.path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        find = ctypes.CDLL(None).dlvsym
    except (OSError, AttributeError):  # loaded in another namespace; no glibc
        return
    find.restype, find.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    vdso = next((mapping for mapping in mappings(os.getpid()) if mapping.path == "[vdso]"), None)
    for function in functions:
        for exported in table.named(function.name) if table is not None else ():
            if exported.address == function.address and exported.version:
                address = find(library._handle, exported.name.encode(), exported.version.encode()) or 0
                if vdso is not None and vdso.start <= address < vdso.end:
                    yield function.address, _VDSO
                else:
                    yield function.address, address - loaded.bias


def _of_process(binary: Binary, functions: Sequence[Function], process: Picture) -> Iterator[tuple[int, int]]:
    """The contents of a process's slots: those of the file itself first, then those of the files that call it."""
    loaded = _loaded(binary, process)
    if loaded is None:
        return
    named: dict[str, list[Function]] = {}
    for function in functions:
        named.setdefault(function.name, []).append(function)
    try:
        memory = open_memory(process.pid)
    except OSError:
        return
    try:
        resolvers = {function.address for function in functions}
        yield from _slots(binary.elf, loaded.bias, memory, named, loaded.bias, resolvers)
        seen = {binary.identity.inode}
        for mapping in process.mappings:
            if not mapping.executable or mapping.file is None or mapping.file[1] in seen:
                continue
            seen.add(mapping.file[1])
            path = _path(process, mapping)
            try:
                with Elf(path or "") as elf:
                    bias = _bias(elf, mapping)
                    if bias is not None:
                        yield from _slots(elf, bias, memory, named, loaded.bias, set())
            except TracerError:
                continue  # not an ELF file, or gone
    except TracerError:
        return  # the process has ended
    finally:
        os.close(memory)


def _slots(
    elf: Elf, bias: int, memory: int, named: dict[str, list[Function]], to: int, resolvers: set[int]
) -> Iterator[tuple[int, int]]:
    """The slots of one file of a process that hold an implementation: the symbol's address, and the implementation's
    less `to`. `resolvers`: the addresses of the indirect functions that this very file has.
    """
    if elf.machine not in ARCHES:
        return
    table = read_table(elf, SHT_DYNSYM)
    kinds = ARCHES[elf.machine].relocations
    by_symbol: dict[int, list[Function]] = {}
    for place, kind, symbol, addend in relocations(elf):
        if kind == kinds.irelative:
            symbols = [addend] if addend in resolvers else []
        elif kind in (kinds.absolute, kinds.glob_dat, kinds.jump_slot) and symbol and table is not None and not addend:
            if symbol not in by_symbol:
                version = table.version(symbol)
                candidates = named.get(table.name(symbol), ())
                by_symbol[symbol] = [candidate for candidate in candidates if _agree(version, candidate.version)]
            symbols = [function.address for function in by_symbol[symbol]]
        else:
            continue
        if not symbols:
            continue
        try:
            (value,) = struct.unpack("<Q" if elf.word == 8 else "<I", read(memory, elf.word, bias + place))
        except (OSError, struct.error):
            continue
        yield from ((start, value - to) for start in symbols if value - to != start)


def _agree(version: str, other: str) -> bool:
    return version == other or "" in (version, other)


def _refused(binary: Binary, function: Function, kind: str, vdso: bool) -> ElfError:
    what = (
        f"{printable(binary.shown)}: {printable(function.name)} is an indirect function: its symbol is not the function"
        " but code that chooses it when the file is loaded"
    )
    if vdso:
        return ElfError(f"{what}, and what it chooses lies in the kernel's vDSO, where no probe can be")
    code = binary.code
    names = set()
    for instruction in code.instructions(code.range_of(function)):
        relative = re.search(r"\[rip ([+-]) (0x[0-9a-f]+)\]", instruction.operands)
        if relative is not None and instruction.mnemonic == "lea":
            target = instruction.address + instruction.size + int(relative[1] + relative[2], 16)
            candidate = code.symbols.function_at(target) if code.executable(target) else None
            if candidate is not None and candidate.address == target:
                names.add(candidate.name)
    common = os.path.commonprefix(sorted(names))  # noqa: RUF071 (these are names, not paths)
    if len(names) > 1 and len(common) > 4:
        hint = f"trace the implementations: {kind}:{printable(binary.shown)}:{printable(common)}*"
    elif names:
        hint = printable(f"trace the implementations: {', '.join(sorted(names)[:4])}")
    else:
        hint = "install the file's debug symbols, which name the implementations, and trace those"
    return ElfError(f"{what}, and no process here tells which", f"{hint}; or name one that has the file loaded: -p PID")
