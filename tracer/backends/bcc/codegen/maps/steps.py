"""Map steps → calls of the prelude, on the table or tables that hold the map."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tracer.backends.bcc.codegen.c import C, binary, c_type, call, cast, choice, literal
from tracer.backends.bcc.codegen.callbacks import Callback, callback, given_to, taken_from
from tracer.backends.bcc.codegen.function import Buffer, CFunction
from tracer.backends.bcc.codegen.maps.array_index import FIRST, index_of
from tracer.backends.bcc.codegen.placement import KeyStep, bare, scalar
from tracer.backends.bcc.codegen.wide import all_used, clear, computed, into, pointer, zero
from tracer.backends.bcc.maps.element_bytes import size_of
from tracer.backends.bcc.maps.tables import Table
from tracer.lang.aggregations.registry import buckets_of, kept_of
from tracer.lang.types import BOOL, IntType, StringType, Type, operations
from tracer.steps import model, values
from tracer.steps.values import Const, Name, Op, Value
from tracer.steps.walk import used, walk

FIRST_TABLE = 4
"""MAP numbers below it are the control block, the losses, the ring and the scratch slots."""


def get(function: CFunction, step: model.MapGet) -> None:
    """A value out of a map; 0 or empty where the key is not there."""
    table = function.shared.tables[step.map]
    words = _find(function, table, step)
    kind = step.name.type
    if scalar(kind):
        value = choice(words, _stored(table, words), C("0"), "u64")
        function.declare(step.name.id, kind, value)
        return
    to = function.home(step.name)
    if isinstance(kind, StringType):
        clear(function, to)
    with function.block(f"if ({words})"):
        _copy(function, kind, to, size_of(kind), words.text)
    if not isinstance(kind, StringType):
        with function.block("else"):
            zero(function, to)


def _copy(function: CFunction, kind: Type, to: Buffer, size: int, source: str) -> None:
    """Copies so many bytes of a map's element; of a string what is there, into a buffer that is empty."""
    all_used(function, to, size)
    text = "_text" if isinstance(kind, StringType) else ""
    function.line(f"copy_kernel{text}({to.address(0)}, {size}, {source});")


def for_each(function: CFunction, step: model.Each, body: Callable[[], None]) -> None:
    """`for ($kv : @x)`: the kernel calls a function for each element of each of the map's tables."""
    table = function.shared.tables[step.map]
    layout = table.key
    assert layout is not None
    pair = function.home(step.name)
    carried = _carried(table)
    first: Callback | None = None
    for tier, size in enumerate(layout.sizes):

        def round(size: int = size) -> None:
            for name in carried:  # what was cleared before the loop began may still be there
                now = "each->key[1]" if name == "mark" else "(u32)each->key[0]"
                function.line(f"if ({now} != each->{name})")
                function.line("\tgoto next;")
            _pair(function, table, step, pair, size)
            body()

        called = callback(function, round, True, carried, first.given if first is not None else "")
        if first is None:
            first, given = called, given_to(function, called, carried)
        else:
            function.line(f"if (!{given}.ended)")
        walked = f"walk({_map(table, tier)}, EACH({called.name}, {called.number}), &{given}, 0);"
        function.line("\t" * bool(tier) + walked)
    assert first is not None
    taken_from(function, first, given)


def _carried(table: Table) -> dict[str, str]:
    """The words that elements of a table carry unless they have been cleared."""
    words = {} if table.generation is None else {"generation": _generation(table)}
    return words if table.mark is None else {**words, "mark": f"control->mark[{table.mark}]"}


def _pair(function: CFunction, table: Table, step: model.Each, to: Buffer, size: int) -> None:
    """Reads of key and value what the body uses. `size`: of a key in the table that is walked."""
    layout, used = table.key, _items_used(step)
    assert layout is not None
    word = 0
    for part, offset in zip(layout.parts, layout.offsets, strict=True):
        target = to.part(word, part)
        word += size_of(part) // 8
        if 0 not in used:
            continue
        there = min(size_of(part), size - offset)
        if isinstance(part, StringType) and target.used:
            clear(function, target)
        elif there < size_of(part):
            zero(function, target, there // 8)
        if there <= 16:
            for index in range(there // 8):
                function.line(f"{target.word(index)} = each->key[{offset // 8 + index}];")
        else:
            _copy(function, part if target.used else BOOL, target, there, f"each->key + {offset // 8}")
    if 1 not in used:
        return
    target, value = to.behind(word), C("each->value")
    if scalar(table.decl.value):
        function.line(f"{target.word(0)} = {cast(c_type(table.decl.value), _stored(table, value))};")
        return
    if isinstance(table.decl.value, StringType):
        clear(function, target)
    _copy(function, table.decl.value, target, size_of(table.decl.value), value.text)


def _items_used(step: model.Each) -> set[int]:
    """The parts of the loop's pair that the body uses: 0 the key, 1 the value."""
    items: set[int] = set()

    def look(value: Value) -> None:
        match value:
            case Op(op=operations.ITEM, args=(Name() as whole, Const(value=int(index)))) if whole == step.name:
                items.add(index)
            case Op(args=args):
                for arg in args:
                    look(arg)
            case Name() if value == step.name:
                items.update((0, 1))

    for inner in walk(step.body):
        for value in used(inner):
            look(value)
    return items


def _stored(table: Table, words: C) -> C:
    signed = isinstance(table.decl.value, IntType) and table.decl.value.signed
    return C(kept_of(table.decl).read[0 if signed else 1].format(words))


def has(function: CFunction, step: model.MapHas) -> None:
    """Whether a key is there; of a histogram, any of its buckets."""
    table = function.shared.tables[step.map]
    if table.buckets == 1:
        function.declare(step.name.id, step.name.type, call("present", _find(function, table, step)))
    else:
        function.declare(step.name.id, step.name.type, _any_bucket(function, table, _key(function, table, step)))


def length(function: CFunction, step: model.MapLength) -> None:
    """Makes the number of a map's keys: what the programs counted, and what user space put in or took out."""
    index = function.shared.tables[step.map].length
    assert index is not None
    function.declare(step.name.id, step.name.type, f"control->made[{index}] + control->given[{index}]")


def assign(function: CFunction, step: model.MapSet) -> None:
    """`@x[key] = value`."""
    table = function.shared.tables[step.map]
    decl, call_of = table.decl.value, "assign"
    if scalar(decl):
        source = function.temporary("value", computed(function, step.value)).text
        # What a thread deletes of its own is a new key again, and nobody else looks at it.
        if table.deleted and any(_is_thread(function, part) for part in step.key):
            source = f"&{source}"
        else:
            call_of = "assign_word"
    elif step.value.type == decl and isinstance(step.value, Name):
        source = pointer(function, step.value).address(0)
    else:
        value = function.whole(step, "value")
        into(function, step.value, value, decl)
        source = value.address(0)
    key = _key(function, table, step)
    _on_table(function, table, key, f"{call_of}({{map}}, {{key}}, {source}, {_length(table)});")


def _is_thread(function: CFunction, part: Value) -> bool:
    part = bare(part)
    step = function.placement.defined.get(part.id) if isinstance(part, Name) else None
    return isinstance(step, model.Fetch) and step.source == values.BuiltIn("tid")


def add(function: CFunction, step: model.MapAdd) -> None:
    """`@x[key] += value`, atomically, and the value before."""
    table = function.shared.tables[step.map]
    if step.before is None:
        _add(function, table, step, step.value)
        return
    value = _once(function, step.value)
    key = _key(function, table, step)
    before = function.declare(step.before.id, step.before.type, "0")
    _on_table(function, table, key, f"{before} = fetch_add({{map}}, {{key}}, {value}, {_length(table)});")


def update(function: CFunction, step: model.Update) -> None:
    """`@x[key] = count()` and its kin."""
    table = function.shared.tables[step.map]
    decl = table.decl
    if step.value is None:
        _add(function, table, step, None)
        return
    buckets, encode = buckets_of(decl), kept_of(decl).encode
    bucket = encoded = None
    number = computed(function, step.value) if buckets is not None or encode is not None else C("")
    if buckets is not None:
        number = number if encode is None else function.temporary("number", cast("u64", number))
        arguments = (literal(argument, IntType()) for argument in buckets.arguments(*buckets.of(decl)))
        bucket = function.temporary("bucket", call(buckets.function, cast("u64", number), *arguments), "u32")
    if encode is not None:
        signed = isinstance(decl.value, IntType) and decl.value.signed
        encoded = function.temporary("value", call(encode[0 if signed else 1], number))
    _add(function, table, step, None if buckets is not None else step.value, bucket, encoded)


def delete(function: CFunction, step: model.MapDelete) -> None:
    """`delete(@x, key)`, and whether there was one: of a histogram, all its buckets."""
    table = function.shared.tables[step.map]
    key = _key(function, table, step)
    result = step.result
    if table.buckets == 1:
        given = "" if result is None else f"{function.declare(result.id, result.type, C('0'))} = "
        _on_table(function, table, key, f"{given}remove({{map}}, {{key}}, {_length(table)});")
        return
    if table.length is not None or result is not None:
        there = _any_bucket(function, table, key)
        if result is not None:
            function.declare(result.id, result.type, there)
        if table.length is not None:
            with function.block(f"if ({there})"):
                function.line(f"__sync_fetch_and_add({_length(table)}, -1);")
    with _each_bucket(function, table, key):
        _on_table(function, table, key, "map_delete({map}, {key});")


# --- keys ---


def _key(function: CFunction, table: Table, step: KeyStep, bucket: C | None = None) -> Buffer:
    """Writes what is still missing of a key."""
    layout = table.key
    assert layout is not None
    whole = bare(step.key[0]) if len(step.key) == 1 and not layout.head else None
    if isinstance(whole, Name) and whole.type == layout.parts[0] and not scalar(whole.type):
        return function.buffers[whole.id]  # the key is what has been read, wherever it is
    key = function.whole(step, "key")
    for part, kind, offset in zip(step.key, layout.parts, layout.offsets, strict=True):
        into(function, part, key.part(offset // 8, kind), kind)
    if layout.head:
        # Last: reading a part may have waited for a page, and the map may have been cleared meanwhile.
        function.line(f"{key.word(0)} = {_head(table, bucket)};")
    if table.mark is not None:
        function.line(f"{key.word(1)} = control->mark[{table.mark}];")
    return key


def _generation(table: Table) -> str:
    return f"(u32)control->generation[{table.generation}]"


def _head(table: Table, bucket: C | None) -> str:
    generation = _generation(table) if table.generation is not None else ""
    high = f"(u64){bucket} << 32" if bucket is not None else ""
    return " | ".join(filter(None, (generation, high))) or "0"


# --- tables ---


def _find(function: CFunction, table: Table, step: KeyStep) -> C:
    """A pointer to the words of a map's value, or NULL."""
    key = _key(function, table, step)
    pointer_to = C(function.name("found"))
    if len(table.numbers) == 1:
        function.line(f"u64 *{pointer_to} = map_lookup({_map(table)}, {key.address(0)});")
    else:
        function.line(f"u64 *{pointer_to};")
        _on_table(function, table, key, f"{pointer_to} = map_lookup({{map}}, {{key}});")
    return pointer_to


def _any_bucket(function: CFunction, table: Table, key: Buffer) -> C:
    """Whether any bucket of a histogram's key is there; leaves another bucket in the key's head."""
    any_bucket = function.temporary("any", C("0"))
    with _each_bucket(function, table, key):
        _on_table(function, table, key, f"{any_bucket} |= present(map_lookup({{map}}, {{key}}));")
    return any_bucket


@contextmanager
def _each_bucket(function: CFunction, table: Table, key: Buffer) -> Iterator[None]:
    """A loop over the buckets of a histogram, with the key's head set for each."""
    function.line("#pragma clang loop unroll(disable)")
    with function.block(f"for (u32 bucket = 0; bucket < {table.buckets}; bucket++)"):
        function.line(f"{key.word(0)} = {_head(table, C('bucket'))};")
        yield


def _once(function: CFunction, value: Value | None) -> C:
    """The number to add, in a form that may be written for each table."""
    if value is None or (isinstance(value, Const) and value.value == 1):
        return C("1")
    return function.temporary("value", computed(function, value))


def _add(
    function: CFunction, table: Table, step: model.MapAdd | model.Update, value: Value | None, bucket: C | None = None,
    number: C | None = None,
) -> None:  # fmt: skip
    number = number or _once(function, value)
    if table.grid is not None:
        index = index_of(function, table, step.key)
        if bucket is not None:
            scaled = binary("*", index, C(f"{table.buckets}"), "u32")
            index = bucket if index == FIRST else binary("+", scaled, bucket, "u32")
        function.line(f"array_{table.cell.add}({_map(table)}, {index}, {number});")
        return
    key = _key(function, table, step, bucket)
    length = _length(table)
    if bucket is not None and table.length is not None:
        _count_key(function, table, key, bucket)
        length = "NULL"
    _on_table(function, table, key, f"{table.cell.add}({{map}}, {{key}}, {number}, {length});")


def _count_key(function: CFunction, table: Table, key: Buffer, bucket: C) -> None:
    """Counts a key where probes ask for the length of a histogram: it is new if none of its buckets is there."""
    is_known = function.temporary("known", C("0"))
    _on_table(function, table, key, f"{is_known} = present(map_lookup({{map}}, {{key}}));")
    with function.block(f"if (!{is_known})"):
        with function.block(f"if (!{_any_bucket(function, table, key)})"):
            function.line(f"made({_length(table)});")
        function.line(f"{key.word(0)} = {_head(table, bucket)};")


def _length(table: Table) -> str:
    return "NULL" if table.length is None else f"&control->made[{table.length}]"


def _map(table: Table, tier: int = 0) -> str:
    return f"MAP({FIRST_TABLE + table.numbers[tier]})"


def _on_table(function: CFunction, table: Table, key: Buffer, call: str) -> None:
    """Writes a call on the table for this key: one of shorter keys while the deciding string is short."""
    layout = table.key
    assert layout is not None
    for tier, size in enumerate(layout.sizes[:-1]):
        function.line(f"{'else if' if tier else 'if'} (!((char *){key.address(0)})[{size - 1}])")
        function.line("\t" + call.format(map=_map(table, tier), key=key.address(0)))
    last = call.format(map=_map(table, len(layout.sizes) - 1), key=key.address(0))
    if len(layout.sizes) == 1:
        function.line(last)
    else:
        function.line("else")
        function.line("\t" + last)
