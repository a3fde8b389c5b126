"""Map operations → calls of the prelude, on the table or tables that hold the map."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.bcc.codegen import expressions, places, wide
from tracer.backends.bcc.codegen.frame import Buffer, Frame, MapValue, c_type, literal, long_words, scalar
from tracer.backends.bcc.codegen.reading import same_at_each_use
from tracer.backends.bcc.maps.tables import Shape, Table
from tracer.lang.typed import Aggregate, Builtin, Delete, Expr, HasKey, MapAdd, MapGet, MapIncr, MapSet
from tracer.lang.types import IntType, StringType

FIRST_TABLE = 4
"""MAP numbers below it are the control block, the losses, the ring and the scratch slots."""


def get(frame: Frame, expr: MapGet) -> str:
    """A number out of a map; 0 where the key is not there. It is looked up once, until the clause changes the map."""
    parts = tuple(map(same_at_each_use, expr.key))
    identity = None if None in parts else MapValue(expr.map, parts)
    known = None if identity is None else frame.known(identity)
    if known is not None:
        return known
    table = frame.shared.tables[expr.map]
    found = find(frame, expr.map, expr.key)
    value = frame.temporary(c_type(expr.type), f"{found} ? {_stored(table, found)} : 0")
    return value if identity is None else frame.remember(identity, value)


def _stored(table: Table, found: str) -> str:
    decl = table.decl
    signed = isinstance(decl.value, IntType) and decl.value.signed
    match decl.kind:
        case "sum":
            return f"{found}[1]"
        case "avg" | "stats":
            # `found[1]` is the total, `found[0]` the number of hits.
            return f"(u64){'divide_signed' if signed else 'divide'}({found}[1], {found}[0])"
        case "max":
            return f"*{found} ^ TOP_BIT" if signed else f"*{found}"
        case "min":
            return f"~*{found} ^ TOP_BIT" if signed else f"~*{found}"
        case _:
            return f"*{found}"


def find(frame: Frame, name: str, key: Sequence[Expr]) -> str:
    """A pointer to the words of a map's value, or NULL."""
    table = frame.shared.tables[name]
    place = make_key(frame, table, key)
    found = frame.name("found")
    if len(table.numbers) == 1:
        frame.line(f"u64 *{found} = map_lookup({_map(table)}, {place.name});")
    else:
        frame.line(f"u64 *{found};")
        _on_table(frame, table, place, f"{found} = map_lookup({{map}}, {{key}});")
    return found


def has_key(frame: Frame, expr: HasKey) -> str:
    """Whether a key is there; of a histogram, any of its buckets."""
    table = frame.shared.tables[expr.map]
    if table.buckets == 1:
        return frame.temporary("u64", f"present({find(frame, expr.map, expr.key)})", "there")
    return _any_bucket(frame, table, make_key(frame, table, expr.key))


def _any_bucket(frame: Frame, table: Table, place: Buffer) -> str:
    """Whether any bucket of a histogram's key is there; leaves another bucket in the key's head."""
    name = frame.temporary("u64", "0", "any")
    with _each_bucket(frame, table, place):
        _on_table(frame, table, place, f"{name} |= present(map_lookup({{map}}, {{key}}));")
    return name


def length(frame: Frame, name: str) -> str:
    """How many keys a map has: what the programs counted, and what user space put in or took out."""
    index = frame.shared.tables[name].length
    assert index is not None
    return f"(control->made[{index}] + control->given[{index}])"


def assign(frame: Frame, stmt: MapSet) -> None:
    """`@x[key] = value`."""
    table = frame.shared.tables[stmt.map]
    kind = stmt.value.type
    if scalar(kind):
        value = frame.temporary("u64", expressions.value(frame, stmt.value), "value")
        place = make_key(frame, table, stmt.key)
        # What a thread deletes of its own is a new key again, and nobody else looks at it.
        own = table.deleted and any(isinstance(part, Builtin) and part.name == "tid" for part in stmt.key)
        call = f"assign({{map}}, {{key}}, &{value}" if own else f"assign_word({{map}}, {{key}}, {value}"
        _on_table(frame, table, place, f"{call}, {_length(table)});")
        return
    decl = table.decl.value
    if kind == decl or not isinstance(decl, StringType):
        buffer = wide.pointer(frame, stmt.value)
    else:
        buffer = frame.buffer_for(decl)
        wide.text_into(frame, stmt.value, buffer, 0, decl)
    place = make_key(frame, table, stmt.key)
    _on_table(frame, table, place, f"assign({{map}}, {{key}}, {buffer.name}, {_length(table)});")


def add(frame: Frame, stmt: MapAdd) -> None:
    """`@x[key] += value`, atomically."""
    table = frame.shared.tables[stmt.map]
    value = expressions.value(frame, stmt.value)
    _add(frame, table, stmt.key, value)


def increment(frame: Frame, expr: MapIncr) -> str:
    """`@x[key]++` as a value, atomically."""
    table = frame.shared.tables[expr.map]
    place = make_key(frame, table, expr.key)
    name = frame.name("before")
    frame.line(f"u64 {name} = 0;")
    _on_table(frame, table, place, f"{name} = fetch_add({{map}}, {{key}}, {expr.delta:d}, {_length(table)});")
    frame.forget_map(expr.map)
    after = f" + {expr.delta:d}" if expr.prefix else ""
    return frame.temporary(c_type(expr.type), f"{name}{after}")


def aggregate(frame: Frame, stmt: Aggregate) -> None:
    """`@x[key] = count()` and its kin."""
    table = frame.shared.tables[stmt.map]
    decl = table.decl
    match decl.kind:
        case "count":
            _add(frame, table, stmt.key, "1")
            return
        case "hist" | "lhist":
            assert stmt.value is not None
            number = f"(u64){expressions.value(frame, stmt.value)}"
            if decl.kind == "hist":
                bucket = f"log2_bucket({number}, {decl.bits:d})"
            else:
                bounds = ", ".join(literal(bound, IntType()) for bound in (decl.low, decl.high, decl.step))
                bucket = f"linear_bucket({number}, {bounds}, {table.buckets - 1})"
            _add(frame, table, stmt.key, "1", frame.temporary("u32", bucket, "bucket"))
        case "min" | "max":
            assert stmt.value is not None
            signed = isinstance(decl.value, IntType) and decl.value.signed
            form = f"{'SIGNED' if signed else 'UNSIGNED'}_{decl.kind.upper()}"
            value = frame.temporary("u64", f"{form}({expressions.value(frame, stmt.value)})", "value")
            if table.grid is not None:
                at = places.place(frame, table, stmt.key)
                frame.line(f"array_extreme_raise({_map(table)}, {at}, {value});")
                return
            place = make_key(frame, table, stmt.key)
            _on_table(frame, table, place, f"extreme_raise({{map}}, {{key}}, {value}, {_length(table)});")
        case _:
            assert stmt.value is not None
            _add(frame, table, stmt.key, expressions.value(frame, stmt.value))


def delete(frame: Frame, stmt: Delete) -> None:
    """`delete(@x, key)`: of a histogram, all its buckets."""
    table = frame.shared.tables[stmt.map]
    place = make_key(frame, table, stmt.key)
    call = f"remove({{map}}, {{key}}, {_length(table)});"
    if table.buckets == 1:
        _on_table(frame, table, place, call)
        return
    if table.length is not None:
        with frame.block(f"if ({_any_bucket(frame, table, place)})"):
            frame.line(f"__sync_fetch_and_add({_length(table)}, -1);")
    with _each_bucket(frame, table, place):
        _on_table(frame, table, place, "map_delete({map}, {key});")


def make_key(frame: Frame, table: Table, parts: Sequence[Expr], bucket: str | None = None) -> Buffer:
    """Writes a key into a new buffer."""
    layout = table.key
    assert layout is not None
    longs: tuple[int, ...] = ()
    for kind, offset in zip(layout.parts, layout.offsets, strict=True):
        longs += long_words(kind, offset // 8)
    place = frame.buffer(layout.size // 8, longs, "key")
    for part, kind, offset in zip(parts, layout.parts, layout.offsets, strict=True):
        if isinstance(kind, StringType):
            wide.text_into(frame, part, place, offset // 8, kind)
        else:
            wide.into(frame, part, place, offset // 8)
    if layout.head:
        # Last: reading a part may have waited for a page, and the map may have been cleared meanwhile.
        frame.line(f"{place.name}[0] = {_head(table, bucket)};")
    if table.mark is not None:
        frame.line(f"{place.name}[1] = control->mark[{table.mark}];")
    return place


def _head(table: Table, bucket: str | None) -> str:
    generation = f"(u32)control->generation[{table.generation}]" if table.generation is not None else ""
    high = f"(u64){bucket} << 32" if bucket is not None else ""
    return " | ".join(filter(None, (generation, high))) or "0"


class _each_bucket:
    """A loop over the buckets of a histogram, with the key's head set for each."""

    def __init__(self, frame: Frame, table: Table, place: Buffer) -> None:
        self.frame = frame
        self.table = table
        self.place = place
        self.block = frame.block(f"for (u32 bucket = 0; bucket < {table.buckets}; bucket++)")

    def __enter__(self) -> None:
        self.frame.line("#pragma clang loop unroll(disable)")
        self.block.__enter__()
        self.frame.line(f"{self.place.name}[0] = {_head(self.table, 'bucket')};")

    def __exit__(self, *raised: object) -> None:
        self.block.__exit__(None, None, None)


def _add(frame: Frame, table: Table, key: Sequence[Expr], value: str, bucket: str | None = None) -> None:
    total = table.shape is Shape.TOTAL
    if table.grid is not None:
        if value != "1":
            value = frame.temporary("u64", value, "value") if table.decl.key else value
        at = places.place(frame, table, key)
        if bucket is not None:
            at = bucket if at == "0" else f"({at}) * {table.buckets} + {bucket}"
        call = "array_total_add" if total else "array_counter_add"
        frame.line(f"{call}({_map(table)}, {at}, {value});")
        return
    if value != "1":
        value = frame.temporary("u64", value, "value")
    place = make_key(frame, table, key, bucket)
    call, length = "total_add" if total else "counter_add", _length(table)
    if bucket is not None and table.length is not None:
        _count_key(frame, table, place, bucket)
        length = "NULL"
    _on_table(frame, table, place, f"{call}({{map}}, {{key}}, {value}, {length});")


def _count_key(frame: Frame, table: Table, place: Buffer, bucket: str) -> None:
    """Where probes ask for the length of a histogram: a key is new if none of its buckets is there."""
    known = frame.temporary("u64", "0", "known")
    _on_table(frame, table, place, f"{known} = present(map_lookup({{map}}, {{key}}));")
    with frame.block(f"if (!{known})"):
        with frame.block(f"if (!{_any_bucket(frame, table, place)})"):
            frame.line(f"made({_length(table)});")
        frame.line(f"{place.name}[0] = {_head(table, bucket)};")


def _length(table: Table) -> str:
    return "NULL" if table.length is None else f"&control->made[{table.length}]"


def _map(table: Table, tier: int = 0) -> str:
    return f"MAP({FIRST_TABLE + table.numbers[tier]})"


def _on_table(frame: Frame, table: Table, place: Buffer, call: str) -> None:
    """Writes a call on the table for this key: one of shorter keys while the deciding string is short."""
    layout = table.key
    assert layout is not None
    for tier, size in enumerate(layout.sizes[:-1]):
        frame.line(f"{'else if' if tier else 'if'} (!((char *){place.name})[{size - 1}])")
        frame.line("\t" + call.format(map=_map(table, tier), key=place.name))
    last = call.format(map=_map(table, len(layout.sizes) - 1), key=place.name)
    if len(layout.sizes) == 1:
        frame.line(last)
    else:
        frame.line("else")
        frame.line("\t" + last)
