"""A `uprobe:` or `uretprobe:` attach point and a file → sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import NothingThere, TracerError, and_more, printable
from tracer.kinds.arch import I386
from tracer.kinds.model import AttachPoint, SiteLimit
from tracer.kinds.registry import KINDS, is_return
from tracer.kinds.site import ArgSpec, FileSite, Mem, TailPlace, Unreadable
from tracer.resolve.binary import Binary
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.elf.symbol_table import STB_LOCAL, Function
from tracer.resolve.files.paths import is_pattern
from tracer.resolve.functions.copies import calls_of_copies, copies_meant, refuse_returns, with_entry
from tracer.resolve.functions.lookup import find_functions, function_text, not_found
from tracer.resolve.safety.code import Range
from tracer.resolve.safety.placement import (
    function_start,
    function_starts,
    inside_function,
    offset_of_code,
    red_zone,
)
from tracer.resolve.sites.leaving_out import leave_out, tried

if TYPE_CHECKING:
    from tracer.host.maps import Picture
    from tracer.resolve.functions.inlined_copies import Copy

_NAMED = 3
_FEW = 16
"""Functions of a pattern up to which the calls of each are followed, which takes some ms."""
_OF_COPY = Unreadable("an inlined copy has no registers for arguments; args.NAME reads one where it is")


def function_sites(
    point: AttachPoint,
    binary: Binary,
    limit: SiteLimit,
    left_out: list[str],
    processes: Sequence[Picture] = (),
    all: Sequence[AttachPoint] = (),
) -> list[FileSite]:
    """The sites of every function that the attach point means. Of many those that cannot be probed are left out, and
    `left_out` gets a line about them. `processes`: those that are asked what indirect functions stand for. `all`: the
    program's.

    Raises `NothingThere` where the file has none, `TracerError` for one that must not be probed, or without `limit`.
    """
    if point.file_offset is not None:
        return _at_file_offset(point, binary, point.file_offset, left_out)
    if point.address is not None:
        text = f"{point.kind}:{binary.shown}:{point.address}"  # in decimal, as bpftrace has it
        return _at_address(point, binary, point.address, text, left_out)
    copies: Sequence[Copy] = ()
    if binary.inlined and not point.offset:
        functions, copies = _with_copies(point, binary, processes, left_out)
    else:
        functions = meant_functions(point, binary, processes, left_out)
    sites = _of_functions(point, binary, functions, limit, left_out) if functions else []
    if copies:
        sites += _of_copies(point, binary, copies, limit.less(len(sites)), len(sites), left_out)
    left_out += calls_of_copies(point, binary, functions, all)
    if not point.cpp and point.source is None:
        return sites
    before = f"{point.kind}:{binary.shown}:"
    prefix = before if point.source is None else f"{point.kind}:{binary.shown}@{point.source}:"
    return [
        replace(site, probe=f"{prefix}{'cpp:' * point.cpp}{site.probe.removeprefix(before)}") for site in sites
    ]


def _with_copies(
    point: AttachPoint, binary: Binary, processes: Sequence[Picture], left_out: list[str]
) -> tuple[tuple[Function, ...], Sequence[Copy]]:
    """The functions that are meant, and their inlined copies that have an entry."""
    functions: tuple[Function, ...] = ()
    absent: NothingThere | None = None
    try:
        functions = meant_functions(point, binary, processes, left_out)
    except NothingThere as error:
        absent = error
    copies = copies_meant(point, binary, functions)
    if copies and is_return(point):
        refuse_returns(point, binary, copies, bool(functions), left_out)
        copies = []
    if absent is not None and not copies:
        raise absent
    return functions, with_entry(point, binary, copies, left_out, not functions)


def _of_copies(
    point: AttachPoint, binary: Binary, copies: Sequence[Copy], limit: SiteLimit, entry_count: int, left_out: list[str]
) -> list[FileSite]:
    """Returns the sites of copies; `entry_count` says how many sites their functions have beside."""
    limit.check(len(copies), f"{printable(binary.shown)}: '{printable(point.name or '')}' means {len(copies)} copies")

    def of_copy(copy: Copy) -> FileSite:
        around = inside_function(binary.code, copy.address)[1]
        site = site_inside(binary, around, copy.address, f"{point.kind}:{binary.shown}:{copy.name}")
        args = tuple([replace(arg, operand=_OF_COPY) for arg in site.args])
        return replace(site, function=binary.function_text(copy.name), args=args, copy=copy.id)

    sites, refused = tried(of_copy, copies)
    leave_out(refused, entry_count + len(copies), left_out, "be probed", "places")
    return sites


def meant_functions(
    point: AttachPoint, binary: Binary, processes: Sequence[Picture], left_out: list[str]
) -> tuple[Function, ...]:
    """The functions that an attach point names, those of its source file. Raises as `function_sites` does."""
    name = point.name
    if name is None:
        raise TracerError("the attach point names no function", f"write {point.kind}:PATH:FUNCTION; * stands for any")
    meant: Callable[[Sequence[Function]], Sequence[Function]] = tuple
    if point.source is not None:
        from tracer.resolve.functions.source_files import of_source

        meant = partial(of_source, binary, point.source)
    functions = find_functions(binary, name, point.kind, point.cpp, processes, left_out, meant)
    if not functions:
        raise not_found(binary, name, is_return(point))
    if point.source is None:
        return functions
    from_source = of_source(binary, point.source, functions)
    if not from_source:
        shown, source = printable(binary.shown), printable(point.source)
        what = f"that matches '{printable(name)}'" if is_pattern(name) else f"'{printable(name)}'"
        raise NothingThere(f"{shown}: no function {what} comes from '{source}'", _elsewhere(binary, functions))
    return from_source


def _elsewhere(binary: Binary, functions: Sequence[Function]) -> str | None:
    """The remedy for a function that is of another source file."""
    line = binary.lines.line_at(functions[0].address) if binary.lines is not None and len(functions) == 1 else None
    return None if line is None else f"{functions[0].name} comes from {printable(line.rpartition(':')[0])}"


def _of_functions(
    point: AttachPoint, binary: Binary, functions: tuple[Function, ...], limit: SiteLimit, left_out: list[str]
) -> list[FileSite]:
    shown = f"{printable(binary.shown)}: '{printable(point.name or '')}'"
    limit.check(len(functions), f"{shown} matches {len(functions)} functions")
    if is_return(point):
        if point.offset:
            raise TracerError("a return probe takes no offset", f"write {point.kind}:PATH:FUNCTION")
        if not KINDS[point.kind].pairs:
            return _returns(binary, functions, left_out)
    if point.offset:
        sites, refused = tried(partial(_inside, point, binary), functions, TracerError)
        leave_out(refused, len(functions), left_out, f"be probed at +{point.offset}")
        return sites
    starts = function_starts(binary.code, functions)
    refused = [start for start in starts if isinstance(start, ElfError)]
    leave_out(refused, len(functions), left_out, "be probed")
    if refused:
        pairs = zip(functions, starts, strict=True)
        functions = tuple(function for function, start in pairs if not isinstance(start, ElfError))
    sites = _entries(binary, functions, [start for start in starts if not isinstance(start, ElfError)])
    if binary.unwinding.go:
        sites = _behind_stack_checks(binary, functions, sites)
    return _calls(binary, sites, functions, left_out) if KINDS[point.kind].pairs else sites


def _calls(
    binary: Binary, entries: Sequence[FileSite], functions: Sequence[Function], left_out: list[str]
) -> list[FileSite]:
    from tracer.resolve.sites.call_sites import with_ends

    unsafe: list[tuple[str, str]] = []
    sites = with_ends(binary, entries, functions, left_out, unsafe)
    if unsafe:
        left_out.append(_at_risk(unsafe, binary.unwinding.switched))
    return [replace(site, probe=f"call{site.probe.removeprefix('uprobe')}") for site in sites]


def _behind_stack_checks(binary: Binary, functions: Sequence[Function], sites: list[FileSite]) -> list[FileSite]:
    """The sites of Go functions at the place that each call reaches once, with the arguments still where they were."""
    for index, function in enumerate(functions):
        around = binary.code.range_of(function)
        address, _ = binary.stack_checks.body(around.start, around.end)
        if address != function.address:
            offset = offset_of_code(binary.code, address, f"the function {function.name}")
            sites[index] = replace(sites[index], address=address, offset=offset)
    return sites


def _entries(binary: Binary, functions: Sequence[Function], offsets: Sequence[int]) -> list[FileSite]:
    """The site at the start of each function, and the file offsets of these."""
    names = [function[0] for function in functions]
    entries = list(
        map(
            FileSite,
            repeat("uprobe"),
            map(f"uprobe:{binary.shown}:".__add__, names),
            map(binary.function_text, names) if binary.shows_functions else names,
            map(binary.function_args, names) if binary.unwinding.go else repeat(binary.function_args("")),
            repeat(0),
            repeat(binary.path),
            repeat(binary.identity),
            [function[1] for function in functions],
            offsets,
        )
    )
    if binary.arch is not I386:
        return entries
    return [
        replace(site, args=_at_entry(binary, function, few=len(functions) <= _FEW))
        for site, function in zip(entries, functions, strict=True)
    ]


def _at_entry(binary: Binary, function: Function, few: bool = True) -> tuple[ArgSpec, ...]:
    """The arguments at a function's first instruction. Of `few` i386 functions debug information is asked, which tells
    what the compiler passes in registers.
    """
    local = function.binding == STB_LOCAL
    if binary.arch is not I386 or not (few or local):
        return binary.function_args(function.name)
    from tracer.resolve.functions.entry_words import entry_words, unknown_words

    if not few:
        return unknown_words(binary.function_args(function.name))
    return entry_words(binary, function.name, function.address, local)


def _inside(point: AttachPoint, binary: Binary, function: Function) -> FileSite:
    """`FUNCTION+OFFSET`."""
    around = binary.code.range_of(function)
    address = function.address + point.offset
    if not around.holds(address):
        size = around.end - around.start
        name = printable(function.name)
        raise TracerError(f"{printable(binary.shown)}: {name} has {size} bytes, so there is no {name}+{point.offset}")
    offset, _ = inside_function(binary.code, address, around)
    (site,) = _entries(binary, (function,), (offset,))
    return replace(
        site,
        address=address,
        probe=f"{site.probe}+{point.offset}",
        args=later(site.args),
        red_zone=red_zone(binary.code, address),
    )


def _at_file_offset(point: AttachPoint, binary: Binary, offset: int, left_out: list[str]) -> list[FileSite]:
    """`uprobe:PATH:offset:0x1234`: a place in the file, as uprobe_events and perf's maps name it."""
    address = binary.elf.address_of(offset)
    if address is None or not binary.code.executable(address):
        message = f"the file has no code at offset {offset:#x}"
        if not binary.code.executable(offset):
            raise binary.elf.error(message)
        raise binary.elf.error(message, f"it has at that address: {point.kind}:{printable(binary.shown)}:{offset:#x}")
    return _at_address(point, binary, address, f"{point.kind}:{binary.shown}:offset:{offset:#x}", left_out)


def _at_address(point: AttachPoint, binary: Binary, address: int, text: str, left_out: list[str]) -> list[FileSite]:
    """`uprobe:PATH:0x1234`: a virtual address of the file."""
    if not binary.code.executable(address) and point.file_offset is None:
        behind = binary.elf.address_of(address)
        if behind is not None and binary.code.executable(behind):
            named = f"{point.kind}:{printable(binary.shown)}:offset:{address:#x}"
            message = f"the address at {address:#x} is not in the file's code, but that is an offset of code in it"
            raise binary.elf.error(message, f"if that is meant write {named}; its address is {behind:#x}")
    try:
        around = inside_function(binary.code, address)[1]
    except ElfError:
        from tracer.resolve.elf.plt import in_plt

        if not in_plt(binary.elf, address):
            raise
        message = f"{address:#x} is a PLT entry, through which the file calls other libraries, not a function"
        raise binary.elf.error(message, "name the function in its library: uprobe:LIBRARY:FUNCTION") from None
    if is_return(point):
        if address != around.start:
            raise binary.elf.error(
                f"{address:#x} is inside {around.name or 'a function'}: only a whole function can be probed on return",
                f"write {point.kind}:PATH:{around.start:#x}",
            )
        function = Function(around.name or f"the function at {address:#x}", address, around.end - around.start)
        if KINDS[point.kind].pairs:
            sites = _calls(binary, [site_inside(binary, around, address, text)], (function,), left_out)
        else:
            sites = _returns(binary, (function,), left_out, around.name)
        return [replace(site, probe=text) for site in sites]
    return [site_inside(binary, around, address, text)]


def site_inside(binary: Binary, around: Range, address: int, probe: str) -> FileSite:
    """The site at an instruction of a function that may be probed."""
    args = binary.function_args(around.name)
    if binary.arch is I386 and address == around.start:
        named = binary.symbols.function_at(address)
        args = _at_entry(binary, named or Function("", address, 0, STB_LOCAL))
    return FileSite(
        kind="uprobe",
        path=binary.path,
        identity=binary.identity,
        address=address,
        offset=offset_of_code(binary.code, address, f"the function {around.name}"),
        probe=probe,
        function=function_text(binary, address),
        args=args if address == around.start else later(args),
        point=0,
        red_zone=red_zone(binary.code, address),
    )


def later(args: tuple[ArgSpec, ...]) -> tuple[ArgSpec, ...]:
    """The arguments behind the function's first instruction: registers as they are there, which is what the user asked
    to see. Those on the stack are left out, for the stack pointer may have moved.
    """
    gone = Unreadable("arguments on the stack can be read only at the function's first instruction")
    return tuple(replace(arg, operand=gone) if isinstance(arg.operand, Mem) else arg for arg in args)


def _returns(
    binary: Binary, functions: tuple[Function, ...], left_out: list[str], text: str | None = None
) -> list[FileSite]:
    from tracer.resolve.safety.recursion import Recursion
    from tracer.resolve.safety.returns import plan_return

    calls = Recursion(binary.code)
    recurs = partial(calls.of, alone=len(functions) > _FEW)
    called = calls.called if len(functions) <= _FEW else None
    sites = []
    refused: list[TracerError] = []
    unsafe: list[tuple[str, str]] = []
    for function in functions:
        try:
            function_start(binary.code, function)
            plan = plan_return(
                binary.code, binary.unwinding, function, binary.unsafe_returns, recurs, binary.walked, called
            )
        except TracerError as error:
            refused.append(error)
            continue
        if plan.danger is not None:
            unsafe.append((function.name, plan.danger))
        nests = plan.nests or (len(functions) <= _FEW and recurs(function) is True)
        for address, tail in (*((address, TailPlace.NONE) for address in plan.addresses), *plan.tails):
            sites.append(
                FileSite(
                    kind=plan.kind,
                    path=binary.path,
                    identity=binary.identity,
                    address=address,
                    offset=offset_of_code(binary.code, address, f"the return of {function.name}"),
                    probe=f"uretprobe:{binary.shown}:{function.name}",
                    function=binary.function_text(function.name if text is None else text),
                    args=(),
                    point=0,
                    nests=nests,
                    tail=tail and tail | function.address << 8,
                )
            )
    leave_out(refused, len(functions), left_out, "be probed on return")
    if unsafe:
        left_out.append(_at_risk(unsafe, binary.unwinding.switched))
    return sites


def _at_risk(unsafe: Sequence[tuple[str, str]], switched: str | None) -> str:
    """The warning about what --unsafe-returns can do to the traced program."""
    from tracer.resolve.safety.plugins import FILTERED

    which = and_more((printable(name) for name, _ in unsafe[:_NAMED]), len(unsafe))
    number = "1 return probe" if len(unsafe) == 1 else f"{len(unsafe)} return probes"
    how = f"no handler catches an exception that crosses {which} while the probe is there"
    if switched == FILTERED:
        how = f"one whose seccomp filter forbids it ends when {which} returns"
    elif switched:
        how = f"a call of {which} that waits while another runs on its thread may return to nowhere"
    return f"{number} can end the program that is traced: {how}; of the first: {unsafe[0][1]}"
