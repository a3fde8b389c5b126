"""Run by gdb (`gdb -batch -x inside_gdb.py`): at stops of a program it reads each variable in scope as gdb does and as
tracer would, and writes what it found as lines of JSON.

tracer's places are evaluated over the registers and the memory of the very stop, so nothing but the places differs. The
environment tells what to do: VARIABLES_JOB is JSON with `path`, `args`, `addresses`, `stops` (at an address),
`out`, `packages` (where to find Python's packages).
"""

from __future__ import annotations

import json
import operator
import os
import re
import struct
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

JOB = json.loads(os.environ["VARIABLES_JOB"])
sys.path[:0] = JOB["packages"]

gdb: Any = __import__("gdb")

from tracer.kinds.site import FileIdentity, FileSite  # noqa: E402
from tracer.lang.types import ArrayType, StructType, memory_size  # noqa: E402
from tracer.resolve.dwarf.functions import function_at  # noqa: E402
from tracer.resolve.dwarf.units.debug_entries import entries_of  # noqa: E402
from tracer.resolve.dwarf.units.ranges import start_of  # noqa: E402
from tracer.resolve.elf.file import Elf  # noqa: E402
from tracer.resolve.variables.places import Variables  # noqa: E402

MASK = (1 << 64) - 1
NAMES = {"ip": "rip", **{name: f"r{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")}}
_MOST_SCALARS = 64


class Unreadable(Exception):
    """Memory that is not there."""


def evaluate(tree: Any, frame: Any, here: int) -> int:
    """The number that a place gives at this stop."""
    kind = tree[0]
    if kind == "reg":
        return int(frame.read_register(NAMES.get(tree[1], tree[1]))) & MASK
    if kind == "const":
        return int(tree[1]) & MASK
    if kind == "here":
        return (here + int(tree[1])) & MASK
    if kind == "read":
        return int.from_bytes(memory(evaluate(tree[2], frame, here), tree[1]), "little")
    if kind == "cast":
        value = evaluate(tree[3], frame, here) & ((1 << tree[1]) - 1)
        return int(value - (1 << tree[1]) if tree[2] and value >> (tree[1] - 1) else value) & MASK
    result: Any
    left, right = evaluate(tree[1], frame, here), evaluate(tree[2], frame, here)
    if kind[-1] == "s" or kind == ">>s":
        kind = kind[:-1]
        left, right = (number - (1 << 64) if number >> 63 else number for number in (left, right))
    result = {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_,
        "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "==": operator.eq, "!=": operator.ne,
        "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    }[kind](left, right)  # fmt: skip
    return int(result) & MASK


def memory(address: int, size: int) -> bytes:
    """Bytes of the stopped program."""
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except gdb.error:
        raise Unreadable from None


def content(local: Any, size: int, frame: Any, here: int) -> bytes:
    """The bytes of a variable as tracer reads them."""
    bytes_read = bytearray(size)
    for piece in local.pieces:
        number = evaluate(piece.tree, frame, here)
        part = memory(number, piece.size) if piece.memory else (number & MASK).to_bytes(8, "little")
        bytes_read[piece.offset : piece.offset + piece.size] = part[: piece.size].ljust(piece.size, b"\0")
    return bytes(bytes_read[:size])


def scalars(value: Any, offset: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """The numbers in one of gdb's values: the byte where each begins, its size, the number's bytes."""
    type = value.type.strip_typedefs()
    code = type.code
    if code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        for field in type.fields():
            if not hasattr(field, "bitpos") or field.artificial or field.bitsize:
                continue
            yield from scalars(value[field], offset + field.bitpos // 8)
            if code == gdb.TYPE_CODE_UNION:
                return
    elif code == gdb.TYPE_CODE_ARRAY:
        low, high = type.range()
        for index in range(low, min(high, low + 15) + 1):
            yield from scalars(value[index], offset + (index - low) * type.target().sizeof)
    elif code == gdb.TYPE_CODE_FLT:
        if type.sizeof in (4, 8):
            yield offset, type.sizeof, struct.pack("<f" if type.sizeof == 4 else "<d", float(value))
    elif code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        yield offset, 8, (int(value.referenced_value().address) & MASK).to_bytes(8, "little")
    elif type.sizeof <= 8:
        yield offset, type.sizeof, (int(value) & ((1 << (8 * type.sizeof)) - 1)).to_bytes(type.sizeof, "little")


def symbols(frame: Any) -> Iterator[Any]:
    """The variables in scope as gdb has them, the innermost first, those of the unit left out."""
    try:
        block = frame.block()
    except RuntimeError:
        return
    while block is not None and not block.is_global and not block.is_static:
        for symbol in block:
            if (symbol.is_variable or symbol.is_argument) and symbol.addr_class != gdb.SYMBOL_LOC_LABEL:
                yield symbol
        function = physical(frame).function()
        if block.function is not None and function is not None and block.function.name == function.name:
            return  # the text of a lambda's function stands in that of another
        block = block.superblock


def physical(frame: Any) -> Any:
    """The frame that is on the stack, of one that was inlined."""
    while frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return frame


BIAS = [0]
STARTS: set[int] = set()
"""The first instructions of functions. Only tracer knows that nothing is in the frame there."""


def compare(frame: Any, variables: Any, here: int, where: str) -> None:
    """Writes what became of each variable that gdb has in scope."""
    for symbol in symbols(frame):
        named_so = (variable for variable in variables if variable.name == symbol.name)
        local = next((variable for variable in named_so if variable.line in (symbol.line, 0)), None)
        if local is None:
            OUT({"where": where, "name": symbol.name, "result": "unknown to tracer"})
            continue
        report = {"where": where, "name": local.name, "type": local.text, "reason": local.reason}
        try:
            value = symbol.value(frame)
            if value.is_optimized_out:
                raise gdb.error("optimized out")
            numbers = list(islice(scalars(value), _MOST_SCALARS))
        except (gdb.error, RuntimeError, OverflowError, TypeError, NotImplementedError) as error:
            report["gdb"] = str(error)[:80]
            report["result"] = "neither" if local.reason else "gdb does not read it"
            OUT(report)
            continue
        if local.reason:
            report["result"] = "refused"
            OUT(report)
            continue
        try:
            size = 8 if local.reference else max(memory_size(local.type), 1)
            bytes_read = content(local, size, physical(frame), here)
        except Unreadable:
            report["result"] = "gdb reads memory that tracer does not find"
            OUT(report)
            continue
        wrong = [
            (offset, part.hex(), bytes_read[offset : offset + size].hex())
            for offset, size, part in numbers
            if bytes_read[offset : offset + size] != part and offset + size <= len(bytes_read)
        ]
        early = bool(wrong) and here - BIAS[0] in STARTS
        report["result"] = "gdb reads too early" if early else "differs" if wrong else "equal"
        if wrong:
            report["wrong"] = wrong[:3]
            report["pieces"] = repr(local.pieces)
        OUT(report)


def named(local: Any, text: str, bytes_read: bytes, frame: Any) -> int | None:
    """The number that `a`, `s.second`, `q->first` or `t[3]` is in the bytes of a variable."""
    type = local.type
    _, *path = re.findall(r"\w+|->", text)
    offset = 0
    for step in path:
        if step == "->":
            address = int.from_bytes(bytes_read[offset : offset + 8], "little")
            bytes_read, offset = memory(address, 24), 0
            type = StructType("struct pair", 24, ())
            continue
        if isinstance(type, ArrayType):
            offset += int(step) * memory_size(type.item)
            type = type.item
            continue
        if not type.fields:
            type = PAIR[0]
        field = type.field(step)
        if field is None:
            return None
        offset, type = offset + field.offset, field.type
    size = memory_size(type)
    return int.from_bytes(bytes_read[offset : offset + size], "little", signed=type.signed)


PAIR: list[Any] = []


def truth(stops: list[Any]) -> None:
    """Compares what was read at stops with what the program has recorded."""
    entries = gdb.parse_and_eval("entries")
    count = int(gdb.parse_and_eval("recorded"))
    log = []
    for number in range(min(count, 4096)):
        entry = entries[number]
        log.append((int(entry["line"]), [int(entry["values"][index]) for index in range(int(entry["count"]))]))
    for line, done, values in stops:
        if done >= len(log) or log[done][0] != line:
            OUT({"where": line, "result": "not comparable"})
            continue
        for name, (ours, reason, pieces, gdbs), true in zip(JOB["names"][str(line)], values, log[done][1], strict=True):
            if reason:
                OUT({"where": line, "name": name, "reason": reason, "result": "refused"})
                continue
            cut = true & MASK
            same = ours is not None and (ours & MASK) == cut
            alike = ours is not None and gdbs is not None and (ours & MASK) == (gdbs & MASK)
            result = "equal" if same else "differs, and gdb reads the same" if alike else "differs"
            OUT({"where": line, "name": name, "reason": "", "result": result, "own": ours, "true": true,
                 "gdb": gdbs, "pieces": pieces})  # fmt: skip


def by_gdb(text: str) -> int | None:
    """The number of an expression as gdb reads it."""
    try:
        return int(gdb.parse_and_eval(text))
    except (gdb.error, RuntimeError):
        return None


def recorded(frame: Any, variables: Any, here: int, line: int) -> Any:
    """The values that tracer reads at a stop of the variables that the line records."""
    values: list[tuple[int | None, str, str, int | None]] = []
    for text in JOB["names"][str(line)]:
        name = text.partition("[")[0].partition(".")[0].partition("->")[0]
        local = next((variable for variable in variables if variable.name == name and not variable.hidden), None)
        if local is None:
            values.append((None, "not in scope", "", None))
            continue
        if local.reason:
            values.append((None, local.reason, "", None))
            continue
        try:
            bytes_read = content(local, max(memory_size(local.type), 1), frame, here)
            values.append((named(local, text, bytes_read, frame), "", repr(local.pieces), by_gdb(text)))
        except Unreadable:
            values.append((None, "", "unreadable memory", None))
    return line, int(gdb.parse_and_eval("recorded")), values


def main() -> None:
    """Runs the program from stop to stop."""
    path = os.path.realpath(JOB["path"])
    entries = entries_of(Elf(path), keep=True)
    assert entries is not None
    identity = FileIdentity(0, 0, 0, 0)
    variables_at = {}
    variables = Variables(path, entries, "key")

    def start_at(address: int) -> int | None:
        function = function_at(entries, address)
        return None if function is None else start_of(function)

    for address in JOB["addresses"]:
        line = JOB["lines"][str(address)] if "lines" in JOB else 0
        probe = f"uprobe:x:x.c:{line}" if line else "uprobe:x:f+1"
        site = FileSite("uprobe", probe, "", (), 0, path, identity, address, 0)
        variables_at[address] = variables.locals_at(site)
    gdb.execute("set pagination off")
    gdb.execute("set confirm off")
    gdb.execute("set print frame-arguments none")
    gdb.execute("set debuginfod enabled off")
    gdb.execute("set height 0")
    gdb.execute("handle all nostop noprint pass", to_string=True)
    gdb.execute("set disable-randomization on")
    gdb.execute(f"file {path}")
    gdb.execute("set args " + " ".join(JOB["args"]) + " >/dev/null 2>&1 </dev/null")
    gdb.execute("starti", to_string=True)
    bias = 0
    for line in gdb.execute("info proc mappings", to_string=True).splitlines():
        words = line.split()
        if words and words[-1] == path:
            first = min(load.address & -4096 for load in Elf(path).loads)
            bias = int(words[0], 16) - first
            break
    BIAS[0] = bias
    STARTS.update(start for start in map(start_at, JOB["addresses"]) if start is not None)
    points = {}
    for address in JOB["addresses"]:
        if isinstance(variables_at[address], tuple):
            point = gdb.Breakpoint(f"*{address + bias:#x}", internal=True)
            points[address + bias] = point
    remaining = dict.fromkeys(points, JOB["stops"])
    stops: list[Any] = []
    if "names" in JOB:
        for unit in entries.units:
            from tracer.resolve.dwarf.types import type_of
            from tracer.resolve.dwarf.units.names import named as entries_named

            PAIR.extend(type_of(one, "key") for one in entries_named(entries, "pair", frozenset((0x13,)), unit))
        gdb.Breakpoint("finished", internal=True)
    limit = JOB.get("most", 100000)
    while limit:
        limit -= 1
        try:
            gdb.execute("continue", to_string=True)
        except gdb.error:
            break
        if not gdb.selected_inferior().pid or not gdb.selected_thread():
            break
        frame = gdb.newest_frame()
        pc = frame.pc()
        if pc not in points:
            if "names" in JOB and frame.name() == "finished":
                truth(stops)
                break
            continue
        address = pc - bias
        if "names" in JOB:
            stops.append(recorded(physical(frame), variables_at[address], pc, JOB["lines"][str(address)]))
            continue
        compare(frame, variables_at[address], pc, f"{frame.name()}+{address:#x}")
        remaining[pc] -= 1
        if not remaining[pc]:
            points[pc].delete()
            del points[pc]
            if not points:
                break
    if gdb.selected_inferior().pid:
        gdb.execute("kill", to_string=True)


with open(JOB["out"], "w") as _file:

    def OUT(report: dict[str, Any]) -> None:
        """Writes a line."""
        _file.write(json.dumps(report) + "\n")

    try:
        main()
    except gdb.error as error:
        OUT({"result": "gdb failed", "error": str(error)})
gdb.execute("quit")
