"""A program's text from the words of a command line.

Each word is read by the parser of the language by itself, to its end, before it is put anywhere: what is wrong is shown
under that word, and no word can end the part of the program that it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.dataclass import dataclass
from tracer.errors import Diagnostic, Fault, ProgramError, Source, Span, UsageError
from tracer.kinds.registry import SPELLINGS
from tracer.lang.syntax import ast, attach
from tracer.lang.syntax.lexer import Lexer
from tracer.lang.syntax.parser import Parser
from tracer.lang.walk import walk

UNPRINTED = "config = { print_maps_on_exit = false }\n"
"""Before a program that prints its maps itself."""

STACKS = "config = { show_stacks = true }\n"
"""Before a program whose clauses without a body show the stack of each hit: in its record, since between two events
another thread's may come, and two clauses of a call have a duration each.
"""

_TYPED = "typed_retval = true"
"""What gives `retval` its type in a uretprobe too, where it is else bpftrace's uint64."""

_BY = re.compile(r"\s+by\b")
_PERIOD = re.compile(r"([1-9]\d*)(ms|s|m|)")
_ESCAPED_OR_QUOTE = re.compile(r'\\.|"', re.S)


@dataclass(frozen=True, slots=True)
class Probe:
    """An attach point as the language spells it; `kind` as in the text, "span" for one with its key."""

    text: str
    kind: str

    @property
    def is_span(self) -> bool:
        """Whether it is what lies between two probes."""
        return self.kind == "span"

    @property
    def is_function(self) -> bool:
        """Whether it is a function's entry, or a place in one."""
        return not (self.is_span or self.is_event or SPELLINGS[self.kind].has_notes)

    @property
    def is_event(self) -> bool:
        """Whether it is in no file: an event of the kernel, a sample, a watched address."""
        return not self.is_span and not SPELLINGS[self.kind].target

    @property
    def several(self) -> bool:
        """Whether it may be several probes."""
        return any(mark in self.text for mark in "*?[")

    @property
    def file(self) -> str:
        """The part that names the file."""
        return attach.scan(self.text, 0)[0][1].text

    def at_return(self) -> Probe:
        """The return of the same function."""
        if self.is_span:
            return self
        kind = SPELLINGS[self.kind]
        if not kind.enters or "return" in kind.reads:
            return self
        return Probe(f"uretprobe:{self.text.partition(':')[2]}", "uretprobe")

    def whole_call(self) -> Probe:
        """The calls of the same function, or the span. Raises `UsageError`."""
        if self.is_span:
            return self
        kind = SPELLINGS[self.kind]
        if "call" in kind.reads:
            return self
        if not self.is_function or not kind.enters:
            span = f"span:{self.text}..PROBE is what lies between two"
            hint = span if self.is_event else "name one, such as libc:getaddrinfo"
            raise UsageError(f"{self.text}: only functions are called", hint)
        return Probe(f"call:{self.text.partition(':')[2]}", "call")


@dataclass(frozen=True, slots=True)
class Words:
    """An expression, or several with commas between them, as they were given."""

    text: str = ""
    values: tuple[ast.Expr, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether it is a mere number, as it needs no brackets."""
        return len(self.values) == 1 and isinstance(self.values[0], ast.IntLit)

    def names(self, name: str) -> bool:
        """Whether a bare word of the language stands in it, such as `retval`."""
        return any(isinstance(node, ast.Name) and node.name == name for value in self.values for node in walk(value))


def probe(word: str) -> Probe:
    """A probe: without a kind it is a function. Raises `ProgramError`, `UsageError`."""
    kind = word.partition(":")[0]
    if ":" not in word:
        raise UsageError(
            f"{word}: no probe", "a function is FILE:FUNCTION, such as libc:malloc; --by EXPR counts by a value"
        )
    has_kind = kind in SPELLINGS or kind == "span" or attach.refusal(kind) is not None
    lead = "" if has_kind else "uprobe:"
    source = Source(word, "PROBE")
    try:
        point, end = attach.read(lead + word, 0)
    except Fault as fault:
        diagnostic = fault.diagnostic
        place = Span(max(diagnostic.span.start - len(lead), 0), max(diagnostic.span.end - len(lead), 1))
        raise ProgramError(source, [Diagnostic(diagnostic.message, place, diagnostic.hint)]) from None
    if point.until is not None and (by := _BY.match(word, end)):
        _read(word[by.end() :], "PROBE", lambda parser: (parser.key(),))
        return Probe(word, "span")
    if end < len(lead + word):
        place = Span(end - len(lead), len(word))
        hint = 'a file or name with blanks or commas needs quotes of its own: \'"/my app":"f(int, char)"\''
        raise ProgramError(source, [Diagnostic("the probe has ended before this", place, hint)])
    if not SPELLINGS[point.kind].clause.at_hits:
        what = f"{kind} is hit by no program"
        raise ProgramError(source, [Diagnostic(what, Span(0, len(kind)), "-i runs at fixed times")])
    return Probe(lead + word, kind if has_kind else "uprobe")


def probes_for(words: Sequence[str], *parts: Words) -> list[Probe]:
    """The probes, at their returns where one of these expressions names `retval`. Raises `ProgramError`,
    `UsageError`.
    """
    probes = [probe(word) for word in words]
    return [asked.at_return() for asked in probes] if any(part.names("retval") for part in parts) else probes


def typed_result(text: str, probes: Sequence[Probe], *parts: Words) -> str:
    """The program `text`, with the setting that types `retval` where one of these expressions names it."""
    returns = any(not one.is_span and "call" not in SPELLINGS[one.kind].reads for one in probes)
    if not returns or not any(part.names("retval") for part in parts):
        return text
    config = "config = { "
    rest = f"; {text.removeprefix(config)}" if text.startswith(config) else f" }}\n{text}"
    return f"{config}{_TYPED}{rest}"


def expression(word: str, name: str) -> Words:
    """One expression; `name` is what the word is called in messages. Raises `ProgramError`."""
    return _read(word, name, lambda parser: (parser.enclosed(),))


def condition(word: str, name: str) -> Words:
    """A predicate, without its slashes. Raises `ProgramError`."""
    return _read(word, name, lambda parser: (parser.predicate(),))


def expressions(word: str, name: str) -> Words:
    """Expressions with commas between them. Raises `ProgramError`."""

    def several(parser: Parser) -> tuple[ast.Expr, ...]:
        values = [parser.enclosed()]
        while parser.accept(","):
            values.append(parser.enclosed())
        return tuple(values)

    return _read(word, name, several)


def format_text(word: str) -> str:
    r"""The inside of a string of the language: `\n` and its kin mean what they do there. Raises `ProgramError`."""
    inner = _ESCAPED_OR_QUOTE.sub(lambda match: r"\"" if match[0] == '"' else match[0], word).replace("\n", r"\n")
    quoted = Source(f'"{inner}"', "FORMAT")
    try:
        token = Lexer(quoted).take()
    except Fault as fault:
        raise ProgramError(quoted, [fault.diagnostic]) from None
    if token.kind != "string" or token.span.end != len(quoted.text):
        raise ProgramError(quoted, [Diagnostic("this is no text", Span(0, len(quoted.text)), r"write a \ twice")])
    return inner


def clause(probes: Sequence[Probe], where: Words, body: str | None) -> str:
    """A clause, in a line; without a body it shows the hits."""
    return clause_of(", ".join(probe.text for probe in probes), where, body)


def clause_of(points: str, where: Words, body: str | None) -> str:
    """The same, of attach points as the language spells them."""
    inner = where.text if not where.text.startswith("*") else f" {where.text}"  # `/*` begins a comment
    rest = "" if body is None else f" {{ {body} }}"
    return f"{points}{f' /{inner}/' if inner else ''}{rest}\n"


def key_of(probes: Sequence[Probe], by: Words) -> str:
    """The key of a map, without brackets: as asked, else the probe where there may be several."""
    if by.text:
        return by.text
    if len(probes) == 1 and not probes[0].several:
        return ""
    if any(probe.is_span for probe in probes):
        return "probe"
    one_file = len({probe.file for probe in probes}) == 1 and not any(mark in probes[0].file for mark in "*?[")
    one_kind = len({probe.kind for probe in probes}) == 1
    return "func" if one_file and one_kind and all(probe.is_function for probe in probes) else "probe"


def printed(maps: Sequence[str], period: str | None, times: int | None, top: int | None) -> tuple[str, str]:
    """The clauses before a program and after it, so that the `maps` are printed every `period`, `times` times, of each
    the `top` greatest. Raises `UsageError`.
    """
    if times is not None and period is None:
        raise UsageError("-n needs -i", "it is how many times -i prints; --duration TIME ends a trace after so long")
    if period is None and top is None:
        return "", ""
    prints = " ".join(f"print({name}{f', {top}' if top is not None else ''});" for name in maps)
    if period is None:
        return UNPRINTED, f"END {{ {prints} }}\n"
    clears = " ".join(f"clear({name});" for name in maps)
    counted = "" if times is None else f" @times++; if (@times >= {times}) {{ exit(); }}"
    end = prints if times is None else f"if (@times < {times}) {{ {prints} }}"
    every = f'{_interval(period)} {{ time("%H:%M:%S\\n"); {prints} {clears}{counted} }}\n'
    return UNPRINTED, f"{every}END {{ {end} }}\n"


def _interval(period: str) -> str:
    match = _PERIOD.fullmatch(period)
    if match is None:
        raise UsageError(f"-i {period}: no length of time", "100ms, 1s and 5m are, and 5, in seconds")
    amount, unit = int(match[1]), match[2] or "s"
    return f"interval:s:{60 * amount}" if unit == "m" else f"interval:{unit}:{amount}"


def _read(word: str, name: str, read: object) -> Words:
    source = Source(word, name)
    if "\n" in word:
        raise ProgramError(source, [Diagnostic("a value stands in one line", Span(0, 1), "-e takes whole programs")])
    parser = Parser(source, ())
    try:
        values = read(parser)  # type: ignore[operator]
        token = parser.lexer.peek()
        if token.kind != "end":
            hint = "a whole program is given with -e; --show prints the one of this command"
            parser.fail(f"the value has ended before {token.describe()}", token.span, hint)
        lexer, end = Lexer(source), 0
        while (token := lexer.take()).kind != "end":  # a comment behind the last word would go on
            end = token.span.end
    except Fault as fault:
        raise ProgramError(source, [*parser.diagnostics, fault.diagnostic]) from None
    if parser.diagnostics:
        raise ProgramError(source, parser.diagnostics)
    return Words(word[:end].strip(), values)
