"""Members of real programs' structs, by their debug symbols: PostgreSQL's queries and CPython's objects."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import tracer, tracing
from tests.live.answers import maps
from tests.live.conftest import need
from tests.live.postgres import Cluster, cluster, installation
from tests.targets.build import HERE
from tracer.resolve.binary import Binary

pytestmark = pytest.mark.live

PYTHON = "/usr/bin/python3.11"
STATEMENTS = {
    "SELECT x FROM things;": 40,
    "INSERT INTO things VALUES (1);": 30,
    "UPDATE things SET x = 2;": 20,
    "DELETE FROM things;": 10,
}
SCRIPT = """
import ctypes
import sys

class Thing: pass
class Cart(Thing): pass

# Inside the interpreter the compiler has put copies of it in its callers.
set_attribute = ctypes.pythonapi.PyObject_SetAttr
set_attribute.argtypes = [ctypes.py_object] * 3
counts, sums = {}, {}
for made, name, times in ((Cart, "goods", 50), (Cart, "owner", 30), (Thing, "goods", 20)):
    thing = made()
    for value in range(times):
        set_attribute(thing, name, value)
        kind = type(thing).__name__
        counts[kind, name] = counts.get((kind, name), 0) + 1
        sums[kind] = sums.get(kind, 0) + value
print([counts, sums], file=open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Cluster]:
    bin = installation()
    need(bin is not None, "PostgreSQL")
    assert bin is not None
    with cluster(bin) as running:
        yield running


@pytest.fixture(scope="module")
def hook(postgres: Cluster) -> Path:
    """The library, which has the debug information that the server's package has not."""
    headers = Path("/usr/include/postgresql") / postgres.bin.parts[4] / "server"
    need((headers / "postgres.h").exists(), "PostgreSQL's headers")
    made = postgres.home / "executor_hook.so"
    subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", f"-I{headers}", "-o", str(made),
                    str(HERE / "executor_hook.c")], check=True)  # fmt: skip
    return made


def test_queries_by_the_members_of_their_description(
    postgres: Cluster, hook: Path, backend: str, tmp_path: Path, clean: None
) -> None:
    postgres.psql("DROP TABLE IF EXISTS things", "CREATE TABLE things (x int)")
    script = postgres.home / "statements.sql"
    lines = [f"{text}\n" for text, times in STATEMENTS.items() for _ in range(times)]
    script.write_text(f"LOAD '{hook}';\nSET log_statement = 'all';\n{''.join(lines)}SET log_statement = 'none';\n")
    log = postgres.home / "log"
    before = log.stat().st_size
    program = (
        f"uprobe:{hook}:query_starts {{ @[str(args.queryDesc->sourceText)] = count();"
        " @operations[args.queryDesc->operation] = count();"
        " @select[args.queryDesc->plannedstmt->commandType == CMD_SELECT] = count();"
        " @tables[args.queryDesc->plannedstmt->rtable->length] = count();"
        " @plan[args.queryDesc->plannedstmt->planTree->type == T_SeqScan] = count();"
        " @flags = sum(args.eflags); }"
        f" uprobe:{postgres.server}:standard_ExecutorStart {{"
        " @standard[str(((QueryDesc *)arg0)->sourceText), ((QueryDesc *)arg0)->operation == CMD_INSERT] = count(); }"
    )
    with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program) as running:
        postgres.psql_file(script)
        done = running.stop()
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    with log.open() as file:
        file.seek(before)
        logged = Counter(re.findall(r"LOG: +statement: ([SIUD][ENP][LSD][^;]*;)", file.read()))
    assert logged == STATEMENTS
    sums = {kind: sum(times for text, times in logged.items() if text.startswith(kind)) for kind in
            ("SELECT", "UPDATE", "INSERT", "DELETE")}  # fmt: skip
    selects = sums["SELECT"]
    rest = logged.total() - selects
    assert maps(done) == {
        "@": dict(logged),
        "@operations": {f"CMD_{command}": times for command, times in sums.items()},
        "@select": {"true": selects, "false": rest},
        "@tables": {"1": logged.total() - sums["INSERT"], "2": sums["INSERT"]},  # VALUES is one more
        "@plan": {"true": selects, "false": rest},
        "@flags": 0,
        "@standard": {f"{text},{str(text.startswith('INSERT')).lower()}": times for text, times in logged.items()},
    }


def test_objects_by_the_names_of_their_types(backend: str, tmp_path: Path, clean: None) -> None:
    need(Path(PYTHON).exists(), PYTHON)
    build_id = Binary(PYTHON).identity.build_id or ""
    need(Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug").exists(), "python3.11-dbg")
    script, said = tmp_path / "script.py", tmp_path / "said"
    script.write_text(SCRIPT)
    program = (
        f"uprobe:{PYTHON}:PyObject_SetAttr {{ @[str(((PyObject *)arg0)->ob_type->tp_name)] = count();"
        " @by_name[str(args.v->ob_type->tp_name), str((char *)((PyASCIIObject *)args.name + 1))] = count();"
        " @long[str(args.v->ob_type->tp_name)] = sum(((PyLongObject *)args.value)->ob_digit[0]);"
        " @bases[str(args.v->ob_type->tp_name), str(args.v->ob_type->tp_base->tp_name)] = count(); }"
    )
    command = f"{PYTHON} -I -S {script} {said}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", command)
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    counts, sums = (Counter(each) for each in eval(said.read_text()))
    assert counts == {("Cart", "goods"): 50, ("Cart", "owner"): 30, ("Thing", "goods"): 20}
    found = maps(done)
    own = {name: sum(times for (each, _), times in counts.items() if each == name) for name in ("Cart", "Thing")}
    assert {name: found["@"][name] for name in own} == own
    named = {tuple(key.split(",")): times for key, times in found["@by_name"].items()}
    assert {key: times for key, times in named.items() if key[0] in own} == counts
    assert {name: found["@long"][name] for name in own} == sums
    assert (found["@bases"]["Cart,Thing"], found["@bases"]["Thing,object"]) == (80, 20)
