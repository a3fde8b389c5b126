"""What is compiled beforehand for another kernel is what a trace there asks for: shown on this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.objects import compile_program
from tests.targets.build import build
from tracer import pipeline
from tracer.backends.bcc import loading
from tracer.backends.bcc.attach.older.page_groups import groups
from tracer.backends.bcc.compile import compiler
from tracer.backends.bcc.host import mappings, pid_namespace, trials
from tracer.backends.bcc.program import BccProgram
from tracer.errors import Source

pytestmark = pytest.mark.live


@pytest.mark.parametrize("links", [True, False], ids=["links for many", "events"])
@pytest.mark.parametrize(
    "body", ["@[func] = count();", "@[usym(arg0)] = count();", "@[ustack(1)] = count();", "print(str(arg0));"]
)
def test_nothing_is_left_to_compile(
    body: str, links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pid_namespace, "sequenced", lambda: links)  # both came after Linux 6.1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = f"uprobe:{build('depot')}:*_of {{ {body} }}"
    compile_program(text, trials.has("sleepable"), links, trials.has("kernel_reads"))

    def compiles(*_: object) -> bytes:
        raise AssertionError("the compiler is asked")

    monkeypatch.setattr(compiler, "_run", compiles)
    plan, _ = pipeline.plan(Source(text))
    program = BccProgram(plan)
    by_place = not links and groups(plan, program.generated) is not None
    may_wait = bool(program.generated.waits and trials.has("sleepable") and mappings.comes())
    assert loading._compiled(program, links, by_place, may_wait)
