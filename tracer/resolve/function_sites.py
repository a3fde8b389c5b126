"""A `uprobe:` or `uretprobe:` attach point and a file → sites."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import TracerError
from tracer.lang.ast import AttachPoint
from tracer.resolve.binary import Binary
from tracer.resolve.elf_layout import printable
from tracer.resolve.functions import find_functions, function_text, not_found
from tracer.resolve.model import ArgSpec, Mem, Site, Unreadable
from tracer.resolve.returns import plan_return
from tracer.resolve.safety import function_start, inside_function, offset_of_code
from tracer.resolve.symbol_table import Function


def function_sites(point: AttachPoint, binary: Binary, room: int, limit: int) -> list[Site]:
    """The sites of every function that the attach point means; `room` is how many of `limit` are left.

    Raises `NothingThere` where the file has none, `TracerError` for one that must not be probed.
    """
    if point.address is not None:
        return _at_address(point, binary, point.address)
    name = point.name
    if name is None:
        raise TracerError("the attach point names no function", f"write {point.kind}:PATH:FUNCTION; * stands for any")
    functions = find_functions(binary, name, point.kind)
    if not functions:
        raise not_found(binary, name)
    if len(functions) > room:
        raise TracerError(
            f"{printable(binary.shown)}: '{printable(name)}' matches {len(functions)} functions, more than {limit}",
            "narrow the pattern",
        )
    if point.kind == "uretprobe":
        if point.offset:
            raise TracerError("a return probe takes no offset", f"write {point.kind}:PATH:FUNCTION")
        return _returns(binary, functions)
    if point.offset:
        return [_inside(point, binary, each) for each in functions]
    return [_entry(binary, each, f"uprobe:{binary.shown}:{each.name}") for each in functions]


def _entry(binary: Binary, function: Function, probe: str) -> Site:
    return Site(
        kind="uprobe",
        path=binary.path,
        identity=binary.identity,
        address=function.address,
        offset=function_start(binary.code, function),
        probe=probe,
        function=binary.readable(function.name),
        args=binary.function_args(function.name),
    )


def _inside(point: AttachPoint, binary: Binary, function: Function) -> Site:
    """`FUNCTION+OFFSET`."""
    around = binary.code.range_of(function)
    address = function.address + point.offset
    if not around.holds(address):
        size = around.end - around.start
        name = printable(function.name)
        raise TracerError(f"{printable(binary.shown)}: {name} has {size} bytes, so there is no {name}+{point.offset}")
    offset, _ = inside_function(binary.code, address, around)
    probe = f"uprobe:{binary.shown}:{function.name}+{point.offset}"
    site = _entry(binary, function, probe)
    return replace(site, address=address, offset=offset, args=later(site.args))


def _at_address(point: AttachPoint, binary: Binary, address: int) -> list[Site]:
    """`uprobe:PATH:0x1234`: a virtual address of the file."""
    text = f"{point.kind}:{binary.shown}:{address:#x}"
    address += point.offset
    offset, around = inside_function(binary.code, address)
    if point.kind == "uretprobe":
        if address != around.start:
            raise binary.elf.error(
                f"{address:#x} is inside {around.name or 'a function'}: only a whole function can be probed on return",
                f"write uretprobe:PATH:{around.start:#x}",
            )
        function = Function(around.name or f"the function at {address:#x}", address, around.end - around.start)
        return [replace(site, probe=text) for site in _returns(binary, (function,), around.name)]
    args = binary.function_args(around.name)
    return [
        Site(
            kind="uprobe",
            path=binary.path,
            identity=binary.identity,
            address=address,
            offset=offset,
            probe=text if not point.offset else f"{text}+{point.offset}",
            function=function_text(binary, address),
            args=args if address == around.start else later(args),
        )
    ]


def later(args: tuple[ArgSpec, ...]) -> tuple[ArgSpec, ...]:
    """The arguments after the function's first instruction: registers as they are then, which is what the user asked to
    see there, but nothing on the stack, for the stack pointer may have moved.
    """
    gone = Unreadable("arguments on the stack can be read only at the function's first instruction")
    return tuple(replace(each, operand=gone) if isinstance(each.operand, Mem) else each for each in args)


def _returns(binary: Binary, functions: tuple[Function, ...], text: str | None = None) -> list[Site]:
    sites = []
    refused: list[TracerError] = []
    for each in functions:
        try:
            function_start(binary.code, each)
            plan = plan_return(binary.code, binary.unwinding, each)
        except TracerError as error:
            refused.append(error)
            continue
        for address in plan.addresses:
            sites.append(
                Site(
                    kind=plan.kind,
                    path=binary.path,
                    identity=binary.identity,
                    address=address,
                    offset=offset_of_code(binary.code, address, f"the return of {each.name}"),
                    probe=f"uretprobe:{binary.shown}:{each.name}",
                    function=binary.readable(each.name if text is None else text),
                )
            )
    if refused and len(functions) == 1:
        raise refused[0]
    if refused:
        raise TracerError(
            f"{len(refused)} of {len(functions)} functions cannot be probed on return; the first: {refused[0].message}",
            "narrow the pattern, or trace their entries with uprobe",
        )
    return sites
