"""Dataclasses and named tuples that cost next to nothing until they are used.

The standard decorator writes and compiles half a dozen functions for every class when its module is imported. A run
imports 200 classes and makes objects of a fifth of them; compiling all would take a third of the time of
`BEGIN { exit(); }`. Here `__init__` is compiled when some objects have been made, and the other methods are not at all.
A named tuple is one class, made once, where the standard one costs as much as three dataclasses.

What this package uses of the standard module is here, under the same names, and type checkers see the standard one.
`fields`, `asdict` and their kin of that module work on these classes too. Every class has slots.

msgspec.Struct 0.22 was measured in its place (Python 3.11). It fills an object in 0.08 us where ours takes 0.25. But to
import it takes 10.5 ms of processor time and 2.6 MB, which a `BEGIN { exit(); }` of 102 ms would pay at each start. All
236 classes of that run and their objects take ours 3.3 ms. Its wheel has 225 KB, and 635 KB once installed.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

_T = TypeVar("_T")
_NONE = object()
_UNCOMPILED = 8
"""So many objects of a class are made without: compiling an `__init__` takes as long as filling forty."""
_made_so_far: dict[type, int] = {}


class _Field:
    """The definition of a field in a class; `_NONE` where there is no default."""

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
        return _slotted(cls, frozen)

    return decorate


def _slotted(cls: type, frozen: bool) -> type:
    namespace = dict(cls.__dict__)
    assert "__post_init__" not in namespace, "nobody would call it"
    names: dict[str, object] = {}
    for base in cls.__mro__[-2:0:-1]:
        names.update(base.__dict__.get("_fields_of_dataclass", ()))
    annotations = namespace.get("__annotations__", ())
    namespace["__slots__"] = tuple([name for name in annotations if name not in names])
    for name in annotations:
        names[name] = namespace.pop(name, _NONE)
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace["_fields_of_dataclass"] = names
    namespace["_is_frozen"] = frozen
    namespace["__match_args__"] = tuple(
        [name for name, default in names.items() if default.__class__ is not _Field or default.init]
    )
    slotted: Any = type(cls)(cls.__name__, cls.__bases__, {**(_FROZEN if frozen else _OPEN), **namespace, **_ALWAYS})
    slotted.__qualname__ = cls.__qualname__
    return slotted  # type: ignore[no-any-return]


def _first_init(self: object, *args: object, **named: object) -> None:
    """The `__init__` of a class of which there are few objects yet."""
    owner: Any = next(cls for cls in self.__class__.__mro__ if cls.__dict__.get("__init__") is _first_init)
    _made_so_far[owner] = number = _made_so_far.get(owner, 0) + 1
    if number > _UNCOMPILED or not _filled(self, owner._fields_of_dataclass, owner.__match_args__, args, named):
        owner.__init__ = _compiled_init(owner, _fields(owner), owner._is_frozen)
        owner.__init__(self, *args, **named)


def _filled(
    self: object, fields: dict[str, object], names: tuple[str, ...], args: tuple[object, ...], named: dict[str, object]
) -> bool:
    """Fills the fields of an object, but for what is wrong or more than a value or a default for each."""
    given = names[: len(args)]
    if len(args) > len(names) or len(names) != len(fields) or any([name in named for name in given]):
        return False
    values = {**fields, **dict(zip(given, args, strict=True)), **named}
    if len(values) != len(fields) or any([value is _NONE or value.__class__ is _Field for value in values.values()]):
        return False
    for name, value in values.items():
        object.__setattr__(self, name, value)
    return True


def _fields(cls: Any) -> dict[str, _Field]:
    rows = cls._fields_of_dataclass.items()
    return {name: default if isinstance(default, _Field) else _Field(default) for name, default in rows}


class _Values:
    """`_values(self)`: the fields of an object as one value. Found for a class when it is first asked for."""

    def __get__(self, instance: object, owner: Any) -> Callable[[Any], object]:
        names = tuple(owner._fields_of_dataclass)
        values: Callable[[Any], object] = attrgetter(*names) if names else _nothing
        owner._values = staticmethod(values)
        return values


def _nothing(self: object) -> tuple[()]:
    return ()


def _eq(self: Any, other: Any) -> Any:
    if self is other:
        return True
    values = self._values
    return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._values(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields_of_dataclass)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse(self: object, name: str, value: object = None) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field '{name}' of a frozen {self.__class__.__name__}")


class _Params:
    """The part of `__dataclass_params__` that pretty printers read."""

    repr = True


def _compiled_init(cls: Any, fields: dict[str, _Field], frozen: bool) -> Callable[..., None]:
    """An `__init__` as fast as one written by hand, faster than the standard one of a frozen class."""
    namespace: dict[str, Any] = {"_NONE": _NONE}
    parameters, lines = ["self"], []
    for name, field in fields.items():
        default, factory, init = field.default, field.factory, field.init
        value = name
        if factory is not None:
            namespace[f"_make_{name}"] = factory
            value = f"_make_{name}() if {name} is _NONE else {name}" if init else f"_make_{name}()"
        elif default is not _NONE:
            namespace[f"_default_{name}"] = default
        elif not init:
            continue
        if init:
            preset = "=_NONE" if factory is not None else f"=_default_{name}" if default is not _NONE else ""
            parameters.append(name + preset)
        elif factory is None:
            value = f"_default_{name}"
        namespace[f"_set_{name}"] = getattr(cls, name).__set__  # past `__setattr__`, which a frozen class closes
        lines.append(f"    _set_{name}(self, {value})" if frozen else f"    self.{name} = {value}")
    text = f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or ["    pass"])
    exec(text, namespace)  # the names are those of annotations: ours, and identifiers
    return namespace["__init__"]  # type: ignore[no-any-return]


class _StandardFields:
    """`__dataclass_fields__`, made when the standard module asks for it."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Any]:
        import dataclasses

        specified = []
        for name, field in _fields(owner).items():
            preset: dict[str, Any] = {} if field.default is _NONE else {"default": field.default}
            if field.factory is not None:
                preset = {"default_factory": field.factory}
            specified.append((name, Any, dataclasses.field(init=field.init, kw_only=True, **preset)))
        standard: Any = dataclasses.make_dataclass(owner.__name__, specified)
        return standard.__dataclass_fields__  # type: ignore[no-any-return]


class _NamedTupleMeta(type):
    """Makes the class of a `class Name(NamedTuple)`, a plain subclass of tuple."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        names = tuple(namespace.get("__annotations__", ()))
        defaults = {field: namespace[field] for field in names if field in namespace}
        getters = {field: _tuplegetter(index, None) for index, field in enumerate(names)}
        return type(
            name,
            (tuple,),
            {
                **_TUPLE, **namespace, **getters, "__slots__": (), "__match_args__": names, "_fields": names,
                "_field_defaults": defaults, "__new__": _first_new,
            },
        )  # fmt: skip


class _NamedTuple:
    """`typing.NamedTuple`."""

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (_NAMED_TUPLE,)


def _first_new(cls: Any, *args: object, **named: object) -> Any:
    """The `__new__` of a named tuple of which there is no object yet."""
    owner: Any = next(base for base in cls.__mro__ if base.__dict__.get("_fields"))
    names, defaults = owner._fields, owner._field_defaults
    preset = [f"{name}=_defaults[{name!r}]" if name in defaults else name for name in names]
    text = f"lambda _cls, {', '.join(preset)}: _new(_cls, ({', '.join(names)},))"
    new = eval(text, {"_new": tuple.__new__, "_defaults": defaults})  # the names are ours, and identifiers
    new.__name__, new.__qualname__ = "__new__", f"{owner.__name__}.__new__"
    owner.__new__ = staticmethod(new)
    return new(cls, *args, **named)


def _make(cls: Any, values: Iterable[object]) -> Any:
    row = tuple.__new__(cls, values)
    if len(row) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(row)}")
    return row


def _tuple_replace(self: Any, /, **changes: object) -> Any:
    changed = self._make([changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)])
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return changed


def _tuple_repr(self: Any) -> str:
    shown = ", ".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
    return f"{self.__class__.__name__}({shown})"


_NAMED_TUPLE: Any = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})
_TUPLE = {
    "__repr__": _tuple_repr, "__getnewargs__": lambda self: tuple(self), "_replace": _tuple_replace,
    "_make": classmethod(_make), "_asdict": lambda self: dict(zip(self._fields, self, strict=True)),
}  # fmt: skip


# Under the name of compiled text: by that pytest knows that an equality is one of the fields, and shows them apart.
_eq.__code__ = _eq.__code__.replace(co_filename="<string>")

_OPEN = {"__repr__": _repr, "__eq__": _eq, "__hash__": None}
_FROZEN = {"__repr__": _repr, "__eq__": _eq, "__hash__": _hash, "__setattr__": _refuse, "__delattr__": _refuse}
_ALWAYS = {
    "__init__": _first_init, "_values": _Values(), "__dataclass_fields__": _StandardFields(),
    "__dataclass_params__": _Params,
}  # fmt: skip
"""What a class gets unless it has its own, and what each gets."""


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass, field as field, replace as replace
    from typing import NamedTuple as NamedTuple
else:
    dataclass, field, replace, NamedTuple = _dataclass, _field, _replace, _NamedTuple()
