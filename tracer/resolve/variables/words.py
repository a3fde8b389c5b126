"""The lines of `tracer list -v` about variables: `total: int in eax`, `it: struct item* at rbp-24`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracer.kinds.arch import Arch
from tracer.kinds.registry import KINDS_OF_SITES
from tracer.kinds.site import FileIdentity, FileSite
from tracer.lang.types import PointerType
from tracer.lang.types.outside import INSIDE, Local, Piece, Tree
from tracer.resolve.dwarf.debug_info import DebugInfo
from tracer.resolve.usdt.words import register


class VariableTexts:
    """The words for the variables of one file; what was found is kept for the next run."""

    def __init__(self, path: str, identity: FileIdentity, arch: Arch) -> None:
        self._path, self._identity, self._arch = path, identity, arch
        self._info = DebugInfo([self._site("uprobe", "", 0)], finder=_places)

    def _site(self, kind: Any, probe: str, address: int) -> FileSite:
        return FileSite(kind, probe, "", (), 0, self._path, self._identity, address, 0)

    def line(self, kind: str, probe: str, address: int) -> int:
        """The line of source text that a probe names, else 0."""
        return self._site(kind, probe, address).line if KINDS_OF_SITES[kind].source_lines else 0

    def lines(self, kind: str, probe: str, address: int) -> Iterator[str]:
        """A line for each variable in scope at a place of a probe; none at a function's entry, where there are `args`,
        and where nothing is known.
        """
        if kind not in KINDS_OF_SITES:
            return
        site = self._site(kind, probe, address)
        if "return" in KINDS_OF_SITES[kind].reads:
            return
        if KINDS_OF_SITES[kind].enters and self._info.parameters(site) != INSIDE and not site.line:
            return
        variables = self._info.variables(site)
        for local in variables if isinstance(variables, tuple) else ():
            yield self._line(local, address)

    def _line(self, local: Local, address: int) -> str:
        name = local.name if not local.level else f"{local.name} (of {local.function})"
        where = f", {local.reason} here" if local.reason else f" {self._where(local, address)}"
        if local.reason and local.pieces:
            where += ", but for some members"
        hidden = "; an inner one of this name hides it" if local.hidden else ""
        return f"{name}: {local.text}{where}{hidden}"

    def _where(self, local: Local, address: int) -> str:
        if len(local.pieces) == 1:
            return self._piece(local.pieces[0], local, address)
        if not local.pieces:
            return "of no size"
        parts = [self._piece(piece, local, address).removeprefix("in ") for piece in local.pieces]
        return f"in {len(parts)} pieces: {', '.join(parts)}"

    def _piece(self, piece: Piece, local: Local, address: int) -> str:
        tree = piece.tree
        if piece.memory:
            return f"at {self._address(tree, address)}"
        if tree[0] == "reg":
            size = piece.size if piece.size in (1, 2, 4, 8) else self._arch.word
            return f"in {register(tree[1], size, self._arch)}"
        if tree[0] == "const":
            return f"always {_number(tree[1], piece.size, local)}"
        return f"computed: {self._address(tree, address)}"

    def _address(self, tree: Tree, address: int) -> str:
        match tree:
            case ("reg", name):
                return register(name, self._arch.word, self._arch)
            case ("const", number):
                return str(number)
            case ("here", distance):
                return f"{address + distance:#x} of the file"
            case ("read", size, pointer):
                return f"({size} bytes at {self._address(pointer, address)})"
            case ("cast", bits, _, inner):
                return f"{bits} bits of {self._address(inner, address)}"
            case ("+", base, ("const", number)):
                return f"{self._address(base, address)}{number:+d}"
        op, left, right = tree
        return f"({self._address(left, address)} {op.removesuffix('s')} {self._address(right, address)})"

    def close(self) -> None:
        """Keeps what was found, and closes the file."""
        self._info.keep()


def _number(value: int, size: int, local: Local) -> int:
    size = min(size, 8)
    value &= (1 << 8 * size) - 1
    signed = getattr(local.type, "signed", False) and not isinstance(local.type, PointerType)
    return value - (1 << 8 * size) if signed and value >> (8 * size - 1) else value


def _places() -> Any:
    from tracer.resolve.variables.places import Variables

    return Variables
