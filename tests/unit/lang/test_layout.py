"""`--fmt`: another layout, the same program."""

from __future__ import annotations

import pytest

from tests.contract.cases import CASES
from tests.golden.lang.blocks import PARAMS, blocks, files
from tests.suite.case import cases
from tracer.errors import ProgramError, Source
from tracer.lang.printing.formatted import laid_out
from tracer.lang.printing.syntax import print_ast
from tracer.lang.syntax.parser import parse

PROGRAMS = [block.program for kind in ("dumps", "errors") for file in files(kind) for block in blocks(file)]
PROGRAMS += [case.program for case in CASES]
PROGRAMS += [case.program for case in cases()]
PROGRAMS += ["call:T:a /arg0 / 2 > 1/ // big\n call:T:b\n/* own */\nuprobe:T:c /arg2/ { @++; }\nusdt:T:a:b"]
PROGRAMS += ["BEGIN { ; }", "BEGIN { if (1) { ; } else {; } }"]
PROGRAMS += ["BEGIN { print(((struct a::Box<b::Item<int>, 2>*)1)->v < a::Col::Red); let $x: a::Item * = 0; }"]
PROGRAMS += ["BEGIN { $x = 1; print((- -$x, + +1, - - -1, !!$x, - --$x)); }"]


def test_what_is_given_when_it_runs_is_not_needed() -> None:
    assert laid_out(Source("interval:ms:$1{exit()}$2{}")) == "interval:ms:$1\n{\n  exit();\n}\n$2\n{}\n"
    with pytest.raises(ProgramError):
        laid_out(Source("interval:ms:$1 { print(; } $2 { }"))


def test_a_program_gets_a_line_for_each_statement() -> None:
    text = """#!/usr/bin/env bpftrace
config={max_strlen=32;missing_probes=warn}
uprobe:/bin/a:f,uprobe:/bin/b:g /pid==1&&comm=="x"/ {// first
@[pid,comm]=count(); for($i:0..10){print($i)} if($a>1){$y=(uint8)-5*-2}else if ($z) {$a= !1} else{--$y}

 // own
 $v++; /* in */ print((1,(2,"a b"))); // end
 return;}


/* block */ interval:s:1{@a++; exit()}
END { }
"""
    assert laid_out(Source(text)) == """#!/usr/bin/env bpftrace
config = {
  max_strlen = 32;
  missing_probes = warn;
}
uprobe:/bin/a:f,
uprobe:/bin/b:g
/pid == 1 && comm == "x"/
{
  // first
  @[pid, comm] = count();
  for $i : 0..10 {
    print($i);
  }
  if ($a > 1) {
    $y = (uint8)-5 * -2;
  } else if $z {
    $a = !1;
  } else {
    --$y;
  }

  // own
  $v++; /* in */
  print((1, (2, "a b"))); // end
  return;
}


/* block */
interval:s:1
{
  @a++;
  exit();
}
END
{}
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_layout_changes_nothing_else(program: str) -> None:
    try:
        tree = print_ast(parse(Source(program), PARAMS))
    except ProgramError:
        if not program.startswith("$"):  # else what it is attached to is given when it runs
            with pytest.raises(ProgramError):
                laid_out(Source(program))
        return
    text = laid_out(Source(program))
    assert print_ast(parse(Source(text), PARAMS)) == tree
    assert laid_out(Source(text)) == text


def test_probes_without_bodies_keep_a_line_for_each() -> None:
    text = "call:T:a /arg0 / 2 > 1/ // big\n call:T:b\nuprobe:T:c { @++; }\nusdt:T:a:b"
    assert laid_out(Source(text)) == (
        "call:T:a\n/arg0 / 2 > 1/\n// big\ncall:T:b\nuprobe:T:c\n{\n  @++;\n}\nusdt:T:a:b\n"
    )
