"""Plans written by hand: sites of files that need not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests import typed_ir as ir
from tracer.backends.ftrace.compile import compile_plan
from tracer.backends.ftrace.program import FtraceProgram
from tracer.kinds.arch import X86_64
from tracer.kinds.site import ArgSpec, FileIdentity, FileSite, Operand, Reg
from tracer.lang import typed
from tracer.lang.types import UINT64, IntType, Type
from tracer.plan.lower import lower
from tracer.plan.model import Plan

IDENTITY = FileIdentity(1, 2, 3, 4)


def spec(operand: Operand, size: int = 8, signed: bool = False) -> ArgSpec:
    return ArgSpec("the note", size, signed, operand)


def site(
    offset: int = 0x1000,
    kind: str = "usdt",
    args: Sequence[ArgSpec] = (spec(Reg("di")), spec(Reg("si"), 4, True)),
    semaphore: int | None = None,
    path: str = "/bin/app",
    identity: FileIdentity = IDENTITY,
) -> FileSite:
    return FileSite(
        kind, f"{kind}:{path}:p:n", "f", tuple(args), 0, path, identity, offset + 0x400000, offset, semaphore,
    )  # fmt: skip


FUNCTION = site(0x2000, "uprobe", X86_64.function_args())


def probe(body: Sequence[typed.Stmt], *sites: FileSite, predicate: typed.Expr | None = None) -> typed.Clause:
    return replace(ir.clause(body, predicate), sites=sites or (site(),))


def count(key: typed.Expr | None = None, name: str = "@") -> typed.Aggregate:
    return typed.Aggregate(ir.N, name, () if key is None else (key,), "count", None)


def plan(
    *clauses: typed.Clause, maps: Mapping[str, Type | None] | None = None, formats: Sequence[str] = ()
) -> Plan:
    decls = [
        ir.map_of(name, "count", *(() if key is None else (key,))) for name, key in (maps or {"@": UINT64}).items()
    ]
    numbered = [replace(clause, id=number) for number, clause in enumerate(clauses)]
    return lower(ir.program(numbered, decls, formats))


def compiled(*clauses: typed.Clause, maps: Mapping[str, Type | None] | None = None) -> FtraceProgram:
    return compile_plan(plan(*clauses, maps=maps), "%ax")


def definitions(program: FtraceProgram) -> list[str]:
    return [
        event.definition(place, "g", place.file.path) for event in program.events for place in event.places
    ]


def fetched(leaf: typed.Expr, *args: ArgSpec, kind: str = "usdt") -> list[str]:
    """The fetch arguments of a clause that uses one leaf as a key."""
    program = compiled(probe([count(leaf)], site(kind=kind, args=args)), maps={"@": leaf.type})
    return definitions(program)[0].split()[2:]


def load(address: typed.Expr, bits: int = 64, signed: bool = False) -> typed.Load:
    return typed.Load(IntType(bits, signed), ir.N, address)

