"""The kernel's verifier takes what programs become, sleepable or not, for one site and for several with texts of their
own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden.test_bcc import PROGRAMS
from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc import loading
from tracer.backends.bcc.attach.loader import create_maps, load_programs
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.backends.bcc.host.trials import has
from tracer.backends.bcc.program import BccProgram
from tracer.kernel import bpf

pytestmark = pytest.mark.live

MORE = {
    "keys": "{ @[str(arg1), arg0 > 3 ? str(arg1 + 8) : comm] = count(); @k[comm, str(arg1, 20), func] = hist(arg0); }",
    "copies": '{ $t = (arg0, str(arg1, 100)); @t[tid] = $t; printf("%s %d\\n", $t.1, $t.0); '
    "@[$t.1, @t[tid].1] = count(); }",
    "searches": '{ @ = strcontains(str(arg1), "coffee") ? strlen(str(arg1)) : strncmp(str(arg1), comm, 5); }',
    "rounds": '{ $s = ""; for ($i : 0..5) { if ($s == str(arg1 + $i)) { @[$s] = count(); } $s = str(arg1 + $i); } }',
    "sizes": '{ printf("[%s] [%s]\\n", str(arg1, 4), str(arg1, 100)); }',
    "divisions": "{ @[arg0 / arg2, (int8)arg1 % arg3] = lhist(arg1 / (arg0 - 3), 0, 100, 10); }",
    "buckets": "{ @h[arg0] = hist(arg1); if (len(@h) > 3) { delete(@h, arg0); } if (has_key(@h, 3)) { print(@h); } }",
}
SITES = [site(name, function=function) for name, function in (("in", "read"), ("out", "write"), ("err", "write"))]


@pytest.mark.parametrize("body", [*PROGRAMS.values(), *MORE.values()], ids=[*PROGRAMS, *MORE])
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.parametrize("sleepable", [True, False], ids=["sleepable", "quick"])
def test_the_verifier_takes_it(body: str, many: bool, sleepable: bool) -> None:
    if sleepable and not has("sleepable"):
        pytest.skip("the kernel has no sleepable uprobe programs")
    plan = plan_of(probe(body), *(SITES if many else ()))
    generated = generate(plan)
    compiled = compile_text(generated.text, sleepable=sleepable)
    loaded = create_maps(generated, plan)
    try:
        load_programs(loaded, plan, generated, compiled, generated.waits if sleepable else frozenset(), multi=False)
    finally:
        loaded.close()


def test_what_it_gave_up_on_is_not_given_to_it_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not has("sleepable"):
        pytest.skip("the kernel has no sleepable uprobe programs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    given: list[int] = []
    load = bpf.program_load

    def counted(code: bytes, name: str, **how: Any) -> int:
        given.append(name != "tracer_try" and bool(how.get("sleepable")))
        return load(code, name, **how)

    monkeypatch.setattr(bpf, "program_load", counted)
    plan = plan_of(probe("{ @[ustack(python)] = count(); }"))
    said = []
    for _ in range(2):
        programs, _, words = loading.loaded(BccProgram(plan, False), multi=False)
        programs.close()
        said.append(words)
    assert said[0] == said[1] and "the kernel's verifier refuses" in said[0][0]
    assert sum(given) == 1  # the verifier takes seconds to give up
