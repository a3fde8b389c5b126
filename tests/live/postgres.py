"""A PostgreSQL cluster of the test's own: in a temporary directory, on a Unix socket, run by an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "nobody"
BUFFERS = 512  # of 8 KiB


def installation() -> Path | None:
    """The directory of the newest server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


@dataclass(frozen=True)
class Cluster:
    """A running server. `bin` holds its programs, `home` its socket."""

    bin: Path
    home: Path

    @property
    def server(self) -> Path:
        """The program to trace."""
        return self.bin / "postgres"

    def psql(self, *statements: str) -> list[str]:
        """Runs statements in one connection; the rows, columns separated by `|`."""
        commands = [word for statement in statements for word in ("-c", statement)]
        return _run(self, self.bin / "psql", "-X", "-q", "-A", "-t", *commands, "postgres").splitlines()

    def psql_file(self, script: Path) -> list[str]:
        """Runs a file of statements in one connection."""
        return _run(self, self.bin / "psql", "-X", "-q", "-A", "-t", "-f", str(script), "postgres").splitlines()

    def pgbench(self, script: Path, clients: int, transactions: int) -> int:
        """Runs a script from several connections; pgbench's own number of transactions."""
        out = _run(
            self, self.bin / "pgbench", "-n", "-c", str(clients), "-t", str(transactions), "-f", str(script), "postgres"
        )
        line = next(line for line in out.splitlines() if line.startswith("number of transactions actually processed"))
        return int(line.split(":")[1].split("/")[0])


@contextmanager
def cluster(bin: Path) -> Iterator[Cluster]:
    """Makes, starts and removes a cluster."""
    home = Path(tempfile.mkdtemp(prefix="tracer-pg-"))
    user = pwd.getpwnam(USER)
    os.chown(home, user.pw_uid, user.pw_gid)
    home.chmod(0o755)
    made = Cluster(bin, home)
    data = home / "data"
    try:
        _run(made, bin / "initdb", "-D", str(data), "-A", "trust", "-N", "-U", USER)
        options = f"-k {home} -c listen_addresses= -c shared_buffers={BUFFERS} -c autovacuum=off -c fsync=off"
        _run(made, bin / "pg_ctl", "-D", str(data), "-o", options, "-l", str(home / "log"), "-w", "start")
        try:
            yield made
        finally:
            _run(made, bin / "pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(where: Cluster, *command: object) -> str:
    user = pwd.getpwnam(USER)
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=where.home,
        env={**os.environ, "PGHOST": str(where.home), "PGUSER": USER, "LC_ALL": "C"},
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
