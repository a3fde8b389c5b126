"""The second backend: probes defined in tracefs, read through perf descriptors, finished by Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from tracer.backends import Surroundings
    from tracer.backends.base import CompiledProgram, Session
    from tracer.kinds.site import Target
    from tracer.lang.features import Feature
    from tracer.plan.model import Plan
    from tracer.plan.states import Capabilities


class FtraceBackend:
    """See `backends.base.Backend`."""

    name = "ftrace"

    def capabilities(self, wanted: Collection[Feature] | None = None) -> Capabilities:
        """The capabilities of this host: all of them, whatever is wanted, for nothing here takes long."""
        from tracer.backends.ftrace.capabilities import detect

        return detect()

    def compile(self, plan: Plan) -> CompiledProgram:
        """The writes to tracefs and how each event is read."""
        from tracer.backends.ftrace.compile import compile_plan
        from tracer.kinds.arch import native

        arch = native()
        return compile_plan(plan, f"%{arch.returns if arch is not None else 'ax'}")

    def open(self, program: CompiledProgram, target: Target, around: Surroundings) -> Session:
        """A session; nothing in the kernel is touched before `attach`."""
        from tracer.backends.ftrace.program import FtraceProgram
        from tracer.backends.ftrace.session import FtraceSession

        assert isinstance(program, FtraceProgram)
        return FtraceSession(program, target, around)
