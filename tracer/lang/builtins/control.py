"""Functions that end a trace."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.fold import cast
from tracer.lang.types import UINT8


def _exit(call: Call) -> typed.Stmt:
    """Ends the trace. Of a number more than a status can be its low eight bits are that, as of exit(3)."""
    status = call.args[0] if call.args else typed.IntLit(UINT8, call.span, 0)
    return typed.Exit(call.span, cast(status, UINT8))


FUNCTIONS = (
    BuiltinFunction(
        "exit", "statement", "exit([code])", (Parameter("integer", "the status of exit()"),), None,
        "ends tracing with an exit status", "exit();", optional=1, rule=_exit,
    ),
)  # fmt: skip
