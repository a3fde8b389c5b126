"""A compiled plan, as far as no kernel is needed for it."""

from __future__ import annotations

from tracer.backends.bcc.codegen.generate import Generated, generate
from tracer.backends.bcc.compiler import CompiledObject, compile_text
from tracer.plan.model import Plan


class BccProgram:
    """The C of a plan; the bytecode is made when a session asks for it, since `--dry-run` needs no compiler."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.generated: Generated = generate(plan)

    def text(self) -> str:
        """The C program. What it includes is fixed: bpf_programs/prelude.h."""
        return self.generated.text

    @property
    def copies(self) -> bool:
        """Whether it copies what it holds, which helpers do that read the kernel's memory."""
        return "copy_kernel" in self.generated.text

    def compiled(self, *, sleepable: bool, cookies: bool, kernel_reads: bool = True) -> CompiledObject:
        """The bytecode, from the cache or from libbcc."""
        return compile_text(self.generated.text, sleepable=sleepable, cookies=cookies, kernel_reads=kernel_reads)
