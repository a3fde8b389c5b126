"""Loops in probes on bcc of which the verifier does not see how often they go round: the kernel runs their rounds."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

TOO_MUCH = "error: this clause is too much for bcc: the kernel's verifier gives up on its loops"


def traced(body: str, **env: str) -> tuple[int, list[str], str]:
    words = ("--backend", "bcc", "-e", f"uprobe:{build('orders')}:twice {{ {body} }}", "-c", f"{build('orders')} 3")
    done = tracer(*words, env=env, timeout=120)
    return done.status, done.out.decode().split(), done.err


def test_a_loop_with_output_ends_where_the_hit_says(clean: None) -> None:
    body = 'for ($i : 0..arg0) { printf("%d.%d ", arg0, $i); }'
    status, words, _ = traced(body)
    assert (status, words) == (0, ["1.0", "2.0", "2.1", "3.0", "3.1", "3.2"])
    status, words, said = traced(body, TRACER_WITHOUT="repeats")
    assert (status, words) == (1, []) and TOO_MUCH in said


def test_what_a_round_assigns_is_there_in_the_next_and_behind_the_loop(clean: None) -> None:
    inner = 'for ($j : 0..$n) { if ($j > 1) { break; } $sum += $j; printf("%d ", $sum); }'
    body = f"$sum = 0; $n = 0; while ($n < arg0) {{ $n++; {inner} }} if ($sum > 2) {{ return; }} print(($n, $sum));"
    status, words, _ = traced(body)
    assert (status, " ".join(words)) == (0, "0 (1, 0) 0 0 1 (2, 1) 0 0 1 1 2 (3, 2)")


def test_rounds_end_at_the_limit(clean: None) -> None:
    status, words, said = traced("$n = 0; for ($i : 0..arg0 * 1000) { printf(\"\"); $n++; } print($n);")
    assert (status, words) == (0, ["1000", "1024", "1024"])
    assert "2 loops stopped at the limit of 1024 rounds" in said
