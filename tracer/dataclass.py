"""Dataclasses that cost next to nothing until they are used.

The standard decorator writes and compiles half a dozen functions for every class when its module is imported. A run
imports 150 classes and makes objects of a third of them; compiling all would take a third of the time of
`BEGIN { exit(); }`. Here `__init__` is compiled when the first object is made, and the other methods are not at all.

What this package uses of the standard module is here, under the same names, and type checkers see the standard one.
`fields`, `asdict` and their kin of that module work on these classes too. Every class has slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

_T = TypeVar("_T")
_NONE = object()


class _Field:
    """What a class says of one of its fields; `_NONE` where there is no default."""

    __slots__ = ("default", "factory", "init")

    def __init__(self, default: object, factory: Callable[[], object] | None = None, init: bool = True) -> None:
        self.default = default
        self.factory = factory
        self.init = init


def _field(
    *, default: object = _NONE, default_factory: Callable[[], object] | None = None, init: bool = True
) -> object:
    """`dataclasses.field`."""
    return _Field(default, default_factory, init)


def _replace(obj: _T, /, **changes: object) -> _T:
    """`dataclasses.replace`."""
    kept = {name: getattr(obj, name) for name in obj.__match_args__ if name not in changes}  # type: ignore[attr-defined]
    return obj.__class__(**kept, **changes)


def names(obj: object) -> tuple[str, ...]:
    """The names of an object's fields, in order."""
    return obj.__match_args__  # type: ignore[attr-defined, no-any-return]


def _dataclass(*, slots: bool, frozen: bool = False) -> Callable[[type], type]:
    """`dataclasses.dataclass`, for classes with slots."""
    assert slots

    def decorate(cls: type) -> type:
        return _made(cls, frozen)

    return decorate


def _made(cls: type, frozen: bool) -> type:
    namespace = dict(cls.__dict__)
    assert "__post_init__" not in namespace, "nobody would call it"
    fields: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        fields.update(base.__dict__.get("_fields_of_dataclass", ()))
    slots = [name for name in cls.__annotations__ if name not in fields]
    for name in cls.__annotations__:
        default = namespace.pop(name, _NONE)
        fields[name] = default if isinstance(default, _Field) else _Field(default)
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    names = tuple(fields)
    namespace["__slots__"] = tuple(slots)
    namespace["__match_args__"] = tuple(name for name, field in fields.items() if field.init)
    namespace["_fields_of_dataclass"] = fields
    namespace["__dataclass_fields__"] = _StandardFields()
    namespace["__dataclass_params__"] = _Params
    for name, method in _methods(names, frozen).items():
        namespace.setdefault(name, method)
    made: Any = type(cls)(cls.__name__, cls.__bases__, namespace)

    def first_init(self: object, *args: object, **named: object) -> None:
        made.__init__ = _compiled_init(made, fields, frozen)
        made.__init__(self, *args, **named)

    made.__init__ = first_init
    made.__qualname__ = cls.__qualname__
    return made  # type: ignore[no-any-return]


def _methods(names: tuple[str, ...], frozen: bool) -> dict[str, Any]:
    """What needs no code of its own for each class."""
    values: Callable[[Any], object] = attrgetter(*names) if names else lambda self: ()

    def __eq__(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(values(self))

    def __repr__(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    __eq__.__code__ = _eq_code(__eq__.__code__)
    if not frozen:
        return {"__repr__": __repr__, "__eq__": __eq__, "__hash__": None}
    closed = {"__setattr__": _refuse, "__delattr__": _refuse}
    return {"__repr__": __repr__, "__eq__": __eq__, "__hash__": __hash__, **closed}


class _Params:
    """What pretty printers ask of `__dataclass_params__`."""

    repr = True


@lru_cache(maxsize=1)
def _eq_code(code: CodeType) -> CodeType:
    """The same code under the name of compiled text: by that pytest knows that an equality is one of the fields, which
    it then shows one by one.
    """
    return code.replace(co_filename="<string>")


def _refuse(self: object, name: str, value: object = None) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field '{name}' of a frozen {self.__class__.__name__}")


def _compiled_init(made: Any, fields: dict[str, _Field], frozen: bool) -> Callable[..., None]:
    """An `__init__` as fast as one written by hand, faster than the standard one of a frozen class."""
    known: dict[str, Any] = {"_NONE": _NONE}
    parameters, lines = ["self"], []
    for name, field in fields.items():
        default, factory, init = field.default, field.factory, field.init
        value = name
        if factory is not None:
            known[f"_make_{name}"] = factory
            value = f"_make_{name}() if {name} is _NONE else {name}" if init else f"_make_{name}()"
        elif default is not _NONE:
            known[f"_default_{name}"] = default
        elif not init:
            continue
        if init:
            preset = "=_NONE" if factory is not None else f"=_default_{name}" if default is not _NONE else ""
            parameters.append(name + preset)
        elif factory is None:
            value = f"_default_{name}"
        known[f"_set_{name}"] = getattr(made, name).__set__  # past `__setattr__`, which a frozen class closes
        lines.append(f"    _set_{name}(self, {value})" if frozen else f"    self.{name} = {value}")
    text = f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or ["    pass"])
    exec(text, known)  # the names are those of annotations: ours, and identifiers
    return known["__init__"]  # type: ignore[no-any-return]


class _StandardFields:
    """`__dataclass_fields__`, made when the standard module asks for it."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Any]:
        import dataclasses

        rows: Iterable[tuple[str, _Field]] = owner._fields_of_dataclass.items()
        specified = []
        for name, field in rows:
            preset: dict[str, Any] = {} if field.default is _NONE else {"default": field.default}
            if field.factory is not None:
                preset = {"default_factory": field.factory}
            specified.append((name, Any, dataclasses.field(init=field.init, kw_only=True, **preset)))
        made: Any = dataclasses.make_dataclass(owner.__name__, specified)
        return made.__dataclass_fields__  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    dataclass, field, replace = _dataclass, _field, _replace
