"""The functions whose calls make the flow below a function: those of its file that direct calls lead to, from one to
the next, and others that are named. Each is one whose beginning and returns can be seen.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass, replace
from tracer.errors import TracerError, UsageError, and_more, counted, printable
from tracer.kinds.arch import EM_X86_64
from tracer.kinds.model import AttachPoint
from tracer.kinds.site import FileSite, Target
from tracer.lang.syntax.attach import read as read_point
from tracer.lang.types import StructType
from tracer.resolve.attach_texts import quoted
from tracer.resolve.binary import Binaries
from tracer.resolve.dwarf.calls.results import NO_NUMBER
from tracer.resolve.dwarf.debug_info import DebugInfo
from tracer.resolve.files.paths import find_files
from tracer.resolve.functions.demangled_names import without_parameters
from tracer.resolve.functions.unused_results import unused
from tracer.resolve.safety.placement import function_start, inside_function, offset_of_code
from tracer.resolve.safety.recursion import Recursion
from tracer.resolve.safety.returns import plan_return
from tracer.resolve.sites.expand import as_meant, sites_at
from tracer.resolve.sites.function_sites import meant_functions, site_inside

if TYPE_CHECKING:
    from tracer.lang.types import Type
    from tracer.lang.types.outside import Parameter
    from tracer.resolve.binary import Binary
    from tracer.resolve.elf.symbol_table import Function

MOST = 256
"""Functions of a flow: each has some probes, and each hit of these costs the program."""
DEPTH = 3
"""Levels of calls below a function, where nobody says how many."""

_NAMED = 3
_CATCH = "__cxa_begin_catch"
_SETJMP = frozenset(("setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp"))
_CPP_LIBRARIES = ("libstdc++", "libc++abi")


@dataclass(frozen=True, slots=True)
class Traced:
    """A function of a flow. `point` names it as attach points do, without their kind; `name` is what `func` shows.
    `parameters` and `result` are as debug information has them, or why they are not known. `entry` and `ends` are its
    sites. `leaves`: it may end in a jump to another function. `place`: its line, or its address, where others of the
    flow have the same name. `struct`: see `results.struct_result`.
    """

    point: str
    name: str
    entry: FileSite
    ends: tuple[FileSite, ...]
    parameters: tuple[Parameter, ...] | str
    result: Type | str
    leaves: bool
    struct: Parameter | None = None
    place: str = ""

    @property
    def key(self) -> str:
        """A name that no other function of the flow has."""
        return f"{self.name} {self.place}" if self.place else self.name


@dataclass(frozen=True, slots=True)
class Flow:
    """What to trace: the functions `above` whose flow it is, those `below`, to `depth` levels; `left_out` says what is
    not among them. `catches` are attach points at which a thread goes on behind an exception, and `jumps` those where
    it goes on behind longjmp(). `goroutines`: the functions are those of Go, and `number` is where the runtime's
    record of a goroutine has its number; None where nothing tells.
    """

    above: tuple[Traced, ...]
    below: tuple[Traced, ...]
    depth: int
    left_out: tuple[str, ...]
    catches: tuple[str, ...]
    jumps: tuple[str, ...]
    goroutines: bool = False
    number: int | None = None

    @property
    def functions(self) -> tuple[Traced, ...]:
        """All of them."""
        return *self.above, *self.below


def flow_of(
    point: AttachPoint, target: Target, depth: int | None, only: str | None, more: Sequence[AttachPoint],
    unsafe_returns: bool = False,
) -> Flow:  # fmt: skip
    """What to trace for the flow below the functions of an attach point: `depth` levels of direct calls, or as many of
    three as are not too many functions; of these the ones whose names match `only`, and those of `more`. Raises
    `TracerError`.
    """
    left_out: list[str] = []
    refused: list[TracerError] = []
    with closing(Binaries()) as binaries:
        binary, roots = _meant(point, target, binaries, left_out)
        calls = Recursion(binary.code)
        goroutines = binary.unwinding.go
        if goroutines:
            roots = _of_go(roots, refused)
        levels, elsewhere = _levels(calls, roots, DEPTH if depth is None else depth, goroutines, only is None)
        matching = [[callee for callee in level if _matches(binary, callee, only)] for level in levels]
        kept = _bearable(printable(point.name or ""), len(roots), matching, depth is not None, left_out)
        above = _described(binary, calls, roots, unsafe_returns, refused)
        if not above:
            raise refused[0]
        below = _described(binary, calls, [callee for level in kept for callee in level], unsafe_returns, refused)
        for other in more:
            its_file, functions = _meant(other, target, binaries, left_out)
            if its_file.unwinding.go is not goroutines:
                raise its_file.elf.error("a flow has functions of Go alone, or none", "trace them apart")
            functions = _of_go(functions, refused) if goroutines else functions
            there = {(function.entry.path, function.entry.address) for function in (*above, *below)}
            new = [function for function in functions if (its_file.path, function.address) not in there]
            if len(there) + len(new) > MOST:
                raise UsageError(f"these are {len(there) + len(new)} functions, more than {MOST}", "name fewer")
            below += _described(its_file, Recursion(its_file.code), new, unsafe_returns, refused)
        apart = _told_apart([*above, *below])
        above, below = apart[: len(above)], apart[len(above) :]
        if refused:
            reason = f"{counted(len(refused), 'function')} left out, whose returns cannot be seen"
            left_out.append(f"{reason}; of the first: {refused[0].message}")
        traced = {function.name for function in (*roots, *(callee for level in kept for callee in level))}
        elsewhere = [name for name in elsewhere if name in traced]
        if elsewhere:
            names = and_more((_short(binary, name) for name in elsewhere[:_NAMED]), len(elsewhere))
            left_out.append(
                f"calls through pointers and into other files are not followed, as in {names}:"
                " --with FILE:FUNCTION adds such functions"
            )
        path = quoted(binary.named, path=True)
        jumps = tuple([f"uprobe:{path}:{address:#x}" for address in _jumps_to(binary, calls)])
        where = [f"uprobe:{path}"] * bool(binary.symbols.named(_CATCH))
        if binary.symbols.imports(_CATCH) or binary.symbols.has_mangled_names:
            where += [f"uprobe:{library}" for library in _CPP_LIBRARIES]
    catches = tuple([text for file in where if (text := _if_there(f"{file}:{_CATCH}", target))])
    levels_kept = len(kept) if depth is None else depth
    number = _number_of_goroutines(above[0].entry) if goroutines else None
    return Flow(tuple(above), tuple(below), levels_kept, tuple(left_out), catches, jumps, goroutines, number)


def _bearable(
    name: str, roots: int, levels: list[list[Function]], asked: bool, left_out: list[str]
) -> list[list[Function]]:
    """The levels that are not too many functions. Raises `UsageError` where all were `asked` for, or none would do."""
    numbers = [roots + sum(map(len, levels[: level + 1])) for level in range(len(levels))]
    fitting = sum(1 for number in numbers if number <= MOST)
    if roots > MOST:
        raise UsageError(f"{name} means {roots} functions, more than {MOST}", "name one")
    if fitting == len(levels):
        return levels
    many = f"{name} leads to {numbers[fitting]} functions within {counted(fitting + 1, 'level')} of calls"
    if asked or not fitting:
        fewer = f"--depth {fitting} leads to {numbers[fitting - 1]}; " if fitting else ""
        what = f"{many}, more than the {MOST} whose traps can be borne"
        raise UsageError(what, f"{fewer}--only GLOB takes those whose names match")
    left_out.append(f"{many}, too many to trace, so it is --depth {fitting}; --only GLOB takes those of some names")
    return levels[:fitting]


def _meant(
    point: AttachPoint, target: Target, binaries: Binaries, left_out: list[str]
) -> tuple[Binary, tuple[Function, ...]]:
    """The file of an attach point, and the functions in it."""
    point = as_meant(point, target)
    if point.offset or point.address is not None or point.file_offset is not None or point.is_of_lines:
        raise UsageError(f"{point.text}: only a whole function has a flow", "write FILE:FUNCTION")
    files = find_files(point.path, target)
    if len(files) > 1:
        raise UsageError(f"{point.path} means {len(files)} files", "a flow is that of one file: name it")
    binary = binaries.open(files[0].path, files[0].shown)
    if binary.elf.machine != EM_X86_64:
        raise binary.elf.error("calls can be paired on x86-64 alone", "trace the entry with uprobe")
    if binary.unwinding.go and not binary.keeps_goroutine:
        raise binary.elf.error(
            "its functions do not say which goroutine calls them, as those of Go 1.18 and later do",
            "tracer latency FILE:FUNCTION times calls",
        )
    return binary, meant_functions(point, binary, target.pictures, left_out)


def _of_go(functions: Sequence[Function], refused: list[TracerError]) -> tuple[Function, ...]:
    """Those in whose code a register holds what describes the goroutine; `refused` gets why others cannot be traced."""
    kept = [function for function in functions if _keeps_goroutine(function)]
    refused += [
        TracerError(f"{function.name} does not say which goroutine calls it")
        for function in functions if function not in kept
    ]  # fmt: skip
    return tuple(kept)


def _keeps_goroutine(function: Function) -> bool:
    return "." in function.name and not function.name.endswith(".abi0")  # those of C have plain names


def _number_of_goroutines(entry: FileSite) -> int | None:
    with suppress(TracerError):
        record = DebugInfo([entry]).type("struct runtime.g")
        field = record.field("goid") if isinstance(record, StructType) else None
        return None if field is None else field.offset
    return None


def _levels(
    calls: Recursion, roots: Sequence[Function], depth: int, goroutines: bool, but_runtime: bool
) -> tuple[list[list[Function]], list[str]]:
    """The functions that each level of calls adds, and the names of those that call what is not followed.
    `goroutines`: functions of Go; `but_runtime`: of its runtime, which all functions call, none.
    """
    seen = {function.address for function in roots}
    levels: list[list[Function]] = []
    elsewhere: list[str] = []

    def is_left_out(callee: Function) -> bool:
        return goroutines and (not _keeps_goroutine(callee) or (but_runtime and callee.name.startswith("runtime.")))

    callers = list(roots)
    while callers and len(levels) < depth and len(seen) < 8 * MOST:
        level: list[Function] = []
        for caller in callers:
            callees, unknown = calls.callees(caller)
            elsewhere += [caller.name] * unknown
            new = [callee for callee in callees if callee.address not in seen and not is_left_out(callee)]
            seen.update(callee.address for callee in new)
            level += new
        levels.append(level)
        callers = level
    return levels, elsewhere


def _matches(binary: Binary, function: Function, only: str | None) -> bool:
    return only is None or any(fnmatchcase(name, only) for name in (function.name, binary.readable(function.name)))


def _described(
    binary: Binary, calls: Recursion, functions: Sequence[Function], unsafe_returns: bool, refused: list[TracerError]
) -> list[Traced]:
    """Those that can be traced; `refused` gets why others cannot."""
    path = quoted(binary.named, path=True)
    seen: list[tuple[Function, FileSite, tuple[FileSite, ...]]] = []
    for function in functions:
        try:
            function_start(binary.code, function)
            around = binary.code.range_of(function)
            entry = site_inside(binary, around, function.address, f"uprobe:{path}:{function.name}")
            plan = plan_return(
                binary.code, binary.unwinding, function, unsafe_returns, calls.of, False, calls.called
            )
            what = f"the return of {function.name}"
            places = [(end, offset_of_code(binary.code, end, what)) for end in plan.addresses]
        except TracerError as error:
            refused.append(error)
            continue
        ends = tuple([replace(entry, kind=plan.kind, address=end, offset=offset) for end, offset in places])
        seen.append((function, entry, ends))
    debug_info = DebugInfo([entry for _, entry, _ in seen], unused=unused)
    traced = []
    for function, entry, ends in seen:
        others = len(binary.symbols.named(function.name)) > 1  # which the name would mean as well
        point = f"{path}:{function.address:#x}" if others else f"{path}:{quoted(function.name)}"
        name = binary.readable(function.name)
        parameters: tuple[Parameter, ...] | str
        result: Type | str
        try:
            parameters = debug_info.parameters(entry)
            result = debug_info.no_result(entry) or debug_info.result_type(entry)
            struct = debug_info.struct_result(entry) if result == NO_NUMBER else None
        except TracerError as error:
            parameters = result = error.message
            struct = None
        traced.append(Traced(point, name, entry, ends, parameters, result, _leaves(binary, function), struct))
    debug_info.keep()
    return traced


def _told_apart(functions: Sequence[Traced]) -> list[Traced]:
    """The same, with the places of those whose names are not theirs alone."""
    numbers = Counter(function.name for function in functions)
    with closing(Binaries()) as binaries:
        return [
            function if numbers[function.name] == 1 else replace(function, place=_place(binaries, function.entry))
            for function in functions
        ]


def _place(binaries: Binaries, entry: FileSite) -> str:
    """Where a function is: in its source, else in its file."""
    line = None
    with suppress(TracerError):  # a damaged table tells nothing
        lines = binaries.open(entry.path).lines
        line = None if lines is None else lines.place_at(entry.address)
    return f"{entry.address:#x}" if line is None else printable(f"{os.path.basename(line[0])}:{line[1]}")


def _short(binary: Binary, name: str) -> str:
    return printable(without_parameters(binary.readable(name)))


def _jumps_to(binary: Binary, calls: Recursion) -> list[int]:
    """Where setjmp() returns to, the second time too."""
    addresses = []
    for address in calls.behind_calls_of(_SETJMP):
        with suppress(TracerError):
            inside_function(binary.code, address)
            addresses.append(address)
    return addresses[:MOST]


def _leaves(binary: Binary, function: Function) -> bool:
    around = binary.code.range_of(function)
    jumps = [instruction for instruction in binary.code.instructions(around) if instruction.jumps]
    return any(jump.target is None or not around.holds(jump.target) for jump in jumps)


def _if_there(point: str, target: Target) -> str:
    """An attach point that means something; else ""."""
    with suppress(TracerError):
        if point and sites_at(read_point(point, 0)[0], target, []):
            return point
    return ""
