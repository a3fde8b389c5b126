"""What ends a trace."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.builtins.model import Argument, Call, Function


def _exit(call: Call) -> typed.Stmt | None:
    (code,) = call.args or (0,)
    if not 0 <= code <= 255:
        call.error(f"the status of exit() must be from 0 to 255, not {code}", call.spans[0])
        return None
    return typed.Exit(call.span, code)


FUNCTIONS = (
    Function(
        "exit", "statement", "exit([code])", (Argument("constant", "the status of exit()"),), None,
        "ends tracing with an exit status", "exit();", optional=1, rule=_exit,
    ),
)  # fmt: skip
