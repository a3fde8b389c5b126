"""A `uprobe:` or `uretprobe:` attach point and a file → sites."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import TracerError, printable
from tracer.kinds.model import AttachPoint
from tracer.kinds.registry import KINDS, is_return
from tracer.kinds.site import ArgSpec, FileSite, Mem, NothingThere, SiteLimit, TailPlace, Unreadable
from tracer.resolve.binary import Binary
from tracer.resolve.elf.structures import ElfError
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.files.paths import is_pattern, matcher
from tracer.resolve.functions.lookup import find_functions, function_text, is_demangled, not_found
from tracer.resolve.safety.code import Range
from tracer.resolve.safety.placement import (
    function_start,
    function_starts,
    inside_function,
    offset_of_code,
    red_zone,
)
from tracer.resolve.sites.leaving_out import leave_out

if TYPE_CHECKING:
    from tracer.host.maps import Picture

_NAMED = 3
_FEW = 16
"""Functions of a pattern up to which the calls of each are followed, which takes some ms."""


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
    functions = _named(point, binary, processes, left_out)
    sites = _of_functions(point, binary, functions, limit, left_out)
    left_out += _copies(point, binary, functions, all)
    if not point.cpp and point.source is None:
        return sites
    before = f"{point.kind}:{binary.shown}:"
    own = before if point.source is None else f"{point.kind}:{binary.shown}@{point.source}:"
    return [
        replace(site, probe=f"{own}{'cpp:' * point.cpp}{site.probe.removeprefix(before)}") for site in sites
    ]


def _named(
    point: AttachPoint, binary: Binary, processes: Sequence[Picture], left_out: list[str]
) -> tuple[Function, ...]:
    name = point.name
    if name is None:
        raise TracerError("the attach point names no function", f"write {point.kind}:PATH:FUNCTION; * stands for any")
    functions = find_functions(binary, name, point.kind, point.cpp, processes, left_out)
    if not functions:
        raise not_found(binary, name)
    if point.source is None:
        return functions
    from tracer.resolve.functions.source_files import of_source

    own = of_source(binary, functions, point.source)
    if not own:
        shown, source = printable(binary.shown), printable(point.source)
        what = f"that matches '{printable(name)}'" if is_pattern(name) else f"'{printable(name)}'"
        raise NothingThere(f"{shown}: no function {what} comes from '{source}'", _elsewhere(binary, functions))
    return own


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
        return _each_inside(point, binary, functions, left_out)
    starts = function_starts(binary.code, functions)
    refused = [each for each in starts if isinstance(each, ElfError)]
    leave_out(refused, len(functions), left_out, "be probed")
    if refused:
        pairs = zip(functions, starts, strict=True)
        functions = tuple(each for each, start in pairs if not isinstance(start, ElfError))
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


def _copies(
    point: AttachPoint, binary: Binary, functions: Sequence[Function], all: Sequence[AttachPoint]
) -> list[str]:
    """The warnings that some calls do not reach a function that is named exactly: they go to a copy that no other
    attach point names, or its beginning was inlined. A part that was split off is no copy: the function calls it.
    """
    name = (point.name or "").partition("@")[0]
    if point.offset or len(functions) > _FEW:
        return []
    # As people write it, a whole name means its own function alone; one without parameters its copies as well.
    written = is_demangled(name) and not binary.symbols.named(name)
    exact = written and any(binary.readable(each.name) == name for each in functions)
    if not exact and (point.cpp or is_pattern(name)):
        return []
    named = sorted({each.name for each in functions}) if written else [name]
    here = {each.address for each in functions} if written else ()
    every = [copy for each in named for copy in binary.symbols.copies(each)]
    names = [each.name for each in every if each.address not in here]
    tests = [matcher(each.name) for each in all if each.kind == point.kind and each.name] if names else []
    names = [each for each in names if not any(test(each) or test(binary.readable(each)) for test in tests)]
    copies = [each for each in names if ".part." not in each]
    said = _begun_elsewhere(binary, name, functions, [each for each in names if each not in copies])
    if not copies:
        return said
    shown = ", ".join(copies[:_NAMED]) + (f" and {len(copies) - _NAMED} more" if len(copies) > _NAMED else "")
    wild = f'"{name}*"' if written else f"{name}*"
    return [*said, f"some callers of {name} call a copy that the compiler made of it ({shown}): {wild} means all"]


def _begun_elsewhere(binary: Binary, name: str, functions: Sequence[Function], parts: Sequence[str]) -> list[str]:
    """The warning that callers hold the beginning of a function, and call the rest, a part of it, or do not."""
    if not parts:
        return []
    from tracer.resolve.functions.inlining import at_places, inlined_of

    found = None
    with suppress(TracerError):  # of damaged debug information
        found = next(filter(None, [inlined_of(binary.path, each.address) for each in functions]), None)
    if found is None:
        return []
    where, rest = at_places(found), " and ".join(map(printable, parts[:_NAMED]))
    return [f"the beginning of {name} was inlined {where}: calls there are no hits; those that go on call {rest}"]


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
    names = [each[0] for each in functions]
    return list(
        map(
            FileSite,
            repeat("uprobe"),
            map(f"uprobe:{binary.shown}:".__add__, names),
            map(binary.function_text, names) if binary.shows_functions else names,
            map(binary.function_args, names) if binary.unwinding.go else repeat(binary.function_args("")),
            repeat(0),
            repeat(binary.path),
            repeat(binary.identity),
            [each[1] for each in functions],
            offsets,
        )
    )


def _each_inside(
    point: AttachPoint, binary: Binary, functions: Sequence[Function], left_out: list[str]
) -> list[FileSite]:
    sites = []
    refused: list[TracerError] = []
    for each in functions:
        try:
            sites.append(_inside(point, binary, each))
        except TracerError as error:
            refused.append(error)
    leave_out(refused, len(functions), left_out, f"be probed at +{point.offset}")
    return sites


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
            found = _calls(binary, [site_inside(binary, around, address, text)], (function,), left_out)
        else:
            found = _returns(binary, (function,), left_out, around.name)
        return [replace(site, probe=text) for site in found]
    return [site_inside(binary, around, address, text)]


def site_inside(binary: Binary, around: Range, address: int, probe: str) -> FileSite:
    """The site at an instruction of a function that may be probed."""
    args = binary.function_args(around.name)
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
    return tuple(replace(each, operand=gone) if isinstance(each.operand, Mem) else each for each in args)


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
    for each in functions:
        try:
            function_start(binary.code, each)
            plan = plan_return(
                binary.code, binary.unwinding, each, binary.unsafe_returns, recurs, binary.walked, called
            )
        except TracerError as error:
            refused.append(error)
            continue
        if plan.danger is not None:
            unsafe.append((each.name, plan.danger))
        nests = plan.nests or (len(functions) <= _FEW and recurs(each) is True)
        for address, tail in (*((address, TailPlace.NONE) for address in plan.addresses), *plan.tails):
            sites.append(
                FileSite(
                    kind=plan.kind,
                    path=binary.path,
                    identity=binary.identity,
                    address=address,
                    offset=offset_of_code(binary.code, address, f"the return of {each.name}"),
                    probe=f"uretprobe:{binary.shown}:{each.name}",
                    function=binary.function_text(each.name if text is None else text),
                    args=(),
                    point=0,
                    nests=nests,
                    tail=tail and tail | each.address << 8,
                )
            )
    leave_out(refused, len(functions), left_out, "be probed on return")
    if unsafe:
        left_out.append(_at_risk(unsafe, binary.unwinding.switched))
    return sites


def _at_risk(unsafe: Sequence[tuple[str, str]], switched: str | None) -> str:
    """The warning about what --unsafe-returns can do to the traced program."""
    from tracer.resolve.safety.plugins import FILTERED

    names = [printable(name) for name, _ in unsafe[:_NAMED]]
    more = f" and {len(unsafe) - _NAMED} more" if len(unsafe) > _NAMED else ""
    number = "1 return probe" if len(unsafe) == 1 else f"{len(unsafe)} return probes"
    which = f"{', '.join(names)}{more}"
    how = f"no handler catches an exception that crosses {which} while the probe is there"
    if switched == FILTERED:
        how = f"one whose seccomp filter forbids it ends when {which} returns"
    elif switched:
        how = f"a call of {which} that waits while another runs on its thread may return to nowhere"
    return f"{number} can end the program that is traced: {how}; of the first: {unsafe[0][1]}"
