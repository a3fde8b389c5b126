"""Functions that give a value."""

from __future__ import annotations

from collections.abc import Callable

from tracer.errors import Span
from tracer.lang import suggest, typed, unsupported
from tracer.lang.builtins import FUNCTIONS, STACK_FRAMES_MOST, VALUES, FunctionRow
from tracer.lang.check.expressions import ExpressionChecker
from tracer.lang.convert import constant, convert, string
from tracer.lang.syntax import ast
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    IntType,
    StackType,
    StringType,
    SymbolType,
    TimestampType,
)
from tracer.lang.types.combine import a

STACK_MODES = ("bpftrace", "perf", "raw", "build_id")


class CallChecker(ExpressionChecker):
    """One method per function."""

    def call(self, node: ast.Call) -> typed.Expr | None:
        """A call as a value: dispatches to the method of its function."""
        row = self.function(node)
        if row is None:
            return None
        if row.kind == "aggregation":
            self.error(f"{node.name}() can only be assigned to a map", node.span, f"write @name = {row.call};")
            return None
        if row.kind == "statement":
            self.error(f"{node.name}() gives no value", node.span, f"write {row.call}; as a statement of its own")
            return None
        if row.place == "probe" and self.unit.kind != "probe":
            self.error(
                f"{node.name}() is not known in {self.unit.place}",
                node.span,
                "it belongs to a usdt, uprobe or uretprobe",
            )
            return None
        methods: dict[str, Callable[[ast.Call], typed.Expr | None]] = {
            "str": self._str,
            "strftime": self._strftime,
            "strncmp": self._strncmp,
            "strlen": self._strlen,
            "strcontains": self._strcontains,
            "len": self._len,
            "has_key": self._has_key,
            "ustack": self._ustack,
            "usym": self._usym,
        }
        return methods[node.name](node)

    def function(self, node: ast.Call) -> FunctionRow | None:
        """The row of a function called with a number of arguments that it takes; reports what is wrong."""
        name = node.name
        row = FUNCTIONS.get(name)
        if row is None:
            self._no_function(node)
            return None
        given = len(node.args)
        if given < row.least or (row.most >= 0 and given > row.most):
            wanted = _arguments(row)
            self.error(f"{name}() takes {wanted}, not {given}", node.span, f"write {row.call}")
            return None
        return row

    def _no_function(self, node: ast.Call) -> None:
        name = node.name
        entry = unsupported.FUNCTIONS.get(name)
        if entry is not None:
            self.error(*_with_span(unsupported.phrase(f"{name}()", entry), node.name_span))
        elif name in unsupported.BUILTINS:
            self.error(*_with_span(unsupported.phrase(name, unsupported.BUILTINS[name]), node.name_span))
        elif name in VALUES:
            self.error(f"{name} takes no arguments", node.span, f"write {name}")
        else:
            here = unsupported.ELSEWHERE.get(name) or suggest.hint(name, FUNCTIONS)
            self.error(f"unknown function '{name}'", node.name_span, here)

    def text_constant(self, node: ast.Expr, what: str) -> str | None:
        """A string literal as text; bytes that are not UTF-8 become surrogate escapes."""
        value = self.expr(node)
        if value is None:
            return None
        if not isinstance(value, typed.StrLit):
            self.error(f"{what} must be a string in quotes", node.span)
            return None
        return value.value.decode("utf-8", "surrogateescape")

    def string(self, node: ast.Expr, what: str) -> typed.Expr | None:
        """An expression that has to be a string."""
        value = self.expr(node)
        if value is None or isinstance(value.type, StringType):
            return value
        hint = (
            f"str({self.text(node.span)}) reads the string at that address" if isinstance(value.type, IntType) else None
        )
        self.error(f"{what} must be a string, not {a(value.type)}", value.span, hint)
        return None

    # --- functions

    def _str(self, node: ast.Call) -> typed.Expr | None:
        size = self.config.max_strlen
        sized, length, given = False, None, None
        if len(node.args) == 2:
            length = self.integer(node.args[1], "the size of str()")
            if length is None:
                return None
            given = constant(length)
            if given is not None:
                if not self._is_size(node, given):
                    return None
                length, sized, size = None, given <= size, max(min(given, size), 1)
        text = self._parameter_text(node.args[0])
        address = None if text is not None else self.expr(node.args[0])
        if isinstance(address, typed.StrLit):
            text = address.value
        if text is not None:
            if length is not None:
                self.error("the size of a text in the program must be a constant", length.span, "leave it out")
                return None
            # bpftrace takes as many bytes of a constant as are given: there is no buffer with a NUL.
            return string(text[: given if sized else size - 1], node.span)
        if address is None:
            return None
        if not isinstance(address.type, IntType):
            hint = "it is a string already: leave str() out" if isinstance(address.type, StringType) else None
            self.error(f"str() needs an address, not {a(address.type)}", address.span, hint)
            return None
        if self.unit.kind != "probe":
            self.error(
                f"there is no memory to read in {self.unit.place}",
                node.span,
                "keep the string where the probe is hit: @s = str(arg0)",
            )
            return None
        measure = None if length is None else convert(length, UINT64)
        return typed.Str(StringType(size), node.span, convert(address, UINT64), sized, measure)

    def _is_size(self, node: ast.Call, given: int) -> bool:
        """Whether a constant can be the size of str(); reports what is wrong, or cut."""
        most = self.config.max_strlen
        if given < 0:
            self.error(f"the size of str() is negative: {given}", node.args[1].span, "the NUL counts")
        elif given > most:
            self.warn(
                f"the size of str() is cut to {most}", node.args[1].span, "config = { max_strlen = N } allows more"
            )
        return given >= 0

    def _parameter_text(self, node: ast.Expr) -> bytes | None:
        """`$1` and `$1 + n` inside str(): the argument's text from that byte on."""
        if isinstance(node, ast.Param):
            return (node.text or "").encode("utf-8", "surrogateescape").split(b"\0")[0]
        if isinstance(node, ast.Binary) and node.op == "+" and isinstance(node.left, ast.Param):
            if not isinstance(node.right, ast.IntLit):
                return None
            text = self._parameter_text(node.left) or b""
            return text[node.right.value :] if node.right.value <= len(text) else b""
        return None

    def _strftime(self, node: ast.Call) -> typed.Expr | None:
        format = self.text_constant(node.args[0], "the format of strftime()")
        time = self.integer(node.args[1], "the time of strftime()")
        if format is None or time is None:
            return None
        return typed.Strftime(TimestampType(format), node.span, convert(time, UINT64))

    def _strncmp(self, node: ast.Call) -> typed.Expr | None:
        left, right = (self.string(arg, "an argument of strncmp()") for arg in node.args[:2])
        length = self.constant(node.args[2], "the length of strncmp()")
        if left is None or right is None or length is None:
            return None
        if length < 0:
            self.error("the length of strncmp() is negative", node.args[2].span)
            return None
        if isinstance(left, typed.StrLit) and isinstance(right, typed.StrLit):
            return typed.IntLit(UINT64, node.span, int(left.value[:length] != right.value[:length]))
        return typed.Strncmp(UINT64, node.span, left, right, length)

    def _strlen(self, node: ast.Call) -> typed.Expr | None:
        operand = self.string(node.args[0], "the argument of strlen()")
        if operand is None:
            return None
        if isinstance(operand, typed.StrLit):
            return typed.IntLit(UINT64, node.span, len(operand.value))
        return typed.Strlen(UINT64, node.span, operand)

    def _strcontains(self, node: ast.Call) -> typed.Expr | None:
        haystack, needle = (self.string(arg, "an argument of strcontains()") for arg in node.args)
        if haystack is None or needle is None:
            return None
        if isinstance(haystack, typed.StrLit) and isinstance(needle, typed.StrLit):
            return typed.BoolLit(BOOL, node.span, needle.value in haystack.value)
        return typed.Strcontains(BOOL, node.span, haystack, needle)

    def _len(self, node: ast.Call) -> typed.Expr | None:
        if not isinstance(node.args[0], ast.MapRef):
            value = self.expr(node.args[0])
            if value is not None:
                hint = "strlen(s) is the length of a string" if isinstance(value.type, StringType) else None
                self.error(f"len() needs a map, not {a(value.type)}", node.args[0].span, hint)
            return None
        target = self.whole(node.args[0], "len")
        return None if target is None else typed.MapLen(INT64, node.span, target.name)

    def _has_key(self, node: ast.Call) -> typed.Expr | None:
        target = self.whole(node.args[0], "has_key")
        if target is None:
            return None
        key = self.key(target.name, (node.args[1],), node.args[1].span)
        return None if key is None else typed.HasKey(BOOL, node.span, target.name, key)

    def _ustack(self, node: ast.Call) -> typed.Expr | None:
        args = list(node.args)
        if args and isinstance(args[0], ast.Name) and args[0].name in STACK_MODES:
            mode = args.pop(0)
            if isinstance(mode, ast.Name) and mode.name != "bpftrace":
                self.error(
                    f"the stack mode {mode.name} is not supported: stacks have one format, bpftrace's own",
                    mode.span,
                    "leave it out",
                )
                return None
        elif len(args) == 2:
            self.error("the first of two arguments of ustack() is a mode", args[0].span, "write ustack(frames)")
            return None
        frames = self.config.stack_frames
        if args:
            given = self.constant(args[0], "the number of frames of ustack()")
            if given is None:
                return None
            if not 1 <= given <= STACK_FRAMES_MOST:
                self.error(
                    f"the number of frames of ustack() must be from 1 to {STACK_FRAMES_MOST}, not {given}", args[0].span
                )
                return None
            frames = given
        return typed.UStack(StackType(frames), node.span)

    def _usym(self, node: ast.Call) -> typed.Expr | None:
        address = self.integer(node.args[0], "the address of usym()")
        return None if address is None else typed.USym(SymbolType(), node.span, convert(address, UINT64))


def _arguments(row: FunctionRow) -> str:
    if row.most < 0:
        return f"at least {_plural(row.least)}"
    if row.least == row.most:
        return _plural(row.least) if row.least else "no arguments"
    return f"{row.least} to {_plural(row.most)}"


def _plural(count: int) -> str:
    return f"{count} argument{'s' if count != 1 else ''}"


def _with_span(phrase: tuple[str, str | None], span: Span) -> tuple[str, Span, str | None]:
    return phrase[0], span, phrase[1]
