"""The copies of functions that were inlined, as debug information says, and where each begins.

A hit shall be a call. Debug information gives a copy one entry, and compilers make several of it: a loop of few rounds
is written out, and a way that is known already goes past the beginning. So a copy counts only where its code agrees
that everybody comes in there:

* no statement of it is reached from the function's start but through the entry's stretch of straight code;
* its first statement begins nowhere else in it;
* its code does not come back to the entry by itself, as where a loop's head is the first statement.

Source: DWARF 5, 3.3.8.2 (concrete inlined instances), 2.18 (entry addresses).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from tracer.dataclass import NamedTuple
from tracer.errors import printable
from tracer.kinds.site import FileIdentity
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.functions import linked_name, name_of, origin
from tracer.resolve.dwarf.lines.line_table import Row
from tracer.resolve.dwarf.lines.programs import ends_in
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.debug_entries import NONSENSE, entries_of
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import code_of, start_of
from tracer.resolve.dwarf.units.unit import Entry
from tracer.resolve.elf.file import Elf
from tracer.resolve.functions.function_lines import own_lines
from tracer.resolve.safety.code import Code, Range
from tracer.resolve.safety.disassembly import Instruction
from tracer.resolve.variables.text import Text, line_of

_NO_CODE = "nothing is left of it"
_SEVERAL = "it is entered at several places"
_LOOP = "its beginning is the head of a loop"


class Copy(NamedTuple):
    """A copy: the linker's name of its function, else the source's; the number of its entry; where it begins, 0 where
    `reason` says why it has no single entry; the function that holds it; and the line of the call, 0 where nothing
    says.
    """

    name: str
    id: int
    address: int
    reason: str
    caller: str
    line: int

    @property
    def where(self) -> str:
        """The place of the call in words, `main, line 36`."""
        return printable(self.caller) + (f", line {self.line}" if self.line else "")


Meant = Callable[[Collection[str]], Collection[str]]
"""Chooses among the names of all functions that were inlined."""


def copies_of(binary: Binary, meant: Meant, source: str | None = None) -> list[Copy]:
    """The copies of functions in a file, in order of address; with `source` of those that are declared in a source file
    whose path ends so. Raises `TracerError` where debug information is damaged.
    """
    try:
        every = _meant(binary, meant, source)
        copies = [copy for name, entry, text in every for copy in _copy(binary, name, entry, text)]
    except NONSENSE as error:
        raise binary.elf.error(f"its debug information cannot be read: {error}") from None
    return sorted(copies, key=lambda copy: (copy.address, copy.id))


def copied_lines(binary: Binary, meant: Meant, source: str, path: str) -> set[int]:
    """The lines of the same functions that their copies have, of a source file."""
    try:
        every = _meant(binary, meant, source)
        return {line for _, entry, text in every for line in own_lines(text, entry, path)}
    except NONSENSE as error:
        raise binary.elf.error(f"its debug information cannot be read: {error}") from None


def _meant(binary: Binary, meant: Meant, source: str | None) -> Iterator[tuple[str, Entry, Text]]:
    """The name and entry of each copy, and the text of the compiled function that holds it."""
    entries, by_name = _inlined(binary.path, binary.identity)
    texts: dict[int, Text] = {}
    for name in meant(by_name):
        for entry, holder in by_name[name]:
            if entries is None or _is_part(binary, holder, entry):
                continue
            if holder.id not in texts:
                texts[holder.id] = Text(entries, holder)
            text = texts[holder.id]
            if source is None or ends_in(text.file_of(entry), source):
                yield name, entry, text


_Inlined = tuple[Entry, Entry]
"""The entry of a copy, and that of the compiled function that holds it."""


@lru_cache(maxsize=4)
def _inlined(path: str, identity: FileIdentity) -> tuple[Entries | None, dict[str, list[_Inlined]]]:
    """The debug information of a file, and all copies that it tells of, by name."""
    entries, by_name = entries_of(Elf(path)), dict[str, list[_Inlined]]()
    for name, entry, holder in _every(entries) if entries is not None else ():
        by_name.setdefault(name, []).append((entry, holder))
    return entries, by_name


def _every(entries: Entries) -> Iterator[tuple[str, Entry, Entry]]:
    names: dict[int, str] = {}
    for unit in chain.from_iterable(entries.whole(unit) for unit in entries.units if not unit.type_at):
        around: list[tuple[int, Entry]] = []  # functions and the depth at which they stand
        for offset, depth, abbreviation in unit.walk():
            while around and around[-1][0] >= depth:
                around.pop()
            if abbreviation.tag == dw.SUBPROGRAM:
                around.append((depth, unit.entry(offset)))
            elif abbreviation.tag == dw.INLINED and around and dw.INLINE not in around[-1][1]:
                entry = unit.entry(offset)
                declared = entry.follow(dw.ABSTRACT_ORIGIN)
                if declared is not None:
                    name = names.get(declared.id)
                    if name is None:
                        name = names[declared.id] = linked_name(declared)
                    yield name, entry, around[-1][1]


def _is_part(binary: Binary, holder: Entry, entry: Entry) -> bool:
    """Whether a copy is no call, but in a part that GCC has split off its function, or such a part, put back: who
    runs that has come by the beginning.
    """
    start = start_of(holder)
    if start is None or origin(holder).id != origin(entry).id:
        return False
    if dw.ENTRY_PC not in entry and entry.number(dw.CALL_LINE) == line_of(entry):
        return True  # called where it is declared
    held = binary.symbols.function_at(start)
    return held is not None and ".part." in held.name


def _copy(binary: Binary, name: str, entry: Entry, text: Text) -> Iterator[Copy]:
    """A copy, if the linker has kept the code around it."""
    pieces = [(start, end) for start, end in code_of(entry) if start < end]
    begin = entry.address(dw.ENTRY_PC)
    if begin is None and (distance := entry.number(dw.ENTRY_PC)) is not None:
        begin = (start_of(entry) or 0) + distance
    caller, line = name_of(text.function), entry.number(dw.CALL_LINE) or 0
    held = start_of(text.function) if begin is None and not pieces else pieces[0][0] if begin is None else begin
    around = binary.code.range_at(held) if held and binary.code.executable(held) else None
    if around is None:
        return
    if begin is None and not pieces:
        yield Copy(name, entry.id, 0, _NO_CODE, caller, line)
        return
    path, declared = text.file_of(entry), line_of(entry)
    rows = [row for start, end in pieces for row in text.between(start, end)]
    statements = [row for row in rows if row.is_stmt and row.path == path and row.line >= declared]
    code = _code(binary.code, around)
    # Where no entry is stated it is where one of the pieces begins.
    begins = [start for start, _ in pieces] if begin is None else [begin]
    tried = {start: _fault(code, start, pieces, statements, declared) for start in begins}
    address = next((start for start, fault in tried.items() if not fault), 0)
    yield Copy(name, entry.id, address, "" if address else tried[begins[0]], caller, line)


def _fault(
    code: _Code, begin: int, pieces: Sequence[tuple[int, int]], statements: Sequence[Row], declared: int
) -> str:
    """Why a copy is not always entered there, and once for each call; "" where it is."""
    straight = code.straight(begin)
    here = [(row.line, row.column) for row in statements if row.address in straight]
    # GCC gives the beginning the line of the declaration, once for each time that it has made it.
    first = next((place for place in here if place[0] == declared), here[0] if here else None)
    others = [row for row in statements if row.address not in straight]
    if any(row.line == declared or (row.line, row.column) == first for row in others):
        return _SEVERAL
    if others:
        around_it = code.reached([code.start], lambda address: address not in straight)
        if any(row.address in around_it for row in others):
            return _SEVERAL

    def is_inside(address: int) -> bool:
        return address in straight or any(start <= address < end for start, end in pieces)

    return _LOOP if begin in code.reached(code.following(begin), is_inside) else ""


@lru_cache(maxsize=8)
def _code(code: Code, around: Range) -> _Code:
    return _Code(code.instructions(around))


class _Code:
    """The instructions of a function, and the ways through them. What a computed jump leads to is not known."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._all = instructions
        self._numbers = {instruction.address: number for number, instruction in enumerate(instructions)}
        self._targets = {instruction.target for instruction in instructions if instruction.jumps}

    @property
    def start(self) -> int:
        """The function's first instruction."""
        return self._all[0].address if self._all else 0

    def straight(self, address: int) -> set[int]:
        """The instructions that all run where the one at an address does, without a jump between them."""
        if address not in self._numbers:
            return {address}
        first = last = self._numbers[address]
        while first and self._all[first].address not in self._targets and self._goes_on(first - 1):
            first -= 1
        while self._goes_on(last) and last + 1 < len(self._all) and self._all[last + 1].address not in self._targets:
            last += 1
        return {instruction.address for instruction in self._all[first : last + 1]}

    def _goes_on(self, number: int) -> bool:
        return self._all[number].goes_on and not self._all[number].jumps

    def reached(self, pending: Iterable[int], taken: Callable[[int], bool]) -> set[int]:
        """The instructions that are reached from some of them on, on ways of which all instructions are taken."""
        reached: set[int] = set()
        pending = [*pending]
        while pending:
            address = pending.pop()
            if address not in reached and taken(address):
                reached.add(address)
                pending += self.following(address)
        return reached

    def following(self, address: int) -> Iterator[int]:
        """The instructions that may run right after one."""
        number = self._numbers.get(address)
        if number is not None:
            instruction = self._all[number]
            if instruction.goes_on and number + 1 < len(self._all):
                yield self._all[number + 1].address
            if instruction.jumps and instruction.target is not None and instruction.target in self._numbers:
                yield instruction.target
