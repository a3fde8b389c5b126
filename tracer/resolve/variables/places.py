"""The variables in scope at a place of the code, and where each is there.

The place is believed that debug information gives for the address. Where it gives one for the whole function, in its
frame, the code of the prologue tells whether the value is there already: see `frames`. A parameter that no instruction
has moved yet is where the calling convention puts it.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from functools import cached_property

from tracer.dataclass import replace
from tracer.kinds.arch import ARCHES
from tracer.kinds.site import REGISTER_ARGUMENT, REGISTERS_32, FileSite
from tracer.lang.types import IntType, PointerType, Type, is_block, memory_size
from tracer.lang.types.outside import Lines, Local, Parameter, Piece, Tree
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.parameters import parameters_at
from tracer.resolve.dwarf.functions import attribute, function_at, name_of, origins
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import location_at
from tracer.resolve.dwarf.units.unit import Entry
from tracer.resolve.elf.debug_file import find_debug_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.safety.code import Code
from tracer.resolve.unwind.unwind_tables import Tables
from tracer.resolve.variables.expressions import OPTIMISED_OUT, Around, Refused, pieces_of, plus
from tracer.resolve.variables.frames import FrameAt, frame_offset
from tracer.resolve.variables.scopes import Found, scopes_at, scopes_to, variables_in
from tracer.resolve.variables.text import Text, line_of

_ADDRESS = "debug information gives an address of the stack for its value"
_OF_OTHER = "nothing is said about the variables of"
_OF_BLOCK = "nothing is said about the variables of the line's block"
_NOT_YET = "not yet there"


class Variables:
    """The variables of the file of a path, by its debug information. What is known of a function is kept for the next
    place in it. `key` is the name by which types remember their file.
    """

    def __init__(self, path: str, entries: Entries, key: str) -> None:
        self._elf, self._entries, self._key = Elf(path), entries, key
        self._code = Code(self._elf, Symbols(self._elf, find_debug_file))
        self._tables = Tables(self._elf, find_debug_file)
        self._functions: dict[int, _Places] = {}

    def locals_at(self, site: FileSite) -> tuple[Local, ...] | None:
        """The variables in scope at a site, the innermost first; None where no debug information tells of the place."""
        places = self._around(site)
        return None if places is None else places.locals_at(site)

    def readable(self, site: FileSite, name: str) -> Lines | None:
        """The nearest lines of the function at which a variable can be read, at each place of the line."""
        places = self._around(site)
        return None if places is None else places.lines(site, name)

    def close(self) -> None:
        """Closes the file."""
        self._elf.close()

    def _around(self, site: FileSite) -> _Places | None:
        function = next((places.function for places in self._functions.values() if places.holds(site.address)), None)
        function = function or function_at(self._entries, site.address)
        if function is None:
            return None
        if function.id not in self._functions:
            self._functions[function.id] = _Places(self._code, self._tables, self._entries, function, self._key)
        return self._functions[function.id]


class _Places:
    """The variables of one function of a file, and their places."""

    def __init__(self, code: Code, tables: Tables, entries: Entries, function: Entry, key: str) -> None:
        self.elf, self.entries, self.function, self.key = code.elf, entries, function, key
        self.text = Text(entries, function)
        self.frame = FrameAt(function, code, tables, self.text.rows)

    def holds(self, address: int) -> bool:
        """Whether the function's code holds an address."""
        return any(start <= address < end for start, end in self.frame.ranges)

    # --- variables

    def locals_at(self, site: FileSite) -> tuple[Local, ...]:
        scopes = scopes_to(self.function, site.copy) if site.copy else scopes_at(self.function, site.address)
        other = self.text.begin(scopes, site)
        every = list(variables_in(scopes))
        if site.line and other:
            return tuple(replace(self._named(variable), reason=f"{_OF_OTHER} {other}") for variable in every)
        # A name means the outer variable until the inner one is declared.
        means: dict[str, Found] = {}
        for variable in sorted(every, key=lambda variable: self.text.behind(variable) < 0):
            means.setdefault(name_of(variable.entry), variable)
        locals_ = []
        # LLVM moves static variables of all blocks to the function's own: of two nothing says which one is meant.
        begun = (variable for variable in every if self.text.behind(variable) >= 0)
        twice = Counter((variable.scope.id, name_of(variable.entry)) for variable in begun)
        for variable in every:
            # No block hides a parameter where a copy begins.
            passed = site.copy != 0 and variable.level == 0 and variable.entry.tag == dw.PARAMETER
            several = twice[variable.scope.id, name_of(variable.entry)] > 1
            another = not passed and (several or self.text.is_another(variable))
            local = replace(self._named(variable), reason=_OF_BLOCK) if another else self._local(variable, site)
            locals_.append(replace(local, hidden=means[local.name] is not variable))
        return tuple(locals_)

    def _named(self, variable: Found) -> Local:
        """Returns the variable without its place."""
        entry = variable.entry
        return Local(
            name_of(entry), types.spelling(attribute(entry, dw.TYPE)), parameter=entry.tag == dw.PARAMETER,
            function=variable.function, level=variable.level, line=line_of(entry),
        )  # fmt: skip

    def _local(self, variable: Found, site: FileSite) -> Local:
        entry, local = variable.entry, self._named(variable)
        kind = attribute(entry, dw.TYPE)
        try:
            type = types.type_of(kind, self.key)
        except types.UnknownType as error:
            return replace(local, reason=error.message)
        below = types.plain(kind)
        size = _size(type)
        refers = below is not None and below.tag in dw.REFERENCES and isinstance(type, PointerType)
        target = type.target if isinstance(type, PointerType) and refers else None
        local = replace(local, type=target or type, reference=target is not None)
        try:
            pieces = self._pieces(variable, size, site)
            if isinstance(local.type, IntType) and not isinstance(type, PointerType):
                self._check_no_address(pieces, site.address)
            return replace(local, pieces=pieces)
        except Refused as error:
            return replace(local, reason=error.reason, pieces=error.pieces, early=error.reason == _NOT_YET)

    def _pieces(self, variable: Found, size: int, site: FileSite) -> tuple[Piece, ...]:
        """The pieces in which a variable is."""
        entry, address = variable.entry, site.address
        is_parameter = variable.scope is self.function and entry.tag == dw.PARAMETER
        for origin in origins(entry):
            if dw.CONST_VALUE in origin:
                return _constant(origin, size)
        stated = next((origin for origin in origins(entry) if dw.LOCATION in origin), None)
        expression = b"" if stated is None else location_at(stated, address) or b""
        listed = stated is not None and stated.block(dw.LOCATION) is None
        if is_parameter and address == self.frame.start:
            try:
                return self._as_passed(entry, site)
            except Refused:
                if not (listed and expression):
                    raise
        if stated is None or not expression:
            raise Refused(OPTIMISED_OUT)
        around = Around(
            address, self.elf.machine, stated.unit, lambda: self.frame.base(address), lambda: self.frame.cfa(address)
        )
        if not listed:  # one place for all the function
            self._check_there(variable, expression, address)
            offset = frame_offset(expression) if is_parameter else None
            if offset is not None and not self._is_moved(offset, size, address):
                return self._as_passed(entry, site)
        return pieces_of(expression, around, size)

    def _check_no_address(self, pieces: tuple[Piece, ...], address: int) -> None:
        """Refuses an address in the frame as the value of a number: LLVM forgets to say that what it has spilled has to
        be read there (seen in clang 14 at -O1, of what is converted).
        """
        stack = self.frame.registers(address)

        def is_cut(tree: Tree, cut: bool) -> bool:
            if tree[0] == "read":
                return False
            if tree in stack or (tree[0] == "+" and tree[1] in stack):
                return cut and tree[0] == "+"
            return any(is_cut(operand, tree[0] == "cast") for operand in tree if isinstance(operand, tuple))

        if any(not piece.memory and is_cut(piece.tree, True) for piece in pieces):
            raise Refused(_ADDRESS)

    # --- what is in the frame

    def _is_moved(self, offset: int, size: int, address: int) -> bool:
        """Whether a parameter has been stored to the place that it has in the frame."""
        slot = self.frame.slot(address, offset)
        if slot is not None and slot >= 0:
            return True  # the caller has put it there
        if not any(start <= address < end for start, end in self.frame.ranges if start == self.frame.start):
            return True
        if self.frame.in_entry_block(address):
            last = self.frame.stored(slot, size) if slot is not None else None
            if last is not None:
                return address > last
        return address >= self.frame.body > self.frame.start

    def _check_there(self, variable: Found, expression: bytes, address: int) -> None:
        """Refuses what its function has not come to, of what has one place in the frame."""
        offset = frame_offset(expression)
        if offset is None and expression[:1] != b"\x91":
            return
        slot = None if offset is None else self.frame.slot(address, offset)
        if slot is not None and slot < 0 and self.frame.is_below_the_stack(slot, address):
            raise Refused(_NOT_YET)
        if variable.entry.tag == dw.PARAMETER:
            return
        in_first = any(start <= address < end for start, end in self.frame.ranges if start == self.frame.start)
        if in_first and (address < self.frame.body or address == self.frame.start):
            raise Refused(_NOT_YET)
        if (behind := self.text.behind(variable)) < 0:
            raise Refused(_NOT_YET)
        if behind == 0 and address <= self.text.first_of_line.get(line_of(variable.entry), 0):
            raise Refused(_NOT_YET)

    # --- parameters as they were passed

    @cached_property
    def _passed(self) -> dict[str, Parameter] | str | None:
        site = self._entry_site
        parameters = parameters_at(self.entries, site, self.key)
        return {parameter.name: parameter for parameter in parameters} if isinstance(parameters, tuple) else parameters

    _entry_site: FileSite

    def _as_passed(self, entry: Entry, site: FileSite) -> tuple[Piece, ...]:
        """The registers in which the caller has passed a parameter, where they still hold it."""
        self._entry_site = replace(site, address=self.frame.start)
        passed = self._passed
        parameter = passed.get(name_of(entry)) if isinstance(passed, dict) else None
        if parameter is None:
            raise Refused(_NOT_YET)
        if parameter.reason:
            raise Refused(parameter.reason)
        arch, address = ARCHES[self.elf.machine], site.address
        go = self.function.unit.top.number(dw.LANGUAGE) == dw.GO
        registers = arch.go_args if go else arch.args
        if parameter.stack is not None:
            whole = plus(self.frame.cfa(address), parameter.stack - arch.stack_arg)
            size = arch.word if parameter.indirect else _size(parameter.type)
            pieces: tuple[Piece, ...] = (Piece(0, size, True, whole),)
        else:
            pieces = ()
            for offset, size, index, bit in parameter.pieces:
                if len(registers) <= index < REGISTER_ARGUMENT:
                    raise Refused(_NOT_YET)
                name = registers[index] if index < REGISTER_ARGUMENT else REGISTERS_32[index - REGISTER_ARGUMENT]
                if address != self.frame.start and not self.frame.keeps(name, address):
                    raise Refused(_NOT_YET)
                tree: Tree = ("reg", name)
                pieces += (Piece(offset, size, False, (">>", tree, ("const", bit)) if bit else tree),)
        if parameter.indirect:
            (piece,) = pieces
            address_of: Tree = ("read", arch.word, piece.tree) if piece.memory else piece.tree
            pieces = (Piece(0, _size(parameter.type), True, address_of),)
        return pieces

    # --- lines

    def lines(self, site: FileSite, name: str) -> Lines:
        """See `Variables.readable`."""
        row = self.text.row(site)
        here = row.line if row is not None else 0
        path = (row.path or "") if row is not None else ""
        good: dict[int, bool] = {}
        own_level = next((local.level for local in self.locals_at(site) if local.name == name), 0)
        for row in self.text.rows:
            if row.is_stmt and row.line and row.path == path and good.get(row.line, True):
                locals_ = self.locals_at(replace(site, address=row.address, probe=f"uprobe::{path}:{row.line}", copy=0))
                local = next((one for one in locals_ if one.name == name and not one.hidden), None)
                good[row.line] = local is not None and not local.reason and local.level == own_level
        lines = [line for line, all_good in good.items() if all_good and line != here]
        before = max((line for line in lines if line < here), default=0)
        after = min((line for line in lines if line > here), default=0)
        return Lines(f"{posixpath.basename(path)}:{here}" if path and here else "", before, after)


def _size(type: Type | None) -> int:
    return 8 if type is None else memory_size(type) if not is_block(type) else max(memory_size(type), 0)


def _constant(entry: Entry, size: int) -> tuple[Piece, ...]:
    """The parts of DW_AT_const_value."""
    block = entry.block(dw.CONST_VALUE)
    if block is None:
        value = entry.signed(dw.CONST_VALUE)
        if value is None:
            raise Refused("it is a constant that is not understood")
        block = (value % (1 << 64)).to_bytes(8, "little")
    block = block[:size].ljust(size, b"\0")
    return tuple(
        Piece(start, min(8, size - start), False, ("const", int.from_bytes(block[start : start + 8], "little")))
        for start in range(0, size, 8)
    )
