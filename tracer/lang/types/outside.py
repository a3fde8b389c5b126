"""The answers that the debug information of the traced files gives the language."""

from __future__ import annotations

from typing import Any, Protocol

from tracer.dataclass import NamedTuple, dataclass
from tracer.kinds.site import FileSite
from tracer.lang.types import Type

INSIDE = "they are known only at a function's first instruction, and this is inside a function"
"""What `Outside.parameters` says of a place that is not a function's entry."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function, and where its value is when the function is entered.

    In `pieces` of registers: (byte offset in the value, size, index of the argument that is the register, bit); or at
    `stack` bytes above the stack pointer. `indirect`: what stands there is the value's address; `reference`: it is
    one in the program too, C++'s `T &`, whose `type` is T. `reason` says why it cannot be read: none of it, or only its
    `pieces` can. `text` is the type as the program has it.
    """

    name: str
    text: str
    type: Type | None = None
    pieces: tuple[tuple[int, int, int, int], ...] = ()
    stack: int | None = None
    indirect: bool = False
    reference: bool = False
    reason: str = ""


Tree = tuple[Any, ...]
"""How a number is found at a hit: `("reg", name)`; `("const", n)`; `("here", n)`, the place of the probe and so many
bytes; `("read", size, tree)`, the unsigned integer at an address; `("cast", bits, signed, tree)`, its lowest bits,
extended; or an operator with two trees, in 64 bits without sign. `>>s`, `<s` and their like read both as signed.
"""


class Piece(NamedTuple):
    """A part of a value, `size` bytes from `offset` on: what `tree` gives, or with `memory` what is at that address."""

    offset: int
    size: int
    memory: bool
    tree: Tree


@dataclass(frozen=True, slots=True)
class Local:
    """A variable or parameter in scope at a place of the code, and where its value is there.

    `reason` says why it cannot be read: none of it, or only its `pieces` can. `text` is the type as the program has it,
    `reference` as in `Parameter`. `function` is the one whose text declares it, `level` 0 in the innermost of those
    that were inlined there, 1 in its caller; `line` is where it is declared, 0 where nothing says. `hidden`: one of
    the same name is further inside. `early`: the reason is that the function has not come to it yet.
    """

    name: str
    text: str
    type: Type | None = None
    pieces: tuple[Piece, ...] = ()
    reference: bool = False
    reason: str = ""
    parameter: bool = False
    function: str = ""
    level: int = 0
    line: int = 0
    hidden: bool = False
    early: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """A place in the text, `shop.c:41`, and the nearest lines of the same function at which a variable can be read:
    `before` and `after`, 0 for none.
    """

    here: str
    before: int = 0
    after: int = 0


class Outside(Protocol):
    """The debug information of the traced files, looked up when somebody asks. Raises `TracerError`."""

    def type(self, name: str, sites: tuple[FileSite, ...]) -> Type | str | None:
        """The type of a name, as `Declared.find` has it: what it means in the functions of these sites, else in their
        files. Where it has several meanings, which they are.
        """

    def type_at(self, place: tuple[str, int]) -> Type | None:
        """The type at a place of a file (`NamedType.place`)."""

    def constant(self, name: str, sites: tuple[FileSite, ...]) -> int | str | None:
        """The value of an enumerator, likewise."""

    def parameters(self, site: FileSite) -> tuple[Parameter, ...] | str:
        """The parameters of the function that a site is the entry of; else why they are not known."""

    def no_result(self, site: FileSite) -> str:
        """The reason why the function at a site returns nothing; "" where it returns something, or nobody knows."""

    def result_type(self, site: FileSite) -> Type | str:
        """The type of what the function at a site returns in a general register; else why none is known."""

    def struct_result(self, site: FileSite) -> Parameter | None:
        """The struct that the function at a site returns: where it is then, in registers 0 and 1 of results, or at the
        address in the first. None where it is no struct, or none is known.
        """

    def is_in_two(self, site: FileSite) -> bool:
        """Whether the function of a 32-bit program that a site is in returns an integer of 64 bits."""

    def variable(self, site: FileSite, name: str) -> tuple[int, Type] | str:
        """A variable of the file of a site: its address less that of the site, and its type, which is an integer of its
        size where no debug information says it; else why it has none.
        """

    def variables(self, site: FileSite) -> tuple[Local, ...] | str:
        """The variables in scope at a site, the innermost first; else why they are not known."""

    def readable(self, site: FileSite, name: str) -> Lines:
        """The lines at which a variable can be read that cannot at a site."""
