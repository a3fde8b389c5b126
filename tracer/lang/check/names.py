"""Names: built-in values, arguments, variables and the program's own parameters."""

from __future__ import annotations

from tracer.errors import Span
from tracer.lang import suggest, typed, unsupported
from tracer.lang.builtins import FUNCTIONS, VALUES
from tracer.lang.check.maps import MapChecker
from tracer.lang.convert import literal, string
from tracer.lang.syntax import ast
from tracer.lang.syntax.lexer import Fault, number
from tracer.lang.types import INT64, UINT64, FloatType, IntType, StackType, StringType, Type, UsernameType
from tracer.lang.types.combine import LITERAL, NOTED, SMALL
from tracer.regex import regex

ARGUMENT = regex(r"arg([0-9]+)")
COMM_SIZE = 16
"""TASK_COMM_LEN of the kernel."""

_SMALL_VALUES = frozenset(("pid", "tid", "uid", "gid", "cpu", "cpid"))


class NameChecker(MapChecker):
    """What a word stands for, and where it may stand."""

    def call(self, node: ast.Call) -> typed.Expr | None:
        """A call as a value."""
        raise AssertionError("CallChecker defines it")

    def param(self, node: ast.Param) -> typed.Expr:
        """`$1`: a number where the argument is one, else a string; 0 where there is none."""
        if node.text is None:
            return typed.IntLit(LITERAL, node.span, 0)
        digits = node.text.removeprefix("-")
        try:
            value = number(digits, node.span)
        except Fault:
            return string(node.text.encode("utf-8", "surrogateescape").split(b"\0")[0], node.span)
        return literal(-value if digits != node.text else value, node.span)

    def name(self, node: ast.Name) -> typed.Expr | None:
        """A built-in value, or a function that is called without its parentheses."""
        name, span = node.name, node.span
        if found := ARGUMENT.fullmatch(name):
            return self._argument(node, int(found[1][:9]))
        row = VALUES.get(name)
        if row is None:
            return self._no_value(node)
        if name == "retval":
            return self._retval(node)
        if row.place == "probe" and self.unit.kind != "probe":
            self.error(
                f"{name} is not known in {self.unit.place}", span, f"{name} belongs to a usdt, uprobe or uretprobe"
            )
            return None
        if name == "ustack":
            return typed.UStack(StackType(self.config.stack_frames), span)
        return typed.Builtin(self._builtin_type(name), span, name)

    def _builtin_type(self, name: str) -> Type:
        if name in _SMALL_VALUES:
            return SMALL
        if name == "comm":
            return StringType(COMM_SIZE)
        if name == "username":
            return UsernameType()
        if name == "probe":
            names = [site.probe for site in self.unit.sites] or [point.text for point in self.unit.points]
            return StringType(max(len(text.encode("utf-8", "surrogateescape")) for text in names) + 1)
        if name == "func":
            return StringType(max((len(site.function.encode()) for site in self.unit.sites), default=63) + 1)
        return UINT64

    def _no_value(self, node: ast.Name) -> typed.Expr | None:
        name = node.name
        row = FUNCTIONS.get(name)
        if row is not None and row.least == 0:
            return self.call(ast.Call(node.span, name, (), node.span))
        if row is not None:
            self.error(f"{name} is a function", node.span, f"write {row.call}")
        elif name in unsupported.BUILTINS:
            message, hint = unsupported.phrase(name, unsupported.BUILTINS[name])
            self.error(message, node.span, hint)
        elif name in unsupported.FUNCTIONS:
            message, hint = unsupported.phrase(f"{name}()", unsupported.FUNCTIONS[name])
            self.error(message, node.span, hint)
        else:
            near = suggest.nearest(name, (*VALUES, *FUNCTIONS, "arg0", "true", "false"))
            other = f"variables are written ${name}, maps @{name}, strings in quotes"
            self.error(f"unknown name '{name}'", node.span, f"did you mean {near}?" if near else other)
        return None

    def _argument(self, node: ast.Name, index: int) -> typed.Expr | None:
        unit = self.unit
        if unit.kind != "probe":
            self.error(
                f"{node.name} is not known in {unit.place}", node.span, "arguments belong to usdt and uprobe probes"
            )
            return None
        if unit.returns_only:
            self.error(
                f"{node.name} is not known when the function returns",
                node.span,
                "keep it from a uprobe on the same function: @a[tid] = arg0; the value that is returned is retval",
            )
            return None
        counts = [len(site.args) for site in unit.sites if site.kind in ("usdt", "uprobe")]
        if counts and index >= max(counts):
            self.error(*self._no_argument(node, max(counts)))
            return None
        type = self._argument_type(node, index)
        return None if type is None else typed.Arg(type, node.span, index)

    def _argument_type(self, node: ast.Name, index: int) -> IntType | FloatType | None:
        """One type for all sites: signed where the note of one of them says so."""
        sites = [site for site in self.unit.sites if index < len(site.args)]
        specs = [site.args[index] for site in sites]
        real = next((spec for spec in specs if spec.is_float), None)
        if real is not None:
            other = next((at for at, spec in enumerate(specs) if (spec.is_float, spec.size) != (True, real.size)), None)
            if other is None:
                return FloatType(8 * real.size)
            message = f"{node.name} is a float{8 * real.size} at {sites[specs.index(real)].probe} ({real.text})"
            where = f"{sites[other].probe} ({specs[other].text})"
            self.error(f"{message}, but not at {where}", node.span, "write a clause for each of them")
            return None
        if any(spec.signed for spec in specs):
            return INT64
        return NOTED if sites and all(site.kind == "usdt" for site in self.unit.sites) else UINT64

    def _no_argument(self, node: ast.Name, count: int) -> tuple[str, Span, str | None]:
        site = next(site for site in self.unit.sites if len(site.args) == count and site.kind in ("usdt", "uprobe"))
        if count == 0:
            return f"{node.name} does not exist: {site.probe} has no arguments", node.span, None
        known = f"arg0 to arg{count - 1}"
        if site.kind == "uprobe":
            return (
                f"{node.name} does not exist: the calling convention has a place for {count} arguments",
                node.span,
                f"there are {known}",
            )
        if count == 1:
            return f"{node.name} does not exist: {site.probe} has 1 argument", node.span, "there is only arg0"
        return f"{node.name} does not exist: {site.probe} has {count} arguments", node.span, f"there are {known}"

    def _retval(self, node: ast.Name) -> typed.Expr | None:
        if not self.unit.returns_only:
            where = self.unit.place if self.unit.kind != "probe" else "a clause with a probe other than uretprobe"
            self.error(f"retval is not known in {where}", node.span, "use uretprobe:FILE:FUNCTION { … retval … }")
            return None
        return typed.Retval(UINT64, node.span)

    def variable(self, node: ast.Var) -> typed.Expr | None:
        """A scratch variable that is in scope."""
        variable = self.lookup(node.name)
        if variable is None:
            known = {name for scope in self.scopes for name in scope}
            hint = suggest.hint(node.name, known, "assign it first; a variable lives in the block that assigns it")
            self.error(f"{node.name} is used before it is assigned", node.span, hint)
            return None
        type = self.variable_type(variable)
        return None if type is None else typed.Var(type, node.span, variable.slot, node.name)
