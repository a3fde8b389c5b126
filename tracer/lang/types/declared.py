"""Types that have a name: those of the language, those that a program declares, and those of the traced files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from tracer.dataclass import dataclass, field
from tracer.lang.types import INT64, INTEGER_TYPES, BoolType, CharType, IntType, NamedType, Type

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite
    from tracer.lang.types.outside import Outside

_words = str.split

USUAL: dict[str, IntType | BoolType] = {
    **INTEGER_TYPES,
    **{f"{prefix}{sign}{bits}": IntType(bits, sign == "s") for prefix in ("", "__") for sign in "su"
       for bits in (8, 16, 32, 64)},
    **dict.fromkeys(_words("ssize_t ptrdiff_t intptr_t time_t off_t loff_t clock_t"), IntType(64, True)),
    **dict.fromkeys(_words("ino_t dev_t nlink_t rlim_t"), IntType(64, False)),
    **dict.fromkeys(_words("pid_t clockid_t key_t wchar_t"), IntType(32, True)),
    **dict.fromkeys(_words("uid_t gid_t mode_t socklen_t"), IntType(32, False)),
    **dict.fromkeys(_words("sa_family_t in_port_t"), IntType(16, False)),
}  # fmt: skip
"""Types that nobody declares or includes a header for."""

_INTEGER_WORDS = frozenset(_words("char short int long signed unsigned _Bool bool"))


def integer_of(words: list[str]) -> IntType | None:
    """The type of C's own words in any order, `long unsigned int`; None where one is another. C's bool is an integer,
    0 or 1, as bpftrace has it.
    """
    if not _INTEGER_WORDS.issuperset(words):
        return None
    if "_Bool" in words or "bool" in words:
        return IntType(8, False)
    signed = "unsigned" not in words
    if "char" in words:
        return CharType() if signed and "signed" not in words else IntType(8, signed)
    return IntType(16 if "short" in words else 64 if "long" in words else 32, signed)


class OfKernel(Protocol):
    """The types of the running kernel."""

    def type(self, name: str) -> Type | None:
        """The type of a name as C writes it; None where there is none."""

    def type_at(self, number: int) -> Type | None:
        """The type with a number; None for one that the language does not have."""

    def constant(self, name: str) -> int | None:
        """The value of an enumerator."""

    def to(self, name: str) -> NamedType | None:
        """What a pointer to the type of a name leads to; None where there is none."""


OF_KERNEL = "/sys/kernel/btf/vmlinux"
"""The place of the kernel's types (`NamedType.place`), where it describes itself."""


@dataclass(frozen=True, slots=True)
class Declared:
    """`types` by name as C writes it: `struct sock`, `union u`, `enum e`, or a typedef's bare name. `constants` are the
    names of enumerators and of `#define`s of numbers, each with its type. `outside`: what the program does not declare,
    as it is known at `sites`; `kernel`: what no program has part in.
    """

    types: Mapping[str, Type] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, Type]] = field(default_factory=dict)
    outside: Callable[[], Outside] | None = None
    sites: tuple[FileSite, ...] = ()
    kernel: Callable[[], OfKernel | None] = lambda: None

    def find(self, name: str) -> Type | str | None:
        """The type of a name, None where there is none; where it has several meanings, which they are."""
        type: Type | str | None = self.types.get(name) or USUAL.get(name) or integer_of(name.split())
        if type is None and self.outside is not None:
            type = self.outside().type(name, self.sites)
        # At a place in a program a name means a type of that program: the kernel has another of many names.
        if type is None and not self.sites and (kernel := self.kernel()) is not None:
            type = kernel.type(name)
        return type

    def complete(self, type: Type) -> Type | None:
        """A type that can be read: what a pointer leads to, looked up where it is known by name alone."""
        if not isinstance(type, NamedType):
            return type
        if type.place is not None and type.place[0] == OF_KERNEL:
            kernel = self.kernel()
            return None if kernel is None else kernel.type_at(type.place[1])
        if type.place is None or type.name in self.types or self.outside is None:
            complete = self.find(type.name)
            return None if isinstance(complete, str) else complete
        return self.outside().type_at(type.place)

    def constant(self, name: str) -> tuple[int, Type] | str | None:
        """The value of an enumerator, and its type; where it has several, which they are."""
        constant = self.constants.get(name)
        if constant is not None:
            return constant
        value = None if self.outside is None else self.outside().constant(name, self.sites)
        if value is None and not self.sites and (kernel := self.kernel()) is not None:
            value = kernel.constant(name)
        return (value, INT64) if isinstance(value, int) else value
