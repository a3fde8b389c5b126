"""What the debug information of the traced files tells the language."""

from __future__ import annotations

from typing import Protocol

from tracer.dataclass import dataclass
from tracer.lang.types import Type
from tracer.probes.site import FileSite


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


class Outside(Protocol):
    """The debug information of the traced files, looked up when somebody asks. Raises `TracerError`."""

    def type(self, name: str, sites: tuple[FileSite, ...]) -> Type | str | None:
        """The type of a name, as `Declared.find` has it: what it means in the functions of these sites, else in their
        files. Where it has several meanings, which they are.
        """

    def at(self, place: tuple[str, int]) -> Type | None:
        """The type at a place of a file (`NamedType.place`)."""

    def constant(self, name: str, sites: tuple[FileSite, ...]) -> int | str | None:
        """The value of an enumerator, likewise."""

    def parameters(self, site: FileSite) -> tuple[Parameter, ...] | str:
        """The parameters of the function that a site is the entry of; else why they are not known."""

    def no_result(self, site: FileSite) -> str:
        """Why the function that a site is in returns nothing; "" where it returns something, or nobody knows."""

    def variable(self, site: FileSite, name: str) -> tuple[int, Type] | str:
        """A variable of the file of a site: its address less that of the site, and its type, which is an integer of its
        size where no debug information says it; else why it has none.
        """
