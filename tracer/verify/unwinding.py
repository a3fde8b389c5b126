"""The unwind tables, as both read them: at the start of each row, and at a function's last byte, where the CFA and the
registers are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from elftools.dwarf.callframe import FDE, RegisterRule

from tracer.kinds.arch import ARCHES
from tracer.resolve.dwarf.sections import content
from tracer.resolve.dwarf.unwind_entries import Frame, Frames
from tracer.resolve.unwind import rules
from tracer.resolve.unwind.unwind_tables import DebugFrames
from tracer.verify.files import Both
from tracer.verify.findings import Findings

_DEF_CFA_SF = 0x12
_FindFrame = Callable[[int], Frame | None]
_KINDS = {
    RegisterRule.UNDEFINED: rules.UNDEFINED, RegisterRule.OFFSET: rules.OFFSET, RegisterRule.VAL_OFFSET: rules.VALUE,
    RegisterRule.REGISTER: rules.REGISTER, RegisterRule.EXPRESSION: rules.EXPRESSION,
    RegisterRule.VAL_EXPRESSION: rules.VALUE_EXPRESSION,
}  # fmt: skip


def unwinding(both: Both, findings: Findings) -> None:
    """Compares `.eh_frame`, then `.debug_frame`."""
    if both.elf.machine not in ARCHES:
        findings.count_reason("machine")
        return
    table = findings.theirs(both.unwind_table, ".eh_frame")
    if table is not None:
        _section(findings, Frames(both.elf).frame_at, table)
    table = findings.theirs(both.unwind_table, ".debug_frame")
    if table is not None:
        data = findings.ours(content, both.elf, ".debug_frame")
        if isinstance(data, str):
            findings.same(".debug_frame", data, "read", counts=False)
            return
        _section(findings, DebugFrames(data, both.elf.word).frame_at, table)


def _section(findings: Findings, find_frame: _FindFrame, info: Any) -> None:
    ranges: list[tuple[int, int]] = []
    differing = []
    try:
        for entry in _entries(findings, info):
            start, size = entry["initial_location"], entry["address_range"]
            if not start or not size:
                findings.count_reason("one place")
                continue
            ranges.append((start, start + size))
            table = findings.theirs(lambda entry=entry: entry.get_decoded().table)
            rows = {row["pc"]: row for row in table or () if start <= row["pc"] < start + size}
            if table is not None and not rows:
                findings.count_reason("unfinished")
            elif rows and not _compare(findings, find_frame, entry, rows, ""):
                differing.append((entry, rows))
    finally:
        for entry, rows in differing:
            _compare(findings, find_frame, entry, rows, _reason(entry, ranges))


def _reason(entry: Any, ranges: list[tuple[int, int]]) -> str:
    """Says why an entry may differ; "none" for no known reason."""
    start, end = entry["initial_location"], entry["initial_location"] + entry["address_range"]
    if sum(first < end and start < last for first, last in ranges) > 1:
        return "one place"
    return "signed factor" if any(
        instruction.opcode == _DEF_CFA_SF for one in (entry.cie, entry) for instruction in one.instructions
    ) else "none"  # fmt: skip


def _entries(findings: Findings, info: Any) -> Iterator[Any]:
    """The functions' entries. pyelftools reads all of a section at once: here one by one, so that its time is bounded
    and one that it cannot read costs no other.
    """
    offset = 0
    while offset + 4 <= info.size:
        info.stream.seek(offset)
        length = int.from_bytes(info.stream.read(4), "little")
        entry = findings.theirs(info._parse_entry_at, offset)
        if isinstance(entry, FDE):
            yield entry
        if length == 0xFFFFFFFF:
            length = int.from_bytes(info.stream.read(8), "little") + 8
        offset += 4 + length


def _compare(
    findings: Findings, find_frame: _FindFrame, entry: Any, rows: dict[int, dict[Any, Any]], reason: str
) -> bool:
    """Compares the rows of an entry. Without a `reason`, nothing is said of an entry that differs."""
    start, size = entry["initial_location"], entry["address_range"]
    last = rows[max(rows)]
    pairs = [
        (address, _ours(find_frame(address), address), _theirs(rows.get(address, last), entry))
        for address in sorted({*rows, start + size - 1})
    ]
    if not reason and any(mine != other for _, mine, other in pairs):
        return False
    for address, mine, other in pairs:
        findings.same(f"the rule at {address:#x}", mine, other, reason if reason != "none" else "")
    return True


def _ours(frame: Frame | None, address: int) -> object:
    """The range of the entry, the CFA, the registers, and which of them is the return address."""
    rule = None if frame is None else rules.rule_at(frame.common, frame.program, frame.start, address)
    if frame is None or rule is None:
        return None
    cfa = rule.expression if rule.expression is not None else (rule.register, rule.offset)
    return frame.start, frame.size, cfa, dict(sorted(rule.saved.items())), rule.return_register


def _theirs(row: dict[Any, Any], entry: Any) -> object:
    rule = row["cfa"]
    cfa = bytes(rule.expr) if rule.expr is not None else (rule.reg, rule.offset)
    saved = {}
    for register in sorted(key for key in row if isinstance(key, int)):
        how = row[register]
        if how.type != RegisterRule.SAME_VALUE:
            value = how.arg if how.arg is not None else 0
            saved[register] = (_KINDS[how.type], value if isinstance(value, int) else bytes(value))
    if rule.reg is None and rule.expr is None:
        return None
    return entry["initial_location"], entry["address_range"], cfa, saved, entry.cie["return_address_register"]
