"""The BCC backend: libbcc compiles, bpf(2) loads.

    plan → tables (which kernel map holds what) → codegen (C) → compiler (bytecode) → loader, attach → session

Nothing of BCC runs in this process: the compiler is a child, and only where the cache has not its result already.

| room | the question that it answers |
|---|---|
| `codegen/` | What C does this plan become? Text alone; no kernel, no compiler, and no word of the user's in it. |
| `compile/` | What bytecode does that C become? The child with libbcc, and the headers that stand for the kernel's. |
| `maps/` | Which tables of the kernel hold the program's maps, and what do they hold as user space sees them? |
| `host/` | What can this kernel's BPF do, and what is refused here, in which words? |
| `attach/` | Which programs go to which sites, processes and calls, and how do they come off again? |
| `events/` | What do the records in the ring say? |
| `program.py` | What is known of a compiled plan before any kernel is asked? |
| `loading.py` | How do its programs come into this kernel? |
| `session.py` | What happens between the opening of a trace and its end? |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from tracer.backends import Surroundings
    from tracer.backends.base import CompiledProgram
    from tracer.backends.bcc.program import BccProgram
    from tracer.backends.bcc.session import BccSession
    from tracer.kinds.site import Target
    from tracer.lang.features import Feature
    from tracer.plan.model import Plan
    from tracer.plan.states import Capabilities


class BccBackend:
    """Follows `backends.base.Backend`."""

    name = "bcc"

    def capabilities(self, wanted: Collection[Feature] | None = None) -> Capabilities:
        """The capabilities of this host."""
        from tracer.backends.bcc.host.capabilities import capabilities

        return capabilities(wanted)

    def compile(self, plan: Plan) -> BccProgram:
        """Plan → C."""
        from tracer.backends.bcc.program import BccProgram

        return BccProgram(plan)

    def open(self, program: CompiledProgram, target: Target, around: Surroundings) -> BccSession:
        """Loads the program and makes its maps."""
        from tracer.backends.bcc.program import BccProgram
        from tracer.backends.bcc.session import BccSession

        assert isinstance(program, BccProgram)
        return BccSession(program, target, around)
