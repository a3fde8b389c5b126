"""Typed expressions → C numbers. What is wider than a number (strings, tuples, stacks) is in `wide`."""

from __future__ import annotations

from tracer.backends.bcc.codegen import maps, wide
from tracer.backends.bcc.codegen.arguments import argument, return_value
from tracer.backends.bcc.codegen.frame import Frame, c_type, literal, scalar
from tracer.backends.bcc.maps.layout import size_of
from tracer.lang.typed import (
    Arg,
    Binary,
    BoolLit,
    Builtin,
    Cast,
    Expr,
    HasKey,
    IntLit,
    Load,
    MapGet,
    MapIncr,
    MapLen,
    Retval,
    Strcontains,
    Strftime,
    Strlen,
    Strncmp,
    Ternary,
    TupleItem,
    Unary,
    Var,
    VarIncr,
)
from tracer.lang.types import BoolType, IntType, StringType, TupleType, Type

_BUILTINS = {
    "pid": "process_id()",
    "tid": "thread_id()",
    "uid": "(u32)current_uid_gid()",
    "username": "(u32)current_uid_gid()",
    "gid": "current_uid_gid() >> 32",
    "cpu": "current_cpu()",
    "nsecs": "boot_ns()",
    "cpid": "control->cpid",
}


def value(frame: Frame, expr: Expr) -> str:
    """The C expression of a number (or bool) of exactly `expr.type`."""
    match expr:
        case IntLit(value=number):
            return literal(number, expr.type)
        case BoolLit(value=truth):
            return "1ULL" if truth else "0ULL"
        case Builtin(name=name):
            return builtin(frame, name)
        case Arg():
            return argument(frame, expr)
        case Retval():
            return f"(u64){return_value()}"
        case Var(slot=slot):
            held = frame.slots[slot]
            assert isinstance(held, str)
            return held
        case MapGet():
            return maps.get(frame, expr)
        case MapLen(map=name):
            return f"({c_type(expr.type)}){maps.length(frame, name)}"
        case HasKey():
            return maps.has_key(frame, expr)
        case MapIncr():
            return maps.increment(frame, expr)
        case VarIncr():
            return _increment(frame, expr)
        case Unary():
            return _unary(frame, expr)
        case Binary():
            return _binary(frame, expr)
        case Ternary():
            return _ternary(frame, expr)
        case Cast(operand=operand):
            return cast(value(frame, operand), operand.type, expr.type)
        case Load():
            return _load(frame, expr)
        case Strftime(nanoseconds=nanoseconds):
            return value(frame, nanoseconds)
        case TupleItem():
            return item(frame, expr)
        case Strncmp():
            return f"(u64)!{wide.same_start(frame, expr)}"
        case Strlen():
            return wide.length(frame, expr)
        case Strcontains():
            return wide.contains(frame, expr)
        case _:
            raise AssertionError(f"{type(expr).__name__} is no number")


def truth(frame: Frame, expr: Expr) -> str:
    """An expression as the condition between the parentheses of `if (…)`."""
    return _bare(value(frame, expr))


def _bare(text: str) -> str:
    """Without the cast that makes a comparison a number, and without outer parentheses."""
    if text.startswith(("(u64)(", "(u64)!")):
        text = text[len("(u64)") :]
    while text.startswith("(") and _closes_at_end(text):
        text = text[1:-1]
    return text


def cast(text: str, source: Type, target: Type) -> str:
    """Between integers and bools."""
    if source == target:
        return text
    if isinstance(target, BoolType):
        return f"(u64)({text} != 0)"
    return f"({c_type(target)}){_operand(text)}"


def builtin(frame: Frame, name: str) -> str:
    """A built-in that is a number: read once in each block that uses it."""
    if name == "elapsed":
        return f"({builtin(frame, 'nsecs')} - control->started)"
    known = frame.known(name)
    if known is not None:
        return known
    return frame.remember(name, frame.temporary("u64", _BUILTINS[name], name if name != "cpu" else "cpu_"))


def _operand(text: str) -> str:
    """Parenthesised where it is more than a name, a literal or a call."""
    simple = text.isidentifier() or (text.startswith("(") and _closes_at_end(text)) or text.rstrip("UL").isdigit()
    return text if simple else f"({text})"


def _closes_at_end(text: str) -> bool:
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _increment(frame: Frame, expr: VarIncr) -> str:
    held = frame.slots[expr.slot]
    assert isinstance(held, str)
    before = "" if expr.prefix else frame.temporary(c_type(expr.type), held)
    frame.line(f"{held} += {expr.delta:d};")
    return frame.temporary(c_type(expr.type), held) if expr.prefix else before


def _unary(frame: Frame, expr: Unary) -> str:
    operand = _operand(value(frame, expr.operand))
    if expr.op == "!":
        return f"(u64)!{operand}"
    return f"({c_type(expr.type)})({expr.op}{operand})"


_WIDE = {True: "s64", False: "u64"}


def _binary(frame: Frame, expr: Binary) -> str:
    if expr.op in ("&&", "||"):
        return _logical(frame, expr)
    if isinstance(expr.left.type, StringType):
        equal = wide.same_text(frame, expr.left, expr.right)
        return f"(u64)({equal})" if expr.op == "==" else f"(u64)!({equal})"
    if isinstance(expr.left.type, TupleType):
        equal = wide.same_words(frame, expr.left, expr.right)
        return f"(u64)({equal})" if expr.op == "==" else f"(u64)!({equal})"
    left = value(frame, expr.left)
    mark = frame.mark()
    right = _operand(value(frame, expr.right))
    left = _operand(frame.settle(mark, c_type(expr.left.type), left))
    if isinstance(expr.type, BoolType):
        return f"(u64)({left} {expr.op} {right})"
    kind = expr.type
    assert isinstance(kind, IntType)
    name, word = c_type(kind), _WIDE[kind.signed]
    match expr.op:
        case "/" | "%":
            function = {"/": "divide", "%": "remainder"}[expr.op] + ("_signed" if kind.signed else "")
            text = f"{function}({left}, {right})"
        case "<<" | ">>":
            # In 64 bits: the count goes modulo 64 whatever the type's width.
            text = f"(({word}){left} {expr.op} ({right} & 63))"
        case _:
            text = f"({left} {expr.op} {right})"
    return text if kind.bits == 64 else f"({name}){text}"


def _logical(frame: Frame, expr: Binary) -> str:
    """`&&` and `||`: C's own where the right side needs no statements, else spelled out."""
    left = truth(frame, expr.left)
    mark = frame.mark()
    trial_name = frame.name("t")
    head = f"if ({left})" if expr.op == "&&" else f"if (!{_operand(left)})"
    start = "0" if expr.op == "&&" else "1"
    frame.line(f"u64 {trial_name} = {start};")
    with frame.block(head):
        inner = frame.mark()
        right = truth(frame, expr.right)
        pure = frame.mark() == inner
        frame.line(f"{trial_name} = !!{_operand(right)};")
    if pure:
        del frame.lines[mark:]
        return f"(u64)({_operand(left)} {expr.op} {_operand(right)})"
    return trial_name


def _ternary(frame: Frame, expr: Ternary) -> str:
    name = frame.name("t")
    condition = truth(frame, expr.condition)
    mark = frame.mark()
    frame.line(f"{c_type(expr.type)} {name};")
    with frame.block(f"if ({condition})"):
        inner = frame.mark()
        then = value(frame, expr.then)
        pure = frame.mark() == inner
        frame.line(f"{name} = {then};")
    with frame.block("else"):
        inner = frame.mark()
        otherwise = value(frame, expr.otherwise)
        pure = pure and frame.mark() == inner
        frame.line(f"{name} = {otherwise};")
    if pure:
        del frame.lines[mark:]
        return f"({_operand(condition)} ? {_operand(then)} : {_operand(otherwise)})"
    return name


def _load(frame: Frame, expr: Load) -> str:
    address = value(frame, expr.address)
    kind = c_type(expr.type)
    name = frame.temporary(kind, "0", "loaded")
    frame.reads_memory = True
    frame.line(f"if (read_user(&{name}, sizeof({name}), {address}))")
    frame.line("\t" + frame.leave_unreadable())
    return name


def item(frame: Frame, expr: TupleItem) -> str:
    """A number out of a tuple."""
    buffer, word = wide.item_place(frame, expr)
    assert scalar(expr.type) and size_of(expr.type) == 8
    return f"({c_type(expr.type)})({buffer.name})[{word}]"
