"""The grammar of uprobe_events, and the short forms of perf-tools (`p:libc:sleep %di`), read into `model`.

Each fault is one sentence under the user's own word. What the kernel takes at a uprobe (tried on 6.18) is taken, and
what it refuses is refused.
"""

from __future__ import annotations

import re

from tracer.errors import Diagnostic, ProgramError, Source, Span
from tracer.foreign import model
from tracer.kinds.arch import X86_REGISTERS, native

MOST_ARGUMENTS = 128
"""MAX_TRACE_ARGS of the kernel."""

MOST_ELEMENTS = 64
"""MAX_ARRAY_LEN of the kernel."""

_DEEPEST = 32
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.A)
_DIGITS = r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*"
_NUMBER = re.compile(_DIGITS, re.A)
_PLACE = re.compile(rf"(?P<offset>{_DIGITS})(?:\((?P<semaphore>[^()]*)\))?(?P<returns>%return)?", re.A)
_DEREFERENCE = re.compile(rf"([+-])u?({_DIGITS})\(", re.A)
_NUMERIC = re.compile(r"([usx])(8|16|32|64)", re.A)
_BIT_FIELD = re.compile(r"b([1-9][0-9]?)@(0|[1-9][0-9]?)/([1-9][0-9]?)", re.A)
_WORD = re.compile(r"\S+")
_TAKEN = {
    "common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid", "common_cpu",
    "__probe_ip", "__probe_func", "__probe_ret_ip",
}  # fmt: skip
_OF_THE_KERNEL = {
    "symbol": "it names addresses of the kernel, and a uprobe has none",
    "symstr": "it names addresses of the kernel, and a uprobe has none",
    "%pd": "it reads a dentry of the kernel",
    "%pD": "it reads a file of the kernel",
}
_IN_RETURNS = "it depends on how the return is probed: by the kernel behind it, or at the instruction before"


class Line:
    """A line and where its parts stand."""

    def __init__(self, text: str, name: str) -> None:
        self.source = Source(text, name)

    def fail(self, message: str, start: int, end: int, hint: str | None = None) -> ProgramError:
        """The error under a part of the line."""
        size = len(self.source.text)
        start = min(start, size)
        return ProgramError(self.source, [Diagnostic(message, Span(start, max(min(end, size), start)), hint)])

    def words(self) -> list[re.Match[str]]:
        """The words, which blanks part."""
        return list(_WORD.finditer(self.source.text))


def read(text: str, notes: bool = False, name: str = "-e") -> model.Definition:
    """The definition; `notes`: its places are USDT probes (`FILE:PROVIDER:NAME`). Raises `ProgramError`."""
    line = Line(text, name)
    for char in re.finditer(r"[^ -~\t]", text):
        if not char.group().isprintable():
            raise line.fail("a character that cannot be printed stands here", char.start(), char.end())
    words = line.words()
    if not words:
        raise line.fail("the definition is empty", 0, 0, "p:FILE:FUNCTION is one, and p:NAME FILE:0xOFFSET %di")
    returns, event, rest = _head(line, words, notes)
    if not rest:
        end = words[-1].end()
        raise line.fail("no place to probe", end, end, "FILE:FUNCTION, or FILE:0xOFFSET, follows")
    start, word = rest[0]
    file, place, offset, semaphore, also = _place(line, start, word, notes)
    if also and returns:
        raise line.fail("%return stands behind p alone", start, start + len(word))
    returns = returns or also
    if notes and returns:
        raise line.fail("a USDT probe has no return", words[0].start(), words[0].start() + 1, "p:FILE:PROVIDER:NAME")
    arguments: list[model.Argument] = []
    for begin, text_of_argument in rest[1:]:
        argument = _Argument(line, begin, text_of_argument, returns).read(len(arguments) + 1)
        if any(argument.name == other.name for other in arguments):
            raise line.fail(f"there is a second argument {argument.name}", begin, begin + len(text_of_argument))
        arguments.append(argument)
        if len(arguments) > MOST_ARGUMENTS:
            message = f"more than {MOST_ARGUMENTS} arguments, which no event of the kernel has"
            hint = "give several definitions, or a program of ours"
            raise line.fail(message, begin, begin + len(text_of_argument), hint)
    event_name = event or re.sub(r"\W", "_", _named(file, place, offset), flags=re.A)[:63]
    if event_name[:1].isdigit():
        event_name = f"_{event_name[:62]}"
    width = len(file)
    return model.Definition(
        returns, event_name, file, place, offset, semaphore, tuple(arguments), Span(start, start + width),
        Span(start + width + 1, start + len(word)),
    )  # fmt: skip


def _named(file: str, place: str, offset: int | None) -> str:
    """The event's name where none is given, as perf-tools makes it."""
    if offset is None:
        return place.rpartition(":")[2]
    return f"{file.rpartition('/')[2].partition('.')[0]}_{place}"


def _head(line: Line, words: list[re.Match[str]], notes: bool) -> tuple[bool, str, list[tuple[int, str]]]:
    """Whether it is a return; the event's name; and the words behind, each with its place."""
    first, start = words[0].group(), words[0].start()
    letter, colon, behind = first.partition(":")
    rest = [(word.start(), word.group()) for word in words[1:]]
    if letter == "-":
        hint = "what tracer probes goes when its trace ends; tracer cleanup removes what a killed one left"
        raise line.fail("-:EVENT removes an event of the kernel", start, start + len(first), hint)
    if letter not in ("p", "r"):
        if notes and ":" in first:
            return False, "", [(start, first), *rest]
        if re.fullmatch(r"[pr][0-9]+", letter):
            raise line.fail("a number behind p or r is for kprobes alone", start, start + len(letter), "p: or r:")
        raise line.fail("a definition begins with p: or r:", start, start + len(first), "p:FILE:FUNCTION")
    returns = letter == "r"
    if not colon:
        return returns, "", rest
    if not behind:
        raise line.fail("p: and r: are followed by a name, or by FILE:FUNCTION", start, start + len(first))
    begin = start + 2
    if ":" in behind:
        return returns, "", [(begin, behind), *rest]
    group, slash, name = behind.partition("/")
    if not slash:
        group, name = "", behind
    if not rest and "/" in behind:
        raise line.fail("a file without a place in it", begin, begin + len(behind), "FILE:FUNCTION, or FILE:0xOFFSET")
    for part in (group, name):
        if part and not _NAME.fullmatch(part):
            hint = "letters, digits and _ make a name, 63 at most"
            raise line.fail(f"{part} is no name of an event or a group", begin, begin + len(behind), hint)
    return returns, name, rest


def _place(line: Line, start: int, word: str, notes: bool) -> tuple[str, str, int | None, int | None, bool]:
    """The file, the place in it, its offset, the semaphore's, and whether %return stands behind."""
    end = start + len(word)
    file, colon, place = word.rpartition(":")
    if notes and colon and not _PLACE.fullmatch(place):
        file, _, place = word.partition(":")  # PROVIDER:NAME
    if not colon or not file or not place:
        raise line.fail("a place is FILE:FUNCTION or FILE:0xOFFSET", start, end)
    begin = start + len(file) + 1
    numbered = _PLACE.fullmatch(place)
    if numbered is None:
        if "(" in place and not notes and _NUMBER.match(place):
            raise line.fail("behind an offset stand a semaphore's in brackets, %return, or nothing", begin, end)
        returns = place.endswith("%return")
        place = place.removesuffix("%return")
        if not re.fullmatch(r"[^\s\"'\\]+", place):
            raise line.fail("no name of a function has quotes or backslashes", begin, end)
        return file, place, None, None, returns
    semaphore = None
    if numbered["semaphore"] is not None:
        written = numbered["semaphore"]
        if not _NUMBER.fullmatch(written):
            inside = begin + numbered.start("semaphore")
            raise line.fail("a semaphore is the number of its place in the file", inside, inside + len(written))
        semaphore = _int(written)
    return file, numbered["offset"], _int(numbered["offset"]), semaphore, numbered["returns"] is not None


class _Argument:
    """The parser of one word `NAME=VALUE:TYPE`, from `start` on in the line."""

    def __init__(self, line: Line, start: int, word: str, returns: bool) -> None:
        self._line, self._start, self._word, self._returns = line, start, word, returns

    def _fail(self, message: str, begin: int = 0, end: int | None = None, hint: str | None = None) -> ProgramError:
        end = len(self._word) if end is None else end
        return self._line.fail(message, self._start + begin, self._start + end, hint)

    def read(self, number: int) -> model.Argument:
        word = self._word
        name, begin = f"arg{number}", 0
        named = re.match(r"([^=%@$\\+\-(]*)=", word)
        if named is not None:
            name, begin = named[1], named.end()
            if not _NAME.fullmatch(name):
                raise self._fail("no name of an argument", 0, begin, "letters, digits and _ make one")
            if name in _TAKEN:
                raise self._fail(f"{name} is a field of every event", 0, begin, "take another name")
        end, type_text = len(word), ""
        if not word.startswith('\\"', begin) and (colon := word.find(":", begin)) >= 0:
            end, type_text = colon, word[colon + 1 :]
            if not type_text:
                raise self._fail("no type behind the colon", colon, colon + 1, "u32 is one, and string")
        value = self._value(begin, end, 0)
        type = self._type(end + 1, type_text, value) if type_text else _plain(value)
        self._fits(value, type, end + 1)
        return model.Argument(name, value, type, Span(self._start, self._start + len(word)))

    def _value(self, begin: int, end: int, depth: int) -> model.Value:
        text = self._word[begin:end]
        if not text:
            raise self._fail("a value is missing", begin, max(end, begin + 1), "%REG, $retval, +OFFSET(%REG) are some")
        if depth > _DEEPEST:
            raise self._fail("too many brackets inside each other", begin, end)
        if text[0] == "%":
            return self._register(begin, end)
        if text[0] == "$":
            return self._variable(begin, end)
        if text[0] == "@":
            return self._fixed_address(begin, end)
        if text[0] == "\\":
            return self._immediate(begin, end)
        if text[0] in "+-":
            dereference = _DEREFERENCE.match(text)
            if dereference is None or not text.endswith(")"):
                raise self._fail("memory is read by +OFFSET(VALUE) or -OFFSET(VALUE)", begin, end)
            offset = _int(dereference[2])
            if offset >= 1 << 63:
                raise self._fail("an offset has 63 bits", begin, end)
            inner = self._value(begin + dereference.end(), end - 1, depth + 1)
            if isinstance(inner, model.ThreadName):
                raise self._fail("$comm is no address", begin + dereference.end(), end - 1)
            return model.Memory(-offset if dereference[1] == "-" else offset, inner)
        if re.match(r"[0-9]+\(", text):
            raise self._fail("an offset has its sign", begin, end, f"write +{text}")
        hint = "%REG, @ADDRESS, $stack, $retval, $comm, \\NUMBER and +OFFSET(VALUE) are values"
        raise self._fail(f"{text} is no value", begin, end, hint)

    def _register(self, begin: int, end: int) -> model.Value:
        name, arch = self._word[begin + 1 : end], native()
        registers = () if arch is None else (*arch.registers, *arch.state)
        register = "ip" if name == "pc" and "x0" in registers else name
        if register not in registers:
            near = X86_REGISTERS.get(name, ("",))[0] if "ax" in registers else f"x{name[1:]}"
            hint = f"the kernel calls it %{near}" if near in registers else f"there are {', '.join(registers)}"
            raise self._fail(f"there is no register %{name}", begin, end, hint)
        if self._returns and register in ("ip", "sp"):
            raise self._fail(f"%{name} is not known in a return: {_IN_RETURNS}", begin, end)
        return model.Register(register)

    def _variable(self, begin: int, end: int) -> model.Value:
        text = self._word[begin:end]
        if text in ("$comm", "$COMM"):
            return model.ThreadName()
        if text == "$retval":
            if not self._returns:
                raise self._fail("$retval is known in a return", begin, end, "a definition of one begins with r:")
            return model.ReturnValue()
        if stack := re.fullmatch(r"\$stack([0-9]*)", text, re.A):
            if self._returns:
                raise self._fail(f"{text} is not known in a return: {_IN_RETURNS}", begin, end)
            entry = int(stack[1]) if stack[1] else None
            if entry is not None and entry >= 1 << 32:
                raise self._fail("the stack has no such entry", begin, end)
            return model.Stack(entry)
        if argument := re.fullmatch(r"\$arg([0-9]+)", text, re.A):
            arch = native()
            argument_registers = arch.args if arch is not None else ()
            number = int(argument[1]) - 1
            hint = "name its register or place"
            if 0 <= number < len(argument_registers):
                hint = f"on this machine it is %{argument_registers[number]}"
            raise self._fail("the kernel knows $argN at its own functions alone", begin, end, hint)
        hint = "there are $stack, $stackN, $retval and $comm"
        raise self._fail(f"there is no {text}", begin, end, hint)

    def _fixed_address(self, begin: int, end: int) -> model.Value:
        text = self._word[begin + 1 : end]
        if _NUMBER.fullmatch(text):
            return model.Address(self._word_of(text, begin, end))
        if _NUMBER.fullmatch(text[1:]) and text[0] == "+":
            if self._returns:
                message = "@+OFFSET is not known in a return: the file's place in memory follows from the probe's own"
                raise self._fail(message, begin, end, "@ADDRESS is, where the file is loaded where it says")
            return model.InFile(self._word_of(text[1:], begin, end))
        hint = "@ADDRESS and @+OFFSET are numbers; the kernel knows no names of a program"
        raise self._fail(f"@{text} is no place in memory", begin, end, hint)

    def _immediate(self, begin: int, end: int) -> model.Value:
        text = self._word[begin + 1 : end]
        if text.startswith('"'):
            message = "a text that is written is no value of a hit, and the kernel shows (fault) for it"
            raise self._fail(message, begin, end)
        digits = text.removeprefix("-")
        if not _NUMBER.fullmatch(digits):
            raise self._fail("behind a backslash stands a number", begin, end, "\\5, \\0xff, \\-1")
        number = self._word_of(digits, begin, end)
        if text != digits and number > 1 << 63:
            raise self._fail("the number does not fit into 64 bits", begin, end)
        return model.Immediate(-number % (1 << 64) if text != digits else number)

    def _word_of(self, digits: str, begin: int, end: int) -> int:
        number = _int(digits)
        if number >= 1 << 64:
            raise self._fail("the number does not fit into 64 bits", begin, end)
        return number

    def _type(self, begin: int, text: str, value: model.Value) -> model.Type:
        count = None
        array = re.fullmatch(r"([^\[\]]*)\[([0-9]+)\]", text, re.A)
        if array is not None:
            text, count = array[1], int(array[2])
            if not 1 <= count <= MOST_ELEMENTS:
                raise self._fail(f"an array has 1 to {MOST_ELEMENTS} elements", begin)
        end = begin + len(text)
        if text in _OF_THE_KERNEL:
            raise self._fail(f"the type {text} is not for uprobes: {_OF_THE_KERNEL[text]}", begin, end, "x64 shows it")
        if text in ("string", "ustring", "char"):
            return model.Type(text, 8 if text == "char" else 64, count=count)
        if numeric := _NUMERIC.fullmatch(text):
            return model.Type(numeric[1], int(numeric[2]), count=count)
        if bits := _BIT_FIELD.fullmatch(text):
            width, low, size = map(int, bits.groups())
            if size not in (8, 16, 32, 64):
                raise self._fail("a bit field lies in 8, 16, 32 or 64 bits", begin, end, "b5@3/32")
            if width + low > size:
                raise self._fail(f"there are no {width} bits from bit {low} on in {size}", begin, end)
            return model.Type("u", size, width, low, count)
        hint = "u8 to u64, s8 to s64, x8 to x64, char, string, ustring, b5@3/32, and an array u32[4] of each"
        raise self._fail(f"there is no type {text}", begin, end, hint)

    def _fits(self, value: model.Value, type: model.Type, begin: int) -> None:
        in_memory = isinstance(value, model.Memory | model.Address | model.InFile)
        if isinstance(value, model.ThreadName):
            if type != model.Type("string"):
                raise self._fail("$comm is a string", begin)
        elif type.is_string and not in_memory:
            hint = f"+0({self._word[: begin - 1].rpartition('=')[2]}):string reads the text that it points to"
            raise self._fail("a string lies in memory", begin, hint=hint)
        elif type.count is not None and not in_memory:
            raise self._fail("an array lies in memory", begin, hint="+0(%REG):u32[4] reads one")


def _plain(value: model.Value) -> model.Type:
    """The type where none is written."""
    return model.Type("string") if isinstance(value, model.ThreadName) else model.Type("x")


def _int(digits: str) -> int:
    """A number as the kernel reads it: 0x is hexadecimal, a leading 0 octal."""
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    if len(digits) > 1 and digits[0] == "0":
        return int(digits, 8)
    return int(digits) if len(digits) < 40 else 1 << 64
