"""The printf formats of a program with the types of their arguments, found in its statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tracer.lang.typed import ForMap, ForRange, If, Printf, Program, Stmt, While
from tracer.lang.types import Type
from tracer.render.printf import Format, compile_format
from tracer.render.values import ValueText
from tracer.results.events import PrintfBatch


def compiled_formats(program: Program, values: ValueText) -> dict[int, Format]:
    """The function for each index into `Program.formats` that a printf uses. One index stands for one list of types."""
    types: dict[int, tuple[Type, ...]] = {}
    for clause in program.clauses:
        for printf in _printfs(clause.body):
            found = tuple(arg.type for arg in printf.args)
            if types.setdefault(printf.format, found) != found:
                raise ValueError(f"format {printf.format} is used with arguments of different types")
    return {index: compile_format(program.formats[index], found, values) for index, found in types.items()}


def formatted(batch: PrintfBatch, formats: Mapping[int, Format]) -> Iterable[bytes]:
    """The texts of a batch; `formats` are those of `compiled_formats`."""
    if isinstance(batch.format, int):
        return map(formats[batch.format], batch.rows)
    return [formats[format](row) for format, row in zip(batch.format, batch.rows, strict=True)]


def _printfs(body: tuple[Stmt, ...]) -> Iterator[Printf]:
    for stmt in body:
        match stmt:
            case Printf():
                yield stmt
            case If(then=then, otherwise=otherwise):
                yield from _printfs(then)
                yield from _printfs(otherwise)
            case While(body=inner) | ForRange(body=inner) | ForMap(body=inner):
                yield from _printfs(inner)
            case _:
                pass
