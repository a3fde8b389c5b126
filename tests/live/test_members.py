"""Members that lie where most do not: what the program says of them is what is read."""

from __future__ import annotations

import subprocess

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = pytest.mark.live

CLAUSES = {
    "bits": (
        'printf("bits %u %u %u %llu %d %c\\n", args.p->a, args.p->b, args.p->c, args.p->d, args.p->e, args.p->z);'
        " $v = args.v; $t = args.t;"
        ' printf("value %u %u %u %llu %d %c\\n", $v.a, $v.b, $v.c, $v.d, $v.e, $v.z);'
        ' printf("short %u %d %u %d %llu %u\\n", args.r.a, args.r.b, args.rp->a, args.rp->b, $t.a, $t.b);'
        ' printf("mixed %u %d %u %u %lld\\n", args.x->a, args.x->b, args.x->c, args.x->d, args.x->e);'
    ),
    "texts": (
        'printf("texts %s %s %s\\n", str(args.a->text), str(args.b->text), str(args.c->text)); $r = *args.r;'
        ' printf("room %s %s %s %s %s\\n", str($r.name), str(args.r->name, 4), str(args.r->bytes), str(args.r->text),'
        " str((char *)args.r->text + 3));"
        ' printf("parts %d %c %d %d\\n", *((int32 *)args.r->four + 1), *((char *)args.r->name + 1),'
        " args.r->numbers[128], *(int32 *)args.r->numbers);"
        ' $i = 1; printf("names %s %s\\n", args.r->names[$i], args.r->names[$i - 1]);'
        ' printf("sizes %d %d %d %d\\n", sizeof($r.name), sizeof(args.r->text), sizeof(args.r->numbers),'
        " sizeof(args.b->text));"
    ),
    "levels": (
        'printf("levels %d %d %d %d\\n", args.one == HIGH, args.other == HIGHEST, HIGH, HIGHEST);'
    ),
}


@pytest.mark.parametrize("name", ["members-O0", "members-O2", "members-dwarf-3"])
def test_members_are_what_the_program_says(backend: str, name: str, clean: None) -> None:
    program = build(name)
    own = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    text = " ".join(f"uprobe:{program}:{function} {{ {body} }}" for function, body in CLAUSES.items())
    done = tracer("-q", "--backend", backend, "-o", "/dev/stderr", "-e", text, "-c", str(program))
    assert done.status == 0 and done.err.strip() == own.strip()
