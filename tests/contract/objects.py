"""Compiles the BPF programs of the contract, the suite and tests/vm into the cache of objects, for a kernel that is not
this one: under emulation the compiler takes twenty seconds for each.

`python -m tests.contract.objects SLEEPABLE COOKIES READS PART PARTS` with XDG_CACHE_HOME set. The C text depends on the
program and its target alone; what depends on the kernel are the three flags (0 or 1) that `compile_text` takes. Where a
text would be another there, only time is lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.contract.cases import part_of
from tests.contract.conftest import program_of
from tests.suite import case as suite
from tests.targets.build import build
from tracer import pipeline
from tracer.backends.bcc.attach.older.page_groups import groups
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.backends.bcc.program import BccProgram
from tracer.errors import Source, TracerError

OWN = (
    ("depot", "usdt:{}:depot:parcel {{ @ = count(); }}"),
    ("depot", "uprobe:{}:price {{ @ = count(); }}"),
    ("redzone", "usdt:{}:redzone:ten {{ @ = sum(arg0); }}"),
)
"""Targets, and what tests/vm asks of them on whatever backend there is: test_kernel.py, test_nops.py."""


def programs(index: int, parts: int) -> Iterator[str]:
    """The programs of a part that bcc attaches."""
    yield from (program.format(build(target)) for target, program in OWN)
    for case in part_of(index, parts):
        if "bcc" not in case.refused:
            yield program_of(case)
    for other in suite.part_of(index, parts):
        if "bcc" not in other.refused and other.wanted.refused is None:
            yield other.located(build(suite.TARGET))


def compile_program(text: str, sleepable: bool, cookies: bool, reads: bool) -> None:
    """Leaves the object in the cache, where the program has one."""
    plan, _ = pipeline.plan(Source(text))
    if plan.probes:
        program = BccProgram(plan)
        generated, programs = program.generated, reads and program.generated.unwinds
        # No kernel here is between Linux 5.12 and 6.0, which brought what follows from these.
        finds = reads and sleepable and bool(generated.places or programs)
        compile_text(
            program.text(),
            sleepable=sleepable and bool(generated.waits),
            cookies=cookies,
            by_place=not cookies and groups(plan, generated) is not None,
            kernel_reads=reads or not program.copies,
            programs=programs,
            atomics=sleepable or not generated.scratch_slots,
            mappings=finds,
            sequenced=finds and programs and cookies,
        )


def main(arguments: list[str]) -> int:
    """Compiles the programs of a part, two at a time."""
    sleepable, cookies, reads, index, parts = map(int, arguments)
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for text, done in [
            (text, pool.submit(compile_program, text, bool(sleepable), bool(cookies), bool(reads)))
            for text in programs(index, parts)
        ]:
            try:
                done.result()
            except TracerError as error:
                print(f"{text}: {error.message}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
