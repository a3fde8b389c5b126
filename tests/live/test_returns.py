"""Return probes: what is counted, what is refused, and what is lost, beside what the program itself counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps

pytestmark = pytest.mark.live

# What bpftrace's ssllatency.bt does, whose functions of libcrypto are in no symbol table of a stripped library.
SSL = """
uprobe:libssl:SSL_read, uprobe:libssl:SSL_write, uprobe:libssl:SSL_do_handshake { @start[tid] = nsecs; @f[tid] = func; }

uretprobe:libssl:SSL_read, uretprobe:libssl:SSL_write, uretprobe:libssl:SSL_do_handshake
/@start[tid] != 0/
{
    $us = (nsecs - @start[tid]) / 1000;
    if ((int32)retval >= 1) { @good[@f[tid]] = stats($us); } else { @bad[@f[tid]] = stats($us); }
    delete(@start[tid]); delete(@f[tid]);
}

uprobe:libcrypto:RSA_sign, uprobe:libcrypto:rsa_ossl_of_no_library { @crypto[func] = count(); }
"""


def test_the_functions_of_tls_are_timed_as_the_program_counts_them(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    script = tmp_path / "ssl.bt"
    script.write_text(SSL)
    args = ("--backend", backend, "-f", "json", "-o", str(tmp_path / "out"), "-c", f"{place('tls')} 9", str(script))
    refused = tracer(*args)
    assert refused.status == 2
    assert "--unsafe-returns takes the risk" in refused.err
    assert "no function 'rsa_ossl_of_no_library'" in refused.err
    done = tracer("--unsafe-returns", *args, env={"BPFTRACE_MISSING_PROBES": "warn"})
    assert done.status == 0, done.err
    assert "warning: 1 return probe can end the program that is traced: an exception that crosses SSL_do_" in done.err
    assert "warning: left out: /" in done.err and "no function 'rsa_ossl_of_no_library'" in done.err
    names = ("SSL_do_handshake", "SSL_write", "SSL_read")
    counts = [line.split() for line in done.text.splitlines()]
    found = maps(replace(done, out=(tmp_path / "out").read_bytes()))
    for number, key in enumerate(("@good", "@bad")):
        expected = {name: int(words[number]) for name, words in zip(names, counts, strict=True) if words[number] != "0"}
        assert {name: one["count"] for name, one in found[key].items()} == expected


def test_who_takes_the_risk_gets_the_returns_of_a_program_that_throws_nothing(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("throws")
    done = tracer("--backend", backend, "-e", f"uretprobe:{path}:tail {{ @ = count(); }}", "-c", f"{path} 0")
    assert (done.status, done.text) == (2, "")
    assert done.err.endswith("; --unsafe-returns takes the risk\n")
    for args, extra in ((("--unsafe-returns",), {}), ((), {"TRACER_UNSAFE_RETURNS": "1"})):
        program = f"uretprobe:{path}:outer, uretprobe:{path}:tail {{ @[func] = count(); }}"
        done = tracer(*args, "-q", "--backend", backend, "-e", program, "-c", f"{path} 0", env=extra)
        assert (done.status, done.text) == (0, "0\n")
        assert re.search(r"\^+ warning: 1 return probe can end the program .* crosses tail is caught by", done.err)


def test_clauses_whose_attach_points_mean_nothing_go(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("throws")
    program = (
        f"config = {{ missing_probes = ignore }} uprobe:{path}:nobody {{ @none[arg0] = count(); }}"
        f" uprobe:{path}:nobody, uprobe:{path}:outer {{ @[probe] = count(); }}"
    )
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 4")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert done.text == f"8\n@[uprobe:{path}:outer]: 12\n"
