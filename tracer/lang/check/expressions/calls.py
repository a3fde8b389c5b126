"""Built-in values, and calls: arguments are checked as the function's object says, and its rule makes the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.dataclass import replace
from tracer.kinds.registry import named
from tracer.lang import typed
from tracer.lang.builtins.registry import FUNCTIONS, VALUES
from tracer.lang.check.expressions import maps, memory
from tracer.lang.check.expressions.operands import integer, known_integer
from tracer.lang.check.expressions.typenames import asked, least
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.fold import convert, literal_of, written
from tracer.lang.scope.context import Context, Variable
from tracer.lang.syntax import ast
from tracer.lang.types import UINT64, IntType, StringType, Type
from tracer.lang.types.combine import a_type

_BUILTIN = "__builtin_"  # what bpftrace's own library calls a built-in value by


def is_argument(word: str) -> bool:
    """Whether it is arg0, arg1 and so on."""
    return word.startswith("arg") and word.isascii() and word[3:].isdigit()


def name(ctx: Context, node: ast.Name) -> typed.Expr | None:
    """A built-in value."""
    word, span = node.name.removeprefix(_BUILTIN), node.span
    if is_argument(word):
        from tracer.lang.builtins.hit import probe

        return probe.argument(ctx, word, int(word[3:12]), span)
    if word == "args":
        from tracer.lang.check.expressions import parameters

        return parameters.whole(ctx, span)
    if word == "vars" and ctx.types.constant(word) is None:
        from tracer.lang.check.expressions import variables

        return variables.whole(ctx, word, span)
    value = VALUES.get(word)
    if value is None or (value.ours and ctx.types.constant(word) is not None):
        constant = ctx.types.constant(word)
        if isinstance(constant, tuple):
            return typed.IntLit(constant[1], span, constant[0])
        if constant is not None:
            ctx.error(constant, span)
        else:
            _no_value(ctx, node)
        return None
    if value.place == "return" and not ctx.unit.has_result:
        kind = named("return")
        where = ctx.unit.place if not ctx.unit.reads("probe") else f"a clause with a probe other than {kind}"
        ways = kind.replace(" or ", ":FILE:FUNCTION or ")
        if ctx.misplaced(f"{word} is not known in {where}", span, f"use {ways}:FILE:FUNCTION {{ … {word} … }}"):
            return None
    if value.place in ("probe", "call") and not ctx.unit.reads(value.place):
        what, form = f"{word} is not known in {ctx.unit.place}", ": call:FILE:FUNCTION" * (value.place == "call")
        if ctx.misplaced(what, span, f"{word} belongs to a {named(value.place)}{form}"):
            return None
    if value.node in (typed.UStack, typed.KStack):
        from tracer.lang.builtins.hit import kernel, stacks

        (stacks if value.node is typed.UStack else kernel).noted(ctx, word, span)
    if not value.check(ctx, word, span):
        return None
    if value.node is typed.Retval:
        from tracer.lang.check.expressions import parameters

        return parameters.result(ctx, span)
    type = value.type(ctx) if callable(value.type) else value.type
    return typed.Builtin(type, span, word) if value.node is None else value.node(type, span)


def _no_value(ctx: Context, node: ast.Name) -> None:
    from tracer.lang import unsupported

    word, span = node.name, node.span
    if word in FUNCTIONS:
        ctx.error(f"{word} is a function", span, f"write {FUNCTIONS[word].call}")
    elif word in unsupported.BUILTINS:
        message, hint = unsupported.phrase(word, unsupported.BUILTINS[word])
        ctx.error(message, span, hint)
    elif word in unsupported.FUNCTIONS:
        message, hint = unsupported.phrase(f"{word}()", unsupported.FUNCTIONS[word])
        ctx.error(message, span, hint)
    else:
        from tracer.lang import suggest
        from tracer.lang.foreign import words

        if (here := words.named(word)) is not None:
            ctx.error(f"unknown name '{word}'", span, here)
            return
        near = suggest.nearest(word, (*ctx.types.constants, *VALUES, *FUNCTIONS, "arg0", "true", "false"))
        other = f"variables are written ${word}, maps @{word}, strings in quotes"
        if "::" in word:
            other = "no debug information of the traced files knows it"
        ctx.error(f"unknown name '{word}'", span, f"did you mean {near}?" if near else other)


def call(ctx: Context, node: ast.Call) -> typed.Expr | None:
    """A call as a value."""
    if not node.args and node.name.removeprefix(_BUILTIN) in VALUES:
        return name(ctx, ast.Name(node.span, node.name))
    function = function_of(ctx, node)
    if function is None:
        return None
    if function.role == "aggregation":
        ctx.error(f"{node.name}() can only be assigned to a map", node.span, f"write @name = {function.call};")
        return None
    if function.role == "statement":
        ctx.error(f"{node.name}() gives no value", node.span, f"write {function.call}; as a statement of its own")
        return None
    if not _here(ctx, node, function):
        return None
    checked = arguments(ctx, node, function)
    result = _result_of(function, checked)
    assert not isinstance(result, (typed.Stmt, tuple))
    if not isinstance(result, typed.Call) or function.fold is None:
        return result
    values = [written(arg) for arg in result.args]
    if None in values:
        return result
    folded = literal_of(function.fold(result.type, *values), result.type, node.span)
    return replace(folded, type=result.type) if isinstance(result.type, StringType) else folded


def effect(ctx: Context, node: ast.Call) -> tuple[typed.Stmt, ...]:
    """A call of a function that is a statement."""
    function = function_of(ctx, node)
    if function is None or not _here(ctx, node, function):
        return ()
    result = _result_of(function, arguments(ctx, node, function))
    if isinstance(result, tuple):
        return result
    return (result,) if isinstance(result, typed.Stmt) else ()


def _here(ctx: Context, node: ast.Call, function: BuiltinFunction) -> bool:
    """Whether a function may be called in this clause; reports it otherwise."""
    needed = function.place
    if needed not in ("probe", "call", "signal", "registers") or ctx.unit.reads(needed):
        return True
    where = f"{node.name}() is not known in {ctx.unit.place}"
    return not ctx.misplaced(where, node.span, f"it belongs to a {named(needed)}")


def _result_of(function: BuiltinFunction, checked: Call) -> typed.Expr | typed.Stmt | tuple[typed.Stmt, ...] | None:
    if any(arg is None for arg in checked.args) and not function.partial:
        return None
    if function.rule is not None:
        return function.rule(checked)
    assert function.type is not None
    return typed.Call(function.type, checked.span, function.name, tuple(checked.args))


def function_of(ctx: Context, node: ast.Call) -> BuiltinFunction | None:
    """The object of a function called with a number of arguments that it takes; reports what is wrong."""
    function = FUNCTIONS.get(node.name)
    if function is None:
        _no_function(ctx, node)
        return None
    given = len(node.args)
    if given < function.least or (function.most >= 0 and given > function.most):
        what = f"{node.name}() takes {_arguments(function)}, not {given}"
        ctx.error(what, node.span, f"write {function.call}")
        return None
    return function


def _arguments(function: BuiltinFunction) -> str:
    least, most = function.least, function.most
    count = f"{most} argument{'s' if most != 1 else ''}" if most else "no arguments"
    if most < 0:
        return f"at least {least} argument{'s' if least != 1 else ''}"
    return count if least == most else f"{least} to {count}"


def _no_function(ctx: Context, node: ast.Call) -> None:
    from tracer.lang import unsupported

    word = node.name
    if word in unsupported.FUNCTIONS:
        message, hint = unsupported.phrase(f"{word}()", unsupported.FUNCTIONS[word])
        ctx.error(message, node.name_span, hint)
    elif word in unsupported.BUILTINS:
        message, hint = unsupported.phrase(word, unsupported.BUILTINS[word])
        ctx.error(message, node.name_span, hint)
    elif word in VALUES:
        ctx.error(f"{word} takes no arguments", node.span, f"write {word}")
    else:
        from tracer.lang import suggest
        from tracer.lang.foreign import words

        here = words.named(word) or suggest.hint(word, FUNCTIONS)
        ctx.error(f"unknown function '{word}'", node.name_span, here)


# --- arguments


def arguments(ctx: Context, node: ast.Call, function: BuiltinFunction) -> Call:
    """The arguments of a call as the function's object wants them; None for those without a type."""
    result = Call(ctx, node.name, node.span, [], [arg.span for arg in node.args])
    wanted: list[Parameter] = list(function.args)
    nodes = list(node.args)
    while nodes:
        if wanted[0].kind == "optional constant" and len(nodes) < len(wanted):
            wanted.pop(0)
        argument = wanted.pop(0) if len(wanted) > 1 or not function.variadic else wanted[0]
        if argument.kind == "word":
            word = nodes[0].name if isinstance(nodes[0], ast.Name) else ""
            if word not in argument.words and len(nodes) > len(wanted):
                hint = f"modes are {', '.join(argument.words)}"
                ctx.error(f"the first of two arguments of {node.name}() is {argument.what}", nodes[0].span, hint)
                result.args.append(None)
                return result
            if word in argument.words:
                nodes.pop(0)
            result.args.append(word if word in argument.words else "")
            continue
        if argument.kind == "element":
            result.args.append(maps.element(ctx, node))
            return result
        if argument.kind == "key":
            name = result.args[-1]
            result.args.append(None if name is None else maps.key(ctx, name, nodes[:1], nodes[0].span))
        else:
            result.args.append(_KINDS[argument.kind](ctx, nodes[0], argument, node.name))
        nodes.pop(0)
    return result


def _unsigned(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> typed.Expr | None:
    value = integer(ctx, node, wanted.what)
    return None if value is None else convert(value, UINT64)


def _mode(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> str | None:
    if isinstance(node, ast.Name) and node.name in wanted.words:
        return node.name
    message = f"{wanted.what} must be one of {', '.join(wanted.words)}"
    ctx.error(message, node.span, f"write {function}({wanted.words[0]})")
    return None


def _variable(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> Variable | None:
    if not isinstance(node, ast.Var):
        ctx.error(f"{function}() sets a variable here", node.span, "write a name such as $x")
        return None
    variable = ctx.lookup(node.name)
    if variable is None:
        ctx.error(f"{node.name} is used before it is assigned", node.span, f"write let {node.name}; before it")
    else:
        ctx.facts.variable(variable.key).targeted = True
    return variable


def _text(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> str | None:
    value = ctx.expr(node)
    if isinstance(value, typed.StrLit) and isinstance(value.type, StringType):
        return value.value.decode("utf-8", "surrogateescape")
    if value is not None:
        ctx.error(f"{wanted.what} must be a string in quotes", node.span)
    return None


def _percentage(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> str | None:
    if isinstance(node, ast.DecimalLit | ast.Param) and node.text is not None:
        return node.text
    if isinstance(node, ast.StrLit):
        return _text(ctx, node, wanted, function)
    value = known_integer(ctx, node, wanted.what)
    return None if value is None else str(value)


def _string(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> typed.Expr | None:
    value = ctx.expr(node)
    if value is None or isinstance(value.type, StringType):
        return value
    hint = f"str({ctx.text(node.span)}) reads the string at that address" if isinstance(value.type, IntType) else None
    ctx.error(f"{wanted.what} must be a string, not {a_type(value.type)}", value.span, hint)
    return None


def _source(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> typed.Expr | bytes | None:
    """A text of the program, `$1`, `$1 + n` (the text from that byte on), a number of the program, or an address."""
    match node:
        case ast.Param():
            return node.bytes()
        case ast.Binary(op="+", left=ast.Param() as param, right=ast.IntLit() as start):
            return param.bytes()[start.value :]
    value = _memory(ctx, node, wanted, function)
    if isinstance(value, typed.IntLit) and least(value, node) != value.type:
        return b"%d" % value.value
    return value.value if isinstance(value, typed.StrLit) and isinstance(value.type, StringType) else value


def _memory(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> typed.Expr | None:
    """An address of the traced program, or what lies at that of a variable."""
    value = ctx.expr(node)
    return None if value is None else memory.read_there(ctx, value)


def shown(ctx: Context, node: ast.Expr) -> typed.Expr | None:
    """An expression that is only shown: it may be a floating-point number."""
    return name(ctx, node) if isinstance(node, ast.Name) else ctx.expr(node)


def _map(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> str | typed.Expr | None:
    if wanted.kind == "map or shown":
        if isinstance(node, ast.MapRef) and not node.key:
            return node.name if maps.defined(ctx, node) else None
        return shown(ctx, node)
    if wanted.kind == "map or value" and not (isinstance(node, ast.MapRef) and not node.key):
        return ctx.expr(node)
    name = maps.whole(ctx, node, function)
    if name is not None and wanted.kind == "map of values" and maps.single(ctx, name, node.span) is None:
        return None
    return name


def _type(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> Type | None:
    if isinstance(node, ast.Call) and node.name == "typeof" and len(node.args) == 1:
        node = node.args[0]
    type = asked(ctx, node, smallest=function in ("sizeof", "typeinfo"), in_memory=function == "sizeof")
    complete = None if type is None else ctx.types.complete(type)
    if type is not None and complete is None:
        ctx.error(f"'{type}' is not declared", node.span)
    return complete


def _described(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> tuple[str, str] | None:
    """The name of bpftrace for a type, or for an aggregation: `count_t`."""
    if isinstance(node, ast.MapRef) and node.name in ctx.known_facts.maps:
        facts = ctx.known_facts.maps[node.name]
        if facts.kind not in (None, "scalar") and bool(node.key) == bool(facts.key):
            return f"{facts.kind}_t", f"{facts.kind}_t"
    from tracer.lang.types.described import described

    type = _type(ctx, node, wanted, function)
    return None if type is None else described(type)


def _laid_out(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> typed.Expr | None:
    """A value as it is in memory: literals are as small as they can be, and a text goes on behind a NUL."""
    value = ctx.expr(node)
    if isinstance(node, ast.StrLit):
        return typed.StrLit(StringType(len(node.value) + 1), node.span, node.value)
    return None if value is None else convert(value, least(value, node))


def _members(ctx: Context, node: ast.Expr, wanted: Parameter, function: str) -> list[str] | None:
    match node:
        case ast.Name(name=name):
            return [name]
        case ast.TypeExpr(type=ast.TypeName(name=name, suffixes=())):
            return [name]
        case ast.Field(operand=operand, name=name):
            before = _members(ctx, operand, wanted, function)
            return None if before is None else [*before, name]
    ctx.error(f"expected {wanted.what}", node.span)
    return None


_KINDS: dict[str, Callable[[Context, ast.Expr, Parameter, str], Any]] = {
    "integer": lambda ctx, node, wanted, function: integer(ctx, node, wanted.what),
    "unsigned": _unsigned,
    "constant": lambda ctx, node, wanted, function: known_integer(ctx, node, wanted.what),
    "string": _string,
    "text": _text,
    "percentage": _percentage,
    "shown": lambda ctx, node, wanted, function: shown(ctx, node),
    "source": _source,
    "type": _type,
    "described": _described,
    "members": _members,
    "optional constant": lambda ctx, node, wanted, function: known_integer(ctx, node, wanted.what),
    "value": lambda ctx, node, wanted, function: ctx.expr(node),
    "bytes": lambda ctx, *rest: rest[0].value if isinstance(rest[0], ast.StrLit) else _memory(ctx, *rest),
    "memory": _memory,
    "laid out": _laid_out,
    "mode": _mode,
    "variable": _variable,
    "map": _map,
    "map of values": _map,
    "map or value": _map,
    "map or shown": _map,
}
