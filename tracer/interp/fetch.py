"""What a clause reads at a hit: the leaves that a backend delivers and the interpreter computes with.

A hit reaches the interpreter as one flat tuple with a value for each expression of `fetches(clause)`, in that order, in
the Python form of `lang.types`; None where it could not be read (which ends the clause when, and only when, the
value is needed). Strings are delivered uncut; the interpreter cuts them.
"""

from __future__ import annotations

from tracer.lang.typed import Clause, Expr


def fetches(clause: Clause) -> tuple[Expr, ...]:
    """The distinct leaves of a clause in the order of first use, spans aside.

    Leaves are `Arg`, `Retval`, `UStack`, every `Builtin` but `probe` and `func` (constants of the variant; `elapsed` is a
    leaf `nsecs`, `username` a leaf `uid`, `usym` needs a leaf `pid`), and `Str` and `Load` whose address
    `is_fetchable`.
    """
    raise NotImplementedError


def is_fetchable(address: Expr) -> bool:
    """Whether an address can be read as part of the hit: an argument or the return value, a fetchable `Load`, or one of
    these plus a constant. Everything else needs the process's memory at a computed address."""
    raise NotImplementedError
