"""A compiled plan, as far as no kernel is needed for it."""

from __future__ import annotations

from tracer.backends.bcc.attach.registry import context_of
from tracer.backends.bcc.codegen.generate import Generated, generate
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.plan.model import Plan
from tracer.steps.model import Range, Round, While
from tracer.steps.walk import walk


class BccProgram:
    """The C of a plan; the bytecode is made when a session asks for it, since `--dry-run` needs no compiler."""

    def __init__(self, plan: Plan, repeats: bool | None = None, before: Generated | None = None) -> None:
        """`repeats`: the kernel runs the rounds of loops; without that, where some count their rounds. `before`: see
        `generate`.
        """
        self.plan = plan
        self.repeats = self.counts if repeats is None else repeats
        self.before = before
        self.generated: Generated = generate(plan, self.repeats, context_of, before)

    def text(self) -> str:
        """The C program. What it includes is fixed: bpf_programs/prelude.h."""
        return self.generated.text

    def bytecode(self) -> str:
        """The instructions of every function as a kernel that has everything gets them, with their number. Asks libbcc
        or the cache; no root is needed. Raises `TracerError` where there is no libbcc.
        """
        from tracer.backends.bcc.attach.loader import constants
        from tracer.backends.bcc.compile.disassemble import count, disassemble

        compiled = compile_text(self.text(), sleepable=True, cookies=True)
        names = constants(self.generated)
        parts = [
            f"{name}: {count(code)} instructions\n" + "".join(f"{line}\n" for line in disassemble(code, names))
            for name, code in compiled.items()
        ]
        return "\n".join(parts)

    @property
    def loops(self) -> bool:
        """Whether it has loops of rounds."""
        return self._has(While, Range)

    @property
    def counts(self) -> bool:
        """Whether it has loops of which it is not known that they are short."""
        return self._has(Round)

    def _has(self, *kinds: type) -> bool:
        every = (step for probe in self.plan.probes for step in walk(self.plan.steps[probe.clause.id].body))
        return any(isinstance(step, kinds) for step in every)

    @property
    def copies(self) -> bool:
        """Whether it copies what it holds, which helpers do that read the kernel's memory."""
        return "copy_kernel" in self.generated.text

    @property
    def asks_for_numbers(self) -> bool:
        """Whether it asks for the number of a process or a thread."""
        text = self.generated.text
        owners = ("process", "space", "thread", "parent")
        return self.generated.follow or any(f"{owner}_id()" in text for owner in owners)

