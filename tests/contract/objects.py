"""Compiles the suite's BPF programs into the cache of objects, for a kernel that is not this one.

`python -m tests.contract.objects SLEEPABLE COOKIES READS PART PARTS` with XDG_CACHE_HOME set. The C text depends on the
program and its target alone; what depends on the kernel are the three flags (0 or 1) that `compile_text` takes. Where a
text would be another there, only time is lost.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.contract.case import Case
from tests.contract.cases import part_of
from tests.contract.conftest import program_of
from tracer import pipeline
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.backends.bcc.program import BccProgram
from tracer.errors import Source, TracerError


def compile_case(case: Case, sleepable: bool, cookies: bool, reads: bool) -> None:
    """Leaves the object in the cache, where the case has one."""
    plan, _ = pipeline.plan(Source(program_of(case)))
    if plan.probes and "bcc" not in case.refused:
        program = BccProgram(plan)
        compile_text(
            program.text(),
            sleepable=sleepable and bool(program.generated.waits),
            cookies=cookies,
            kernel_reads=reads or not program.copies,
        )


def main(arguments: list[str]) -> int:
    """Compiles a part of the suite, two programs at a time."""
    sleepable, cookies, reads, index, parts = map(int, arguments)
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for case, done in [
            (case, pool.submit(compile_case, case, bool(sleepable), bool(cookies), bool(reads)))
            for case in part_of(index, parts)
        ]:
            try:
                done.result()
            except TracerError as error:
                print(f"{case}: {error.message}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
