"""Plans from program texts, with sites made by hand: no file is read."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.errors import Source
from tracer.kinds.site import ArgSpec, Const, FileIdentity, FileSite, Global, GlobalPointer, Mem, Operand, Reg
from tracer.lang.analyse import analyse
from tracer.lang.syntax.parser import parse
from tracer.plan.lower import lower
from tracer.plan.model import Plan

ARGUMENTS: tuple[tuple[int, bool, Operand], ...] = (
    (4, True, Reg("di")),
    (8, False, Reg("si")),
    (2, False, Mem("bp", -24)),
    (8, True, Mem("sp", 16, "ax", 8)),
    (1, True, Const(-16)),
    (4, False, Global(0x4010, 0x3010, 0x2EF0)),
    (8, False, GlobalPointer(Global(0x3FF8, 0x2FF8, 0x2ED8))),
)


def site(
    name: str = "order", arguments: Sequence[tuple[int, bool, Operand]] = ARGUMENTS, function: str = "checkout"
) -> FileSite:
    """A USDT site whose arguments are of every kind."""
    specs = tuple(ArgSpec(f"{size}@", size, signed, operand) for size, signed, operand in arguments)
    identity = FileIdentity(1, 2, 3, 4)
    return FileSite("usdt", f"usdt:/bin/app:shop:{name}", function, specs, 0, "/bin/app", identity, 0x1120, 0x1120)


def plan_of(text: str, *sites: FileSite, unsafe: bool = False) -> Plan:
    """The plan of a program, each of whose probe clauses is at the given sites (or at one `site()`)."""
    tree = parse(Source(text))
    found = {
        index: sites or (site(),)
        for index, clause in enumerate(tree.clauses)
        if clause.points[0].kind not in ("begin", "end", "interval")
    }
    return lower(analyse(tree, found, {"TRACER_UNSAFE": "1"} if unsafe else {}))


def probe(body: str) -> str:
    """A program of one probe clause."""
    return f"usdt:/bin/app:shop:order {body}"
