"""Which call an `OSError` came from, and what it was on, where the error itself does not say it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType

_CALL = re.compile(r"(?:\w+\.)*(\w+)\s*\(\s*((?:\w+\.)*\w+)?")
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_PYTHON = os.path.dirname(os.__file__)
_OUTPUT = ("write", "flush")
"""Methods of what Python prints to: the user knows where that goes."""


def described(error: OSError) -> str:
    """`CALL of OBJECT: REASON`; what is not known is left out."""
    reason = error.strerror or str(error)
    named = getattr(error, "call", "")
    innermost = ("", None) if named else _innermost(error.__traceback__)
    name, object = named or innermost[0], innermost[1]
    if error.filename is not None:
        object = os.fsdecode(error.filename)
        if name in ("", "read") and error.errno in (errno.EMFILE, errno.ENFILE):
            name = "open"  # the source cannot be read with these, nor a module; and no read fails so
    words = " of ".join(filter(None, (name, object)))
    return f"{words}: {reason}" if words else reason


def _innermost(trace: TracebackType | None) -> tuple[str, str | None]:
    """The call that failed, in the innermost line of Python code; where that is Python's own and says nothing, the one
    of ours that led to it.
    """
    for frame, code, instruction, line in reversed([*_frames(trace)]):
        if code.co_filename.startswith("<frozen importlib") and code.co_name == "get_data":  # of a module of Python
            return "read", _object(frame, "path")
        text = _running(code, instruction, line)
        call = None if text.startswith("raise ") else _CALL.match(text)
        if call is not None and (call[1] not in _OUTPUT or text.startswith("os.")):
            return call[1], _object(frame, call[2])
        if call is not None or not code.co_filename.startswith((_PACKAGE, _PYTHON)):
            break
    return "", None


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, CodeType, int, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_frame.f_code, trace.tb_lasti, trace.tb_lineno
        trace = trace.tb_next


def _running(code: CodeType, instruction: int, line: int) -> str:
    """The text of the call, or where Python does not tell its columns (before 3.11) what follows in the line; "" where
    the source cannot be read, which may be for the same reason.
    """
    try:
        with open(code.co_filename, encoding="utf-8") as file:
            text = "\n".join(file.read().splitlines()[line - 1 : line + 1])
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
    positions = getattr(code, "co_positions", None)
    if positions is not None:
        first, _, start, _ = [*positions()][instruction // 2]
        if first == line and start is not None:
            return text[start:]
    return text.strip().partition("\n")[0].rpartition("= ")[2]


def _object(frame: FrameType, words: str | None) -> str | None:
    """The text of what a name of the program stands for, if that is a path, a descriptor or something that has one."""
    value: object = None
    for number, word in enumerate((words or "").split(".")):
        value = frame.f_locals.get(word) if number == 0 else getattr(value, word, None)
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        try:
            return os.readlink(f"/proc/self/fd/{value}")
        except OSError:
            return None
    return None
