"""printf, print and the control steps → records in the ring."""

from __future__ import annotations

from tracer.backends.bcc.codegen.c import C
from tracer.backends.bcc.codegen.function import CFunction, Sending
from tracer.backends.bcc.codegen.placement import Leaf, RecordStep, bare, leaves, record_values, scalar
from tracer.backends.bcc.codegen.wide import computed, pointer, symbol
from tracer.backends.bcc.events.records import Record, bytes_behind, words_of
from tracer.lang.types import UINT8, StackType, StringType, operations
from tracer.steps.model import Moment, Printf, PrintMap, PrintValue, Sample, Time
from tracer.steps.values import Name, Op

_ON_STACK_WORDS = 16
_COPIED_BY_WORDS = 4


def number_of(function: CFunction, record: Record) -> int:
    """The record's number in the program; equal ones share it."""
    records = function.shared.records
    if record not in records:
        records.append(record)
    return records.index(record)


def control(function: CFunction, record: Record) -> None:
    """A record without values that must not be lost."""
    number = number_of(function, record)
    function.line(f"emit_control({number}, &control->pending[{number}], control->wakeup);")


def exited(function: CFunction, code: C) -> None:
    """An exit() whose code is known at the hit alone."""
    number = number_of(function, Record("exit", types=(UINT8,)))
    function.line(f"emit_moment({number}, {code}, &control->pending[{number}], control->wakeup);")


def print_map(function: CFunction, step: PrintMap) -> None:
    """print(@x): of a map that probes clear, as it is at a mark."""
    record = Record("map", map=step.map, top=step.top, div=step.div, ended=step.moment is not None)
    mark = function.shared.marks.get(step.map)
    if mark is None:
        control(function, record)
        return
    number = number_of(function, record)
    if step.moment is not None:
        function.line(f"emit_ended({number}, {function.numbers[step.moment.id]}, control->wakeup);")
    else:
        pending = f"&control->pending[{number}]"
        function.line(f"emit_moment({number}, control->mark[{mark}], {pending}, control->wakeup);")


def emptied(function: CFunction, step: Moment) -> None:
    """The moment at which a series is cleared or zeroed, which user space does."""
    number = number_of(function, Record("zero" if step.zero else "clear", map=step.map))
    pending = f"&control->pending[{number}]"
    function.line(f"emit_moment({number}, {function.numbers[step.name.id]}, {pending}, control->wakeup);")


def time(function: CFunction, step: Time) -> None:
    """The moment of `time(fmt)`."""
    record = function.buffer(1, stem="record")
    function.line(f"{record.word(0)} = {number_of(function, Record('time', step.format))};")
    function.line(f"emit({record.address(0)}, 8, control->wakeup);")


def send(function: CFunction, step: RecordStep) -> None:
    """A record with values."""
    values = record_values(step)
    types = tuple(value.type for value in values)
    match step:
        case Printf(format=format):
            record = Record("printf", format, types)
        case Sample(map=map):
            record = Record("sample", types=types, map=map)
        case PrintValue(shape=shape):
            record = Record("value", shape, types)
    sending = _sending(function, step)
    every = leaves(step)
    _store_before(function, sending, every, len(every))
    function.line(f"{sending.to}[0] = {number_of(function, record)};")
    for leaf in every:
        if not bytes_behind(leaf.value.type):
            _store(function, sending.to, leaf)
    function.line(f"emit({sending.to}, {sending.end}, control->wakeup);")
    del function.records[id(step)]


def reach(function: CFunction, leaf: Leaf) -> Sending:
    """The record of a later step, which has the strings and stacks that stand before one of its leaves."""
    sending = _sending(function, leaf.step)
    every = leaves(leaf.step)
    _store_before(function, sending, every, leaf.index)
    texts = [bytes_behind(earlier.value.type) for earlier in every[: leaf.index]]
    if isinstance(leaf.value.type, StackType) and any(texts):
        # What the verifier knows of each length by itself it would follow through the whole walk.
        most = 8 * _head(leaf.step) + sum(texts)
        function.line(f"FORGET({sending.end}, {most}, {sending.to}[{leaf.word}]);")
    return sending


def _head(step: RecordStep) -> int:
    """The words of a record before its strings and stacks."""
    return 1 + sum(words_of(value.type) for value in record_values(step))


def _sending(function: CFunction, step: RecordStep) -> Sending:
    """The record of a step, opened if it is not yet."""
    sending = function.records.get(id(step))
    if sending is None:
        types = [value.type for value in record_values(step)]
        head, behind = _head(step), sum(map(bytes_behind, types))
        if behind:
            to = function.record(head + -(-behind // 8))
            sending = Sending(to, function.temporary("at", C(f"{8 * head}")).text)
        else:
            small = head <= _ON_STACK_WORDS
            to = function.buffer(head, stem="record").base if small else function.record(head)
            sending = Sending(to, f"{8 * head}")
        function.records[id(step)] = sending
    return sending


def advance(function: CFunction, sending: Sending, length: C, size: int) -> None:
    """Behind what has been written into a record."""
    function.line(f"ADVANCE({sending.end}, {length}, {size});")


def _store_before(function: CFunction, sending: Sending, every: list[Leaf], index: int) -> None:
    """Strings and stacks that stand in memory, those before a leaf; the leaf itself is the caller's."""
    for leaf in every[sending.done : index]:
        if bytes_behind(leaf.value.type):
            _store_bytes(function, sending, leaf)
    sending.done = index + 1


def _store_bytes(function: CFunction, sending: Sending, leaf: Leaf) -> None:
    kind = leaf.value.type
    source = pointer(function, leaf.value)
    place = f"(char *){sending.to} + {sending.end}"
    if isinstance(kind, StackType):
        size = 8 * kind.words
        length = function.temporary("length", C(source.word(1)))
        function.line(f"{sending.to}[{leaf.word}] = {source.word(0)};")
        function.line(f"{sending.to}[{leaf.word + 1}] = {length};")
        function.line(f"copy_kernel({place}, {size}, {source.address(2)});")
    else:
        assert isinstance(kind, StringType)
        size = kind.size
        copied = f"copy_kernel_text({place}, {size}, {source.address(0)})"
        if 0 in source.used and isinstance(leaf.value, Name) and leaf.value.id in function.read_texts:
            # What the verifier knows of a length doubles its work for each text, as long as the number is needed.
            function.line(f"{copied};")
            length = C(f"in_use(&{source.used[0]})")
        else:
            length = function.temporary("length", C(copied), "s64")
        function.line(f"{sending.to}[{leaf.word}] = {length};")
    advance(function, sending, length, size)


def _store(function: CFunction, to: str, leaf: Leaf) -> None:
    """A number, or a symbol's two."""
    value = bare(leaf.value)
    if scalar(value.type):
        parts = [computed(function, value)]
    elif isinstance(value, Op) and value.op is operations.SYMBOL:
        parts = list(symbol(function, value.args))
    else:
        held = pointer(function, value)
        if held.words > _COPIED_BY_WORDS:
            function.line(f"copy_kernel({to} + {leaf.word}, {8 * held.words}, {held.address(0)});")
            return
        parts = [C(held.word(index)) for index in range(words_of(value.type))]
    for index, part in enumerate(parts):
        function.line(f"{to}[{leaf.word + index}] = {part};")
