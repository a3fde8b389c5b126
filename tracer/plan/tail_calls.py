"""Functions that end in tail calls: a clause that asks for their returns also follows each of their calls to its end.

`f` ends in `jmp g`, and then it is `g` that returns to `f`'s caller. A probe on each `ret` of `g` sees that, but others
call `g` too. So the jump notes the thread, the place of the return address on the stack, and that address. A `ret` of
`g` is a return of `f` where it finds this note, which it deletes. A call of `g` inside `g` has another place on the
stack, one from elsewhere another return address. A return probe on `g`, of anybody's, puts the kernel's address there
after the jump; then the place alone tells. What is written here are ordinary expressions and a map, so both backends do
the same.

A call that ends in an exception or longjmp() leaves its note behind. The next jump at the same place replaces it. If
the call instruction that called `f`, through a pointer, next calls `g` itself, that is taken for a return of `f`. Where
there are too many notes the oldest go.
"""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.kinds.arch import RETURN_PROBE_PAGE
from tracer.kinds.site import (
    FLAGS_SET,
    POPPED,
    SIGN_DIFFERS,
    STACK_POINTER,
    STACK_TOP,
    TAIL,
    TAIL_OF,
    UNTAKEN,
    Const,
    FileSite,
    Mem,
    TailPlace,
    in_files,
)
from tracer.lang.typed import (
    Arg,
    Binary,
    Builtin,
    Call,
    Clause,
    Deleted,
    Expr,
    If,
    IntLit,
    MapDecl,
    MapGet,
    MapSet,
    Program,
    Return,
    Stmt,
    StrLit,
    Unary,
)
from tracer.lang.types import BOOL, UINT64, StringType
from tracer.plan.calls.reads import word

_MOST_CALLS = 16384
"""Calls that are under way behind a jump."""

_CARRY, _PARITY, _ZERO, _SIGN, _OVERFLOW = 1, 1 << 2, 1 << 6, 1 << 7, 1 << 11
_CONDITIONS = (
    (_OVERFLOW, 0), (_CARRY, 0), (_ZERO, 0), (_CARRY | _ZERO, 0), (_SIGN, 0), (_PARITY, 0), (0, 1), (_ZERO, 1),
)  # fmt: skip
"""Of x86's conditions without the last bit, which negates: flags of which one is set, and whether sign and overflow may
differ instead (Intel SDM, volume 1, appendix B).
"""


def operand(site: FileSite, index: int) -> Const | Mem:
    """The operand that is one of a site's own values, by its number."""
    if index == STACK_TOP:
        return Mem("sp", 0)
    if index == POPPED:
        return Const(8 * site.is_return_probe)
    condition = _what(site) - TailPlace.JUMP_IF
    flags, differs = _CONDITIONS[condition >> 1] if condition >= 0 else (0, 0)
    values = {
        TAIL: _what(site),
        FLAGS_SET: flags, SIGN_DIFFERS: differs, UNTAKEN: int(condition < 0 or condition & 1),
    }  # fmt: skip
    return Const(values[index])


def _what(site: FileSite) -> int:
    return site.tail & 0xFF


def with_tail_calls(program: Program) -> Program:
    """The program, whose clauses with tail calls follow each by a map of their own."""
    maps = dict(program.maps)
    clauses = []
    for clause in program.clauses:
        if any(site.tail for site in in_files(clause.sites)):
            decl = MapDecl(
                f"@ tail calls of clause {clause.id}", (UINT64,) * 3, "scalar", UINT64, clause.span, (), _MOST_CALLS,
                forgets=True, inner=True,
            )  # fmt: skip
            maps[decl.name] = decl
            clause = _following(clause, decl.name)
        clauses.append(clause)
    return replace(program, clauses=tuple(clauses), maps=maps)


def _following(clause: Clause, map: str) -> Clause:
    span = clause.span
    place, tail = Arg(UINT64, span, STACK_POINTER), Arg(UINT64, span, TAIL)
    key, top = (Builtin(UINT64, span, "tid"), Arg(UINT64, span, TAIL_OF), place), Arg(UINT64, span, STACK_TOP)
    note: Stmt = MapSet(span, map, key, top)
    if any(_what(site) >= TailPlace.JUMP_IF for site in in_files(clause.sites)):
        note = If(span, _is_taken(span), (note,), ())
    same = Binary(BOOL, span, "==", MapGet(UINT64, span, map, key), top)
    probed = Binary(BOOL, span, "==", word(">>", top, _number(12, span)), _number(RETURN_PROBE_PAGE, span))
    ours = Binary(BOOL, span, "&&", Binary(BOOL, span, "||", same, probed), Deleted(BOOL, span, map, key))
    at_jump = If(span, Binary(BOOL, span, ">=", tail, _number(TailPlace.JUMP, span)), (note, Return(span)), ())
    another = If(span, Unary(BOOL, span, "!", ours), (Return(span),), ())
    at_end = If(span, Binary(BOOL, span, "==", tail, _number(TailPlace.END, span)), (another,), ())
    body = clause.body if clause.predicate is None else (If(clause.predicate.span, clause.predicate, clause.body, ()),)
    return replace(clause, predicate=None, body=(at_jump, at_end, *body))


def _is_taken(span: Span) -> Expr:
    """Whether a jump is taken, by the flags before it."""
    flags = Call(UINT64, span, "reg", (StrLit(StringType(6), span, b"flags"),))
    signs = word("^", word(">>", flags, _number(7, span)), word(">>", flags, _number(11, span)))
    one, differ = word("&", flags, Arg(UINT64, span, FLAGS_SET)), word("&", signs, Arg(UINT64, span, SIGN_DIFFERS))
    neither = Binary(BOOL, span, "==", word("|", one, differ), _number(0, span))
    return Binary(BOOL, span, "==", neither, Binary(BOOL, span, "!=", Arg(UINT64, span, UNTAKEN), _number(0, span)))


def _number(value: int, span: Span) -> Expr:
    return IntLit(UINT64, span, value)
