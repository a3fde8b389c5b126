"""Calls of macros and functions → blocks, in the syntax tree, before any type is looked at.

A macro is hygienic: variables that it assigns are its own, so they get a name that no other has (`$macro.x.1`); a map
is only what it was given. An argument stands wherever its parameter does, and is evaluated each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NoReturn

from tracer.dataclass import replace
from tracer.errors import Diagnostic, Fault, ProgramError, Span
from tracer.lang.syntax import ast
from tracer.lang.syntax.statements import valued
from tracer.lang.walk import rewrite, walk

MOST_EXPANSIONS = 5000
"""How many calls a program may expand to."""
MOST_NODES = 100_000
"""How many parts of expressions and statements they may expand to: `x + x` doubles its argument with each call."""
DEEPEST = 32
"""How deep calls may nest: later stages walk them recursively."""

_KINDS: dict[type[ast.Expr], str] = {ast.Var: "a variable", ast.MapRef: "a map", ast.Name: "an expression"}


def expanded(program: ast.Program) -> ast.Program:
    """The program without macros and functions; a function that nobody calls is checked in a clause of its own, behind
    the others. Raises `ProgramError`.
    """
    diagnostics: list[Diagnostic] = []
    macros = _by_name(program.macros, diagnostics)
    functions = _functions(program.functions, macros, diagnostics)
    expander = _Expander(program, macros, functions, diagnostics)
    clauses = []
    for clause in program.clauses:
        predicate = None if clause.predicate is None else expander.expand(clause.predicate, ())
        body = tuple([expander.expand(statement, ()) for statement in clause.body])
        by = None if clause.by is None else expander.expand(clause.by, ())
        clauses.append(replace(clause, predicate=predicate, body=body, by=by))
    clauses += expander.uncalled()
    if diagnostics:
        raise ProgramError(program.source, diagnostics)
    return replace(program, clauses=tuple(clauses), macros=(), functions=())


def _by_name(macros: Sequence[ast.Macro], diagnostics: list[Diagnostic]) -> dict[str, list[ast.Macro]]:
    named: dict[str, list[ast.Macro]] = {}
    for macro in macros:
        others = named.setdefault(macro.name, [])
        if any(_kinds(other.params) == _kinds(macro.params) for other in others):
            what = f"the macro {macro.name}() is defined twice with the same kinds of parameters"
            diagnostics.append(Diagnostic(what, macro.head, "give one of them another name"))
        others.append(macro)
    return named


def _functions(
    functions: Sequence[ast.FunctionDefinition], macros: Mapping[str, object], diagnostics: list[Diagnostic]
) -> dict[str, ast.FunctionDefinition]:
    named: dict[str, ast.FunctionDefinition] = {}
    for function in functions:
        name = function.name
        category = "macro" if name in macros else "function"
        if name in named or category != "function":
            what = f"there is a {category} {name}() already"
            diagnostics.append(Diagnostic(what, function.head, "give it another name"))
        named[name] = function
    return named


def _kinds(params: Sequence[ast.Expr]) -> list[type[ast.Expr]]:
    return [type(param) for param in params]


class _Expander:
    """One pass over a program."""

    def __init__(
        self,
        program: ast.Program,
        macros: Mapping[str, list[ast.Macro]],
        functions: Mapping[str, ast.FunctionDefinition],
        diagnostics: list[Diagnostic],
    ) -> None:
        self.source = program.source
        self.macros = macros
        self.functions = functions
        self.called: set[str] = set()
        self.diagnostics = diagnostics
        self.numbers = count(1)
        self.nodes = 0

    def expand(self, node: Any, within: tuple[str, ...]) -> Any:
        """The tree with each call replaced, inside the calls `within`."""

        def change(part: ast.Expr | ast.Stmt) -> Any:
            try:
                return self._changed(part, within)
            except Fault as fault:
                if fault.diagnostic not in self.diagnostics:
                    self.diagnostics.append(fault.diagnostic)
                return part

        return rewrite(node, change)

    def _changed(self, node: ast.Expr | ast.Stmt, within: tuple[str, ...]) -> Any:
        match node:
            case ast.Call() if node.name in self.macros:
                return self._call(node, node.name, node.args, within)
            case ast.Name() if any(not macro.params for macro in self.macros.get(node.name, ())):
                return self._call(node, node.name, (), within)
            case ast.Call() if node.name in self.functions:
                return self._function(node, within)
            case ast.ExprStmt(expr=ast.BlockExpr(value=None) as block):
                return ast.Block(block.span, block.body, block.callee)
            case ast.ExprStmt(expr=ast.BlockExpr(value=ast.Call() as last) as block) if block.callee:
                return ast.Block(block.span, (*block.body, replace(node, expr=last, span=last.span)), block.callee)
        return node

    def _call(self, node: ast.Expr, name: str, args: tuple[ast.Expr, ...], within: tuple[str, ...]) -> ast.Expr:
        callee = f"the macro {name}()"
        self._check_depth(node, name, callee, within)
        macro = self._chosen(node, name, args)
        body = _Body(macro, args, self._number(node)).filled()
        self.nodes += sum(1 for statement in body for _ in walk(statement))
        if self.nodes > MOST_NODES:
            what = f"{callee} makes the program too large: it has more than {MOST_NODES} parts"
            hint = f"an argument is repeated wherever {name}() names it: keep it in a variable"
            raise ProgramError(self.source, [*self.diagnostics, Diagnostic(what, node.span, hint)])
        block = valued(node.span, tuple([self.expand(statement, (*within, name)) for statement in body]))
        return replace(block, callee=callee)

    def _function(self, node: ast.Call, within: tuple[str, ...]) -> ast.Expr:
        from tracer.lang.macros.functions import block_of

        name, function = node.name, self.functions[node.name]
        self._check_depth(node, name, f"the function {name}()", within)
        if len(node.args) != (count := len(function.params)):
            what = f"the function {name}() takes {count} argument{'s' if count != 1 else ''}, not {len(node.args)}"
            head = self.source.text[function.head.start : function.head.end]
            raise Fault(Diagnostic(what, node.span, f"it is {head}"))
        self.called.add(name)
        block: ast.Expr = self.expand(block_of(function, node.args, self._number(node), node), (*within, name))
        return block

    def uncalled(self) -> Iterator[ast.Clause]:
        """Makes for each function without calls a clause that asks for the size of one: it is checked, and does
        nothing.
        """
        from tracer.kinds.timers import BEGIN
        from tracer.lang.macros.functions import block_of

        for name, function in self.functions.items():
            if name not in self.called:
                point = BEGIN.build("BEGIN", [], function.head)
                try:
                    block = block_of(function, [None] * len(function.params), next(self.numbers))
                except Fault as fault:
                    self.diagnostics.append(fault.diagnostic)
                    continue
                whole = function.head if not function.body else function.head.to(function.body[-1].span)
                block = replace(self.expand(block, (name,)), span=whole)
                block = replace(block, value=ast.IntLit(whole, 0))
                size = ast.ExprStmt(whole, ast.Call(whole, "sizeof", (block,), whole), discarded=True)
                yield ast.Clause((point,), None, (size,), whole, uncalled=True)

    def _check_depth(self, node: ast.Expr, name: str, callee: str, within: tuple[str, ...]) -> None:
        if name in within:
            chain = " → ".join(f"{callee_name}()" for callee_name in (*within[within.index(name) :], name))
            raise Fault(Diagnostic(f"{callee} calls itself: {chain}", node.span, "write a loop"))
        if len(within) >= DEEPEST:
            raise Fault(Diagnostic("calls are nested too deeply", node.span, f"at most {DEEPEST} levels"))

    def _number(self, node: ast.Expr) -> int:
        number = next(self.numbers)
        if number > MOST_EXPANSIONS:
            what = f"macros and functions are called more than {MOST_EXPANSIONS} times"
            raise ProgramError(self.source, [*self.diagnostics, Diagnostic(what, node.span)])
        return number

    def _chosen(self, node: ast.Expr, name: str, args: tuple[ast.Expr, ...]) -> ast.Macro:
        """The definition whose parameters fit best: a variable or a map before any expression."""
        definitions = self.macros[name]
        fitting = [macro for macro in definitions if len(macro.params) == len(args)]
        if not fitting:
            counts = " or ".join(str(length) for length in sorted({len(macro.params) for macro in definitions}))
            what = f"the macro {name}() takes {counts} argument{'s' if counts != '1' else ''}, not {len(args)}"
            raise Fault(Diagnostic(what, node.span, f"it is {' or '.join(map(_written, definitions))}"))
        matching = [macro for macro in fitting if all(map(_fits, macro.params, args))]
        if not matching:
            wrong = next(pair for pair in zip(fitting[0].params, args, strict=True) if not _fits(*pair))
            what = f"the macro {name}() needs {_KINDS[type(wrong[0])]} for {_word(wrong[0])}"
            raise Fault(Diagnostic(what, wrong[1].span, f"it is {' or '.join(map(_written, fitting))}"))
        return max(matching, key=lambda macro: sum(not isinstance(param, ast.Name) for param in macro.params))


def _fits(param: ast.Expr, arg: ast.Expr) -> bool:
    if isinstance(param, ast.MapRef):
        return isinstance(arg, ast.MapRef) and not arg.key
    return isinstance(param, ast.Name) or isinstance(arg, ast.Var)


def _word(param: ast.Expr) -> str:
    assert isinstance(param, (ast.Var, ast.MapRef, ast.Name))
    return param.name


def _written(macro: ast.Macro) -> str:
    return f"{macro.name}({', '.join(map(_word, macro.params))})"


class _Body:
    """The statements of a macro at one call."""

    def __init__(self, macro: ast.Macro, args: Sequence[ast.Expr], number: int) -> None:
        self.macro = macro
        self.args = {_word(param): arg for param, arg in zip(macro.params, args, strict=True)}
        self.number = number
        self.variables = {name for statement in macro.body for name in map(_assigned, walk(statement)) if name}

    def filled(self) -> list[ast.Stmt]:
        """The statements of the macro, with the arguments for the parameters."""
        return [rewrite(statement, self._change) for statement in self.macro.body]

    def _change(self, node: Any) -> Any:
        match node:
            case ast.Var(name=name) if name in self.args:
                return replace(self.args[name], span=node.span)
            case ast.Var(name=name) if name in self.variables:
                return replace(node, name=f"${self.macro.name}.{name[1:]}.{self.number}")
            case ast.MapRef(name=name):
                given = self.args.get(name)
                if not isinstance(given, ast.MapRef):
                    what = f"the macro {self.macro.name}() uses {name}, which is not one of its parameters"
                    self._fail(what, node.name_span, f"pass it: macro {self.macro.name}({name}) {{ … }}")
                return replace(node, name=given.name)
            case ast.Name(name=name) if name in self.args:
                return self.args[name]
            case ast.TypeName(name=name) if isinstance(arg := self.args.get(name), ast.TypeExpr):
                return replace(arg.type, span=node.span, suffixes=(*arg.type.suffixes, *node.suffixes))
            case ast.TypeName(name=name) if isinstance(arg := self.args.get(name.rpartition(" ")[2]), ast.Name):
                kind, blank, _ = name.rpartition(" ")
                return replace(node, name=f"{kind}{blank}{arg.name}")
            case ast.Let(target=target) if not target.name.startswith(f"${self.macro.name}."):
                self._fail(f"a parameter of {self.macro.name}() has this name already", node.span, "use another name")
            case ast.Return():
                self._fail("return is not possible in a macro", node.span, "write its value last, without a ;")
        return node

    def _fail(self, message: str, span: Span, hint: str) -> NoReturn:
        raise Fault(Diagnostic(message, span, hint))


def _assigned(node: Any) -> str | None:
    """The variable that a node makes, if it makes one."""
    match node:
        case ast.Assign(target=ast.Var() as target) | ast.Let(target=target):
            return target.name
        case ast.ForRange(target=target) | ast.ForMap(target=target):
            return target.name
    return None
