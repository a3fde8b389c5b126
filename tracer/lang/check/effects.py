"""The functions without a value: statements that print, change a map or end the trace."""

from __future__ import annotations

from collections.abc import Callable

from tracer.lang import formats, typed
from tracer.lang.check.assignments import AssignmentChecker
from tracer.lang.syntax import ast
from tracer.lang.types import (
    IntType,
)
from tracer.lang.types.combine import a

TIME_FORMAT = "%H:%M:%S\n"
"""What time() prints without an argument."""


class EffectChecker(AssignmentChecker):
    """One method per statement function."""

    def effect(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        """A statement function."""
        methods: dict[str, Callable[[ast.Call], tuple[typed.Stmt, ...]]] = {
            "printf": self._printf,
            "print": self._print,
            "clear": self._clear,
            "zero": self._zero,
            "delete": self._delete,
            "exit": self._exit,
            "time": self._time,
        }
        return methods[node.name](node) if self.function(node) is not None else ()

    def _printf(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        text = self.text_constant(node.args[0], "the format of printf()")
        values = [self.shown(arg) for arg in node.args[1:]]
        if text is None:
            return ()
        faults = False
        wanted = []
        for conversion in formats.conversions(text):
            fault = formats.fault(conversion)
            if fault is not None:
                self.error(fault[0], node.args[0].span, fault[1])
                faults = True
            elif conversion.kind != "%":
                wanted.append(conversion)
        if faults:
            return ()
        if len(wanted) != len(values):
            given = f"{len(values)} value{'s' if len(values) != 1 else ''} given"
            self.error(
                f"the format takes {len(wanted)}, {given}", node.span, "write %% for a percent sign" if wanted else None
            )
            return ()
        args = []
        for conversion, value in zip(wanted, values, strict=True):
            if value is None:
                return ()
            if not formats.accepts(conversion.kind, value.type):
                self.error(f"'{conversion.text}' cannot show {a(value.type)}", value.span, formats.fitting(value.type))
                return ()
            args.append(value)
        types = tuple(arg.type for arg in args)
        return (typed.Printf(node.span, self.format_index(text, types), tuple(args)),)

    def _print(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        target = node.args[0]
        if isinstance(target, ast.MapRef) and not target.key:
            if not self.defined(target):
                return ()
            numbers = [
                self.constant(arg, f"the {word} of print()")
                for arg, word in zip(node.args[1:], ("top", "div"), strict=False)
            ]
            if None in numbers:
                return ()
            top, div = ([number or 0 for number in numbers] + [0, 0])[:2]
            if top < 0 or div < 0 or max(top, div) >= 1 << 63:
                self.error("the numbers of print() must not be negative", node.span, "write print(@map, top, div)")
                return ()
            return (typed.PrintMap(node.span, target.name, top, div),)
        if len(node.args) > 1:
            self.error("only print() of a map takes more arguments", node.span, "print((a, b)) prints several values")
            return ()
        value = self.shown(target)
        if value is None:
            return ()
        return (typed.PrintValue(node.span, self.shape_index(value.type), value),)

    def _clear(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        target = self.whole(node.args[0], "clear")
        return () if target is None else (typed.Clear(node.span, target.name),)

    def _zero(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        target = self.whole(node.args[0], "zero")
        if target is None:
            return ()
        type = self.map_type(target.name)
        if self.known.maps[target.name].kind == "scalar" and type is not None and not isinstance(type, IntType):
            self.error(
                f"zero() needs a map of numbers, {target.name} holds {a(type)}", node.span, "clear(@map) empties it"
            )
            return ()
        return (typed.Zero(node.span, target.name),)

    def _delete(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        target = node.args[0]
        if not isinstance(target, ast.MapRef):
            self.error("delete() needs a map", target.span, "write delete(@map, key)")
            return ()
        if len(node.args) == 2 and target.key:
            self.error(
                "delete() takes the map without a key, and the key",
                node.span,
                f"write delete({target.name}, key), for each key",
            )
            return ()
        if not self.defined(target):
            return ()
        nodes = node.args[1:] or target.key
        known = self.known.maps[target.name].key
        if not nodes and known:
            self.error(
                f"delete() needs a key: {target.name} has keys", node.span, f"clear({target.name}) removes all of them"
            )
            return ()
        key = self.key(target.name, nodes, node.args[-1].span)
        return () if key is None else (typed.Delete(node.span, target.name, key),)

    def _exit(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        code = self.constant(node.args[0], "the status of exit()") if node.args else 0
        if code is None:
            return ()
        if not 0 <= code <= 255:
            self.error(f"the status of exit() must be from 0 to 255, not {code}", node.args[0].span)
            return ()
        return (typed.Exit(node.span, code),)

    def _time(self, node: ast.Call) -> tuple[typed.Stmt, ...]:
        text = self.text_constant(node.args[0], "the format of time()") if node.args else TIME_FORMAT
        return () if text is None else (typed.Time(node.span, self.format_index(text)),)
