"""A definition as a program of our language, and where its parts come from in the user's line."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from tracer.dataclass import dataclass, replace
from tracer.errors import NOWHERE, Diagnostic, ProgramError, Source, Span
from tracer.foreign import model
from tracer.foreign.filter import Field, condition
from tracer.foreign.texts import part, path
from tracer.lang.syntax.lexer import KEYWORDS

_HEADER = (
    r"#           TASK-PID     CPU#         TIMESTAMP  FUNCTION\n"
    r"#              | |         |             |         |\n"
)
_AT_A_HIT = "comm, tid, cpu, nsecs / 1000000000, nsecs / 1000 % 1000000"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wishes beside the definition: a `filter` of the kernel's, one thread, a user stack, a header, JSON."""

    filter: str | None = None
    thread: int | None = None
    stack: bool = False
    header: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the probe, as an attach point of ours, and its `offset` in the file where that is needed. `notes`:
    how many arguments its USDT note states.
    """

    point: str
    offset: int = 0
    notes: int = 0


@dataclass(frozen=True, slots=True)
class Translated:
    """The program's text; the line that it is of; and for spans of the text what of the line they mean."""

    text: str
    line: Source
    spans: tuple[tuple[Span, Span], ...]

    def at_the_line(self, error: ProgramError) -> ProgramError:
        """An error in the program as one in the user's line."""
        diagnostics = dict.fromkeys(
            Diagnostic(diagnostic.message, self._meant(diagnostic.span), diagnostic.hint)
            for diagnostic in error.diagnostics
        )
        return ProgramError(self.line, list(diagnostics), error.detail, error.exit_code)

    def _meant(self, span: Span) -> Span:
        for written, meant in self.spans:
            if span != NOWHERE and written.start <= span.start < written.end:
                return meant
        return Span(0, len(self.line.text))


def translated(line: Source, definition: model.Definition, place: Place, wanted: Wanted) -> Translated:
    """The program. Raises `ProgramError` under the line, or under the filter."""
    writer = _Writer()
    if wanted.header and not wanted.json:
        writer.add(f'BEGIN {{ printf("{_HEADER}"); }}\n')
    writer.add(place.point, definition.file_span.to(definition.place_span))
    values = _Values(place.offset)
    conditions = []
    if wanted.thread is not None:
        conditions.append(f"tid == {wanted.thread}")
    if wanted.filter is not None:
        compared = fields(definition, place)
        conditions.append(condition(wanted.filter, compared))
    if conditions:
        both = " && ".join(f"({term})" if len(conditions) > 1 else term for term in conditions)
        writer.add(f"\n/{both}/")
    writer.add("\n{\n")
    for argument in definition.arguments:
        if argument.type.count is not None and not argument.type.is_string:
            writer.add("  ")
            writer.add(f"${argument.name} = {values.array(argument)};", argument.span)
            writer.add("\n")
    if wanted.json:
        _json(writer, line, definition, place, values)
    else:
        _text(writer, definition, place, values)
    # By itself: beside several strings BPF's verifier takes it for too much.
    writer.add("  print(ustack);\n}\n" if wanted.stack else "}\n")
    return Translated("".join(writer.parts), line, tuple(writer.spans))


def fields(definition: model.Definition, place: Place) -> dict[str, Field]:
    """The fields that a filter can compare: the arguments, and those that each event has."""
    values = _Values(place.offset)
    arguments = {
        argument.name: Field("" if argument.type.count is not None else values.value(argument), argument.type)
        for argument in map(_as_compared, definition.arguments)
    }
    noted = {f"arg{number + 1}": Field(f"arg{number}", model.Type("u")) for number in range(place.notes)}
    name, cpu = Field("comm", model.Type("string")), Field("cpu", model.Type("u", 32))
    every = {"common_pid": Field("tid", model.Type("s", 32)), "comm": name, "COMM": name, "cpu": cpu, "CPU": cpu}
    if not definition.returns:
        every["__probe_ip"] = Field('reg("ip")', model.Type("u"))
    return {**every, **(arguments if arguments else noted)}


def _as_compared(argument: model.Argument) -> model.Argument:
    """The kernel shows a `char` as a letter, and compares it as a number without a sign."""
    if argument.type.sort != "char":
        return argument
    return replace(argument, type=replace(argument.type, sort="u", bits=8))


class _Writer:
    """Collects the text, and which of it means what of the line."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.spans: list[tuple[Span, Span]] = []
        self._size = 0

    def add(self, text: str, meant: Span | None = None) -> None:
        if meant is not None:
            self.spans.append((Span(self._size, self._size + len(text)), meant))
        self.parts.append(text)
        self._size += len(text)


class _Values:
    """Values of arguments as expressions. `offset`: that of the probe in its file."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def value(self, argument: model.Argument) -> str:
        """The expression of an argument that is no array of numbers."""
        value, type = argument.value, argument.type
        if isinstance(value, model.ThreadName):
            return "comm"
        if type.is_string:
            return f"str({self._address(value)})"
        sort = _sort(type)
        if isinstance(value, model.Memory | model.Address | model.InFile):
            read = f"*({sort} *)({self._address(value)})"
        else:
            read = self._word(value) if sort == "uint64" else f"({sort}){self._word(value)}"
        return _bits(read, type)

    def array(self, argument: model.Argument) -> str:
        """The array that an argument is."""
        return f"*({_sort(argument.type)}[{argument.type.count}] *)({self._address(argument.value)})"

    def elements(self, argument: model.Argument) -> list[str]:
        """The expressions of an array's elements."""
        count = argument.type.count or 0
        if argument.type.is_string:
            base = self._address(argument.value)
            return [f"str(*(uint64 *)({base} + {8 * index}))" for index in range(count)]
        return [_bits(f"${argument.name}[{index}]", argument.type) for index in range(count)]

    def _address(self, value: model.Value) -> str:
        """The address that a value in memory is read at."""
        if isinstance(value, model.Address):
            return f"(uint64){value.value:#x}"
        if isinstance(value, model.InFile):
            distance = value.offset - self._offset
            return f'reg("ip") {"-" if distance < 0 else "+"} {abs(distance)}'
        assert isinstance(value, model.Memory)
        if isinstance(value.base, model.Immediate):
            return f"(uint64){(value.base.value + value.offset) % (1 << 64):#x}"
        base = self._word(value.base)
        if not value.offset:
            return base
        return f"{base} {'-' if value.offset < 0 else '+'} {abs(value.offset)}"

    def _word(self, value: model.Value) -> str:
        """A value as 64 bits."""
        if isinstance(value, model.Register):
            return f'reg("{value.name}")'
        if isinstance(value, model.Immediate):
            return f"(uint64){value.value:#x}"
        if isinstance(value, model.ReturnValue):
            return "retval"
        if isinstance(value, model.Stack):
            return 'reg("sp")' if value.entry is None else f'*(uint64 *)(reg("sp") + {8 * value.entry})'
        return f"*(uint64 *)({self._address(value)})"


def _sort(type: model.Type) -> str:
    if type.sort == "char":
        return "int8"
    return f"{'' if type.is_signed else 'u'}int{type.bits}"


def _bits(read: str, type: model.Type) -> str:
    """The bit field of a container."""
    return f"(({read} >> {type.low}) & {(1 << type.width) - 1:#x})" if type.width else read


def _conversion(type: model.Type) -> str:
    if type.is_string:
        return r"\"%s\""
    if type.sort == "char":
        return "'%c'"
    wide = "ll" if type.bits == 64 else ""
    return {"u": f"%{wide}u", "s": f"%{wide}d", "x": f"0x%{wide}x"}[type.sort]


def _where(definition: model.Definition) -> str:
    """The expression of the place that was hit: of a return the function, for how it is probed decides its place."""
    return "func" if definition.returns else 'reg("ip")'


def _text(writer: _Writer, definition: model.Definition, place: Place, values: _Values) -> None:
    shown: list[tuple[str, list[tuple[str, Span]]]] = []
    for argument in definition.arguments:
        if argument.type.count is None:
            shown.append((f" {argument.name}={_conversion(argument.type)}", [(values.value(argument), argument.span)]))
        else:
            inside = ",".join([_conversion(argument.type)] * argument.type.count)
            elements = [(text, argument.span) for text in values.elements(argument)]
            shown.append((f" {argument.name}={{{inside}}}", elements))
    if not definition.arguments:
        shown += [(f" arg{number + 1}=%s", [(f"arg{number}", definition.place_span)]) for number in range(place.notes)]
    where = "(<- %s)" if definition.returns else "(0x%llx)"
    format = "".join(text for text, _ in shown)
    writer.add(rf'  printf("%16s-%-7d [%03d] ..... %5llu.%06llu: {definition.event}: {where}{format}\n",')
    writer.add(f"\n    {_AT_A_HIT}, {_where(definition)}")
    for text, span in chain.from_iterable(printed for _, printed in shown):
        writer.add(",\n    ")
        writer.add(text, span)
    writer.add(");\n")


def _json(writer: _Writer, line: Source, definition: model.Definition, place: Place, values: _Values) -> None:
    where = f"{'function' if definition.returns else 'ip'}={_where(definition)}"
    every = f'event="{definition.event}", comm=comm, pid=pid, tid=tid, cpu=cpu, nsecs=nsecs, {where}'
    writer.add(f"  print(({every}")
    arguments: list[tuple[str, str, Span]] = []
    for argument in definition.arguments:
        count = argument.type.count
        if count is None:
            text = values.value(argument)
        elif argument.type.is_string or argument.type.width:
            text = f"({', '.join(values.elements(argument))}{',' * (count == 1)})"
        else:
            text = f"${argument.name}"
        if argument.name in KEYWORDS:
            hint = "give it another name, or -f text"
            what = f"no field of our JSON can be called {argument.name}, a word of the language"
            raise ProgramError(line, [Diagnostic(what, argument.span, hint)])
        arguments.append((argument.name, text, argument.span))
    if not definition.arguments:
        arguments += [(f"arg{number + 1}", f"arg{number}", definition.place_span) for number in range(place.notes)]
    if arguments:
        writer.add(", args=(")
        for index, (name, text, span) in enumerate(arguments):
            writer.add(", " if index else "")
            writer.add(f"{name}={text}", span)
        writer.add(")")
    writer.add("));\n")


def attach_point(kind: str, file: str, *parts: str) -> str:
    """`uprobe:"FILE":"FUNCTION"`."""
    return ":".join((kind, path(file), *map(part, parts)))


def at_offset(file: str, offset: int) -> str:
    """`uprobe:"FILE":offset:0x…`."""
    return f"uprobe:{path(file)}:offset:{offset:#x}"


def format_text(definition: model.Definition, comparable: Mapping[str, Field]) -> str:
    """The text of `-v`: the fields of an event, as the kernel's format file has them, which a filter can name."""
    types = {argument.name: argument.type for argument in definition.arguments}
    lines = [f"name: {definition.event}", "format:"]
    for name, field in comparable.items():
        if name not in types:
            lines.append(f"\tfield:{field.type.text} {name};\tsigned:{field.type.is_signed:d};")
    lines.append("")
    lines += [f"\tfield:{type.text} {name};\tsigned:{type.is_signed:d};" for name, type in types.items()]
    return "\n".join(lines) + "\n"
