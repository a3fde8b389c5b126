"""Typed statements → C statements."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.bcc.codegen import expressions, maps, records, wide
from tracer.backends.bcc.codegen.frame import Buffer, Frame, c_type, scalar
from tracer.backends.bcc.events.records import Record
from tracer.lang.typed import (
    LOOP_LIMIT,
    Aggregate,
    Break,
    Clear,
    Continue,
    Delete,
    Exit,
    ExprStmt,
    ForRange,
    If,
    MapAdd,
    MapSet,
    Printf,
    PrintMap,
    PrintValue,
    Return,
    Stmt,
    Time,
    VarSet,
    While,
    Zero,
)
from tracer.lang.types import StringType


def run(frame: Frame, body: Sequence[Stmt]) -> None:
    """Writes a list of statements."""
    ended: dict[int, str] = {}
    for index, stmt in enumerate(body):
        if isinstance(stmt, PrintMap):
            _print_map(frame, body, index, stmt, ended)
        elif isinstance(stmt, Clear | Zero):
            before = ended.get(index) or records.raise_mark(frame, stmt.map, _RAISES[type(stmt)])
            frame.forget_map(stmt.map)
            records.raised(frame, Record("clear" if isinstance(stmt, Clear) else "zero", map=stmt.map), before)
        else:
            _statement(frame, stmt)


_RAISES: dict[type[Stmt], str] = {Clear: "CLEARED", Zero: "ZEROED"}


def _print_map(frame: Frame, body: Sequence[Stmt], index: int, stmt: PrintMap, ended: dict[int, str]) -> None:
    """`print(@x)`. Where `clear(@x)` or `zero(@x)` follows, both must mean one moment: else the hits of other threads
    in between would be in no print. So the map is cleared first, which gives a mark to this thread alone, and what is
    printed is what carries that mark.
    """
    before = None
    for after in range(index + 1, len(body)):
        following = body[after]
        if isinstance(following, Clear | Zero) and following.map == stmt.map:
            if after not in ended:
                ended[after] = records.raise_mark(frame, stmt.map, _RAISES[type(following)])
            before = ended[after]
            break
        if not isinstance(following, PrintMap | Clear | Zero | Time):
            break
    records.print_map(frame, Record("map", map=stmt.map, top=stmt.top, div=stmt.div, ended=before is not None), before)


def _statement(frame: Frame, stmt: Stmt) -> None:
    match stmt:
        case VarSet():
            _assign(frame, stmt)
        case MapSet():
            maps.assign(frame, stmt)
        case MapAdd():
            maps.add(frame, stmt)
        case Aggregate():
            maps.aggregate(frame, stmt)
        case Delete():
            maps.delete(frame, stmt)
        case ExprStmt(expr=expr):
            if scalar(expr.type):
                expressions.value(frame, expr)
            else:
                wide.pointer(frame, expr)
        case If():
            _if(frame, stmt)
        case While():
            _while(frame, stmt)
        case ForRange():
            _for_range(frame, stmt)
        case Return():
            frame.line(frame.leave())
        case Break():
            frame.line("break;")
        case Continue():
            frame.line("continue;")
        case Printf(format=index, args=args):
            records.send(frame, Record("printf", index, tuple(arg.type for arg in args)), args)
        case PrintValue(shape=index, value=value):
            records.send(frame, Record("value", index, (value.type,)), (value,))
        case Time(format=index):
            records.send(frame, Record("time", index), ())
        case Exit(code=code):
            frame.line(f"control->exiting = {(code & 0xFFFF_FFFF) + 1:d}ULL;")
            records.control(frame, Record("exit", code))
            frame.line(frame.leave())
        case _:
            raise AssertionError(f"{type(stmt).__name__} cannot stand in a probe")
    if isinstance(stmt, MapSet | MapAdd | Aggregate | Delete):
        frame.forget_map(stmt.map)


def _assign(frame: Frame, stmt: VarSet) -> None:
    held = frame.slots[stmt.slot]
    if isinstance(held, str):
        frame.line(f"{held} = {expressions.value(frame, stmt.value)};")
        return
    kind = frame.clause.slots[stmt.slot]
    # Through another buffer: the value may be made of the variable itself.
    source = wide.pointer(frame, stmt.value)
    if source.name == held.name:
        return
    if isinstance(kind, StringType):
        wide.copy_text(frame, source, held, kind)
    else:
        wide.copy_words(frame, source, held, kind)


def declare_slots(frame: Frame) -> None:
    """The scratch variables: 0 or empty at each hit."""
    for number, kind in enumerate(frame.clause.slots):
        if scalar(kind):
            frame.slots.append(f"v{number}")
            frame.declarations.append(f"{c_type(kind)} v{number} = 0;")
        else:
            frame.slots.append(frame.buffer_for(kind, "held"))


def clear_slots(frame: Frame) -> None:
    """Empties the variables that are no numbers."""
    for held, kind in zip(frame.slots, frame.clause.slots, strict=True):
        if isinstance(held, Buffer):
            wide.clear(frame, held, kind)


def _if(frame: Frame, stmt: If) -> None:
    with frame.block(f"if ({expressions.truth(frame, stmt.condition)})"):
        run(frame, stmt.then)
    if stmt.otherwise:
        with frame.block("else"):
            run(frame, stmt.otherwise)


def _while(frame: Frame, stmt: While) -> None:
    rounds = frame.name("round")
    frame.forget_map()  # what the last round read may have been changed by it
    frame.line("#pragma clang loop unroll(disable)")
    with frame.block(f"for (u32 {rounds} = 0;; {rounds}++)"):
        condition = expressions.truth(frame, stmt.condition)
        frame.line(f"if (!({condition}))")
        frame.line("\tbreak;")
        _limit(frame, rounds)
        run(frame, stmt.body)


def _for_range(frame: Frame, stmt: ForRange) -> None:
    kind = stmt.start.type
    held = frame.slots[stmt.slot]
    assert isinstance(held, str)
    rounds, at = frame.name("round"), frame.name("i")
    frame.line(f"{c_type(kind)} {at} = {expressions.value(frame, stmt.start)};")
    stop = frame.temporary(c_type(stmt.stop.type), expressions.value(frame, stmt.stop), "stop")
    frame.forget_map()
    frame.line("#pragma clang loop unroll(disable)")
    with frame.block(f"for (u32 {rounds} = 0; {at} < {stop}; {rounds}++, {at}++)"):
        _limit(frame, rounds)
        frame.line(f"{held} = {at};")
        run(frame, stmt.body)


def _limit(frame: Frame, rounds: str) -> None:
    with frame.block(f"if ({rounds} >= {LOOP_LIMIT})"):
        frame.line("lose(LOST_LOOPS);")
        frame.line("break;")
