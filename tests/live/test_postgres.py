"""PostgreSQL: one process per connection, semaphores, many sites, operands that differ from site to site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import tracer, tracing
from tests.live.answers import maps, total
from tests.live.conftest import need
from tests.live.postgres import BUFFERS, Cluster, cluster, installation

pytestmark = pytest.mark.live

CLIENTS, TRANSACTIONS = 4, 250


@pytest.fixture(scope="module")
def postgres() -> Iterator[Cluster]:
    bin = installation()
    need(bin is not None and (bin / "pgbench").exists(), "PostgreSQL with pgbench")
    assert bin is not None
    with cluster(bin) as running:
        yield running


def script(postgres: Cluster, text: str) -> Path:
    """A file that the unprivileged user can read."""
    path = postgres.home / "script.sql"
    path.write_text(text)
    return path


def test_queries_are_counted_by_text_and_timed_by_process(
    postgres: Cluster, backend: str, tmp_path: Path, clean: None
) -> None:
    program = (
        f"usdt:{postgres.server}:postgresql:query__start {{ @[str(arg0)] = count(); @start[pid] = nsecs; }}"
        f" usdt:{postgres.server}:postgresql:query__done /@start[pid]/"
        " { @ns = hist(nsecs - @start[pid]); delete(@start, pid); }"
    )
    queries = script(postgres, "SELECT 42;\nSELECT 'a \"quoted\" text';\n")
    with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program) as running:
        transactions = postgres.pgbench(queries, CLIENTS, TRANSACTIONS)
        done = running.stop()
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    found = maps(done)
    assert transactions == CLIENTS * TRANSACTIONS
    assert found["@"]["SELECT 42;"] == transactions
    assert found["@"]["SELECT 'a \"quoted\" text';"] == transactions
    # pgbench asks a question or two of its own before it starts; they are timed as well.
    assert total(found["@ns"]) == sum(found["@"].values())
    assert "@start" not in found


def test_queries_are_spans_of_their_process(postgres: Cluster, backend: str, tmp_path: Path, clean: None) -> None:
    """One that fails has no end: those behind it are timed all the same."""
    point = f"usdt:{postgres.server}:postgresql:query"
    program = (
        f"span:{point}__start..{point}__done {{ @[str(arg0)] = count(); @ns = min(duration);"
        " @same[str(arg0) == after(str(arg0))] = count(); }"
    )
    queries = script(postgres, "SELECT 42;\nSELECT 43;\n")
    with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program) as running:
        transactions = postgres.pgbench(queries, CLIENTS, TRANSACTIONS)
        slept = script(postgres, "SELECT 1 / 0;\nSELECT pg_sleep(0.1);\n")
        postgres.psql_file(slept)
        done = running.stop()
    answer = maps(done)
    assert transactions == CLIENTS * TRANSACTIONS
    assert answer["@"]["SELECT 42;"] == answer["@"]["SELECT 43;"] == transactions
    assert answer["@"]["SELECT pg_sleep(0.1);"] == 1 and "SELECT 1 / 0;" not in answer["@"]
    assert answer["@same"] == {"true": sum(answer["@"].values())} and answer["@ns"] > 1000
    assert done.err == "Attached 2 probes\ntracer: 1 span left out: the thread has ended, and no end of it was seen\n"


def test_a_long_query_is_counted_by_its_beginning(
    postgres: Cluster, backend: str, tmp_path: Path, clean: None
) -> None:
    program = f"usdt:{postgres.server}:postgresql:query__start {{ @[str(arg0)] = count(); }}"
    long = [f"SELECT length('{'x' * length}') + {number};" for number, length in enumerate((4050, 5000, 200000))]
    queries = script(postgres, "".join(f"{query}\n" for query in ["SELECT 1;", *long, *long]))
    with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program) as running:
        assert postgres.psql_file(queries) == ["1", *["4050", "5001", "200002"] * 2]
        done = running.stop()
    assert maps(done)["@"] == {"SELECT 1;": 1, long[0][:1023]: 6}
    assert done.err == "Attached 1 probe\ntracer: 6 strings cut to 1023 bytes; raise max_strlen, now 1024\n"


def test_semaphores_are_down_again_afterwards(postgres: Cluster, backend: str, tmp_path: Path, clean: None) -> None:
    program = f"usdt:{postgres.server}:postgresql:query__start {{ @ = count(); }}"
    for _ in range(2):
        with tracing(tmp_path, "--backend", backend, "-e", program) as running:
            postgres.psql("SELECT 1")
            done = running.stop()
        assert (done.status, done.text) == (0, "@: 1\n")


def test_sites_of_one_name_are_read_each_by_its_own_operands(
    postgres: Cluster, backend: str, tmp_path: Path, clean: None
) -> None:
    # buffer__read__done has two sites in PostgreSQL 15: one whose last two arguments are constants, and one that has
    # them in memory. A sequential scan of a table of one page reads that page once, and finds it in the buffers.
    postgres.psql("DROP TABLE IF EXISTS one_page", "CREATE TABLE one_page AS SELECT 1 AS x", "CHECKPOINT")
    node = int(postgres.psql("SELECT pg_relation_filenode('one_page')")[0])
    program = (
        f"usdt:{postgres.server}:postgresql:buffer__read__start /arg4 == {node}/ {{ @start[arg0, arg1] = count(); }}"
        f" usdt:{postgres.server}:postgresql:buffer__read__done /arg4 == {node}/"
        " { @done[arg0, arg1] = count(); @found[arg6, arg7] = count(); }"
    )
    scans = script(postgres, "SELECT x FROM one_page;\n" * 100)
    with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program) as running:
        assert postgres.psql_file(scans) == ["1"] * 100
        done = running.stop()
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    assert maps(done) == {"@start": {"0,0": 100}, "@done": {"0,0": 100}, "@found": {"0,1": 100}}


def test_a_global_variable_as_an_argument(postgres: Cluster, backend: str, tmp_path: Path, clean: None) -> None:
    # buffer__sync__start's first argument is the global NBuffers, the number of shared buffers.
    program = f"usdt:{postgres.server}:postgresql:buffer__sync__start {{ @[arg0] = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-e", program) as running:
        postgres.psql("CREATE TABLE IF NOT EXISTS dirty (x int)", "INSERT INTO dirty VALUES (1)", "CHECKPOINT")
        done = running.stop()
    assert (done.status, done.text) == (0, f"@[{BUFFERS}]: 1\n")


def test_one_connection_alone_is_traced_by_its_pid(
    postgres: Cluster, backend: str, tmp_path: Path, clean: None
) -> None:
    # The postmaster's pid: no query runs in it, whatever its children do.
    postmaster = int((postgres.home / "data" / "postmaster.pid").read_text().splitlines()[0])
    program = "usdt::postgresql:query__start { @ = count(); }"
    with tracing(tmp_path, "--backend", backend, "-p", str(postmaster), "-e", program) as running:
        postgres.psql("SELECT 1")
        done = running.stop()
    assert (done.status, done.out) == (0, b"")


def test_all_sites_are_listed(postgres: Cluster) -> None:
    done = tracer("list", f"usdt:{postgres.server}:*")
    assert (done.status, done.err) == (0, "")
    lines = done.text.splitlines()
    assert f"usdt:{postgres.server}:postgresql:query__start" in lines
    assert len(lines) == len(set(lines)) > 50
