"""Functions that the kernel calls back from another: for each element of a map, for each round of a loop.

A body becomes such a function, and what it uses of its caller travels in a struct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from tracer.backends.bcc.codegen.c import C
from tracer.backends.bcc.codegen.function import ROUNDS, STACK_BUDGET, CFunction
from tracer.backends.bcc.host.callbacks import Kind, name_of
from tracer.dataclass import NamedTuple


class Callback(NamedTuple):
    """A function that the kernel calls back: its number and name, and the name of the struct that it is given. `used`
    are the variables of the caller that it reads, `changed` those that it assigns; `leaves`: it can end the clause.
    """

    number: int
    name: str
    given: str
    used: tuple[str, ...]
    changed: tuple[str, ...]
    leaves: bool


_OF_ONE_TEXT = ("lines", "declarations", "leaves", "unreadable", "depth", "walking", "quick", "stack", "variables")
"""What a function that is called back has apart from its caller."""

_EVERYWHERE = {
    "ctx": "struct pt_regs *", "control": "struct control *", "scratch": "struct scratch *", "site": "const u64 *",
}  # fmt: skip
"""The variables of every function, where it needs them."""


def callback(
    function: CFunction, body: Callable[[], None], element: bool, more: Iterable[str] = (), given: str = ""
) -> Callback:
    """Makes what `body` writes a function that the kernel calls back, for each `element` of a map or each round of
    a loop, on what it is `given`: the name of the struct of another one like it, or one of its own, which has
    `more` numbers.
    """
    number, function.made_callbacks = function.made_callbacks, function.made_callbacks + 1
    kind: Kind = "each" if element else "quick" if function.quick else "round"
    name = name_of(f"probe_{function.variant.id}", kind, number)
    outer = {field: getattr(function, field) for field in _OF_ONE_TEXT}
    function.lines, function.declarations, function.leaves, function.unreadable = [], [], False, False
    function.depth, function.walking, function.quick = 1, True, kind != "round"
    function.stack, function.variables = STACK_BUDGET, dict(function.variables)
    body()
    statements = [*function.declarations, *function.lines]
    leaves, lost = function.leaves or function.unreadable, function.unreadable
    for field, value in outer.items():
        setattr(function, field, value)
    words = set(re.findall(r"\w+", " ".join(statements)))
    words |= {"ctx", "control", *(["site"] if function.many and "SITE_WORD" in words else [])}  # what macros use
    types = {**_EVERYWHERE, **function.variables}
    used = {variable: f"{type} ".replace("* ", "*") for variable, type in types.items() if variable in words}
    changed = tuple(variable for variable in used if variable in function.changing)
    # A number that is compared makes each round another one for the verifier, if it knows the number.
    hidden, nothing = ({ROUNDS}, "NOTHING_OF_ELEMENT(control)") if element else (set(changed), "NOTHING")
    first = ("*key", "*value") if element else ("round",)
    text = [
        *([f"struct {name} {{"] if not given else []),
        *([f"\tu64 {', '.join((*first, 'ended', *more))};"] if not given else []),
        *(f"\t{type}{variable};" for variable, type in used.items() if not given),
        *(["};", ""] if not given else []),
        f"int {name}(void *given)",
        "{",
        f"\tstruct {given or name} *each = given;",
        *(f"\t{type}{name} = each->{name}{f' ^ {nothing}' * (name in hidden)};" for name, type in used.items()),
        "\tu64 ended = 0;",
        "",
        *statements,
        *(["\tgoto next;"] if leaves else []),
        *(["unreadable:", "\tlose(LOST_UNREADABLE);"] if lost else []),
        *(["done:", "\tended = LEFT;"] if leaves else []),
        "next:",
        *(f"\teach->{variable} = {variable};" for variable in changed),
        "\teach->ended = ended;",
        "\treturn ended != 0;",
        "}",
    ]
    function.callbacks.append("\n".join(text) + "\n")
    return Callback(number, name, given or name, tuple(used), changed, leaves)


def given_to(function: CFunction, called: Callback, more: Mapping[str, str] = MappingProxyType({})) -> str:
    """The struct for a function that is called back, with the values that it begins with; its name."""
    given = function.name("each")
    values = {**{name: name for name in called.used}, **more}
    initial = ", ".join(f".{name} = {value}" for name, value in values.items())
    function.line(f"struct {called.given} {given} = {{{initial or '.ended = 0'}}};")
    return given


def taken_from(function: CFunction, called: Callback, given: str) -> None:
    """Takes what was assigned there; ends the clause where that was wanted."""
    for name in called.changed:
        function.line(f"{name} = {given}.{name};")
    if called.leaves:
        function.leave(C(f"{given}.ended == LEFT", "bool"))
