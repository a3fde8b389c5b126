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
    body = "$n = 0; for ($i : 0..arg0 * 100000) { $n++; } print($n);"
    status, words, said = traced(body)
    assert (status, words) == (0, ["100000", "131072", "131072"])
    assert "2 hits ran out of rounds: all loops of a hit have 131072 together" in said
    status, words, said = traced(body, TRACER_WITHOUT="repeats")
    assert (status, words) == (0, ["1024", "1024", "1024"]) and "3 hits ran out of rounds: " in said


NESTED = "for ($i : 0..1000) { for ($j : 0..1000) { for ($k : 0..1000) { $n += arg0; } } }"
OVER_A_MAP = "for ($i : 0..arg0 * 100000) { for ($kv : @m) { $n++; } }"


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
@pytest.mark.parametrize(
    ("body", "shown", "loops"),
    [
        (f"$n = (uint64)0; {NESTED} print($n);", ["130940", "261880", "392820"], 3),
        (f"@m[0] = 1; @m[1] = 1; $n = 0; {OVER_A_MAP} print($n);", ["254", "254", "254"], 3),
    ],
)
def test_loops_inside_each_other_have_their_rounds_together(
    backend: str, body: str, shown: list[str], loops: int, clean: None
) -> None:
    words = ("--backend", backend, "-e", f"uprobe:{build('orders')}:twice {{ {body} }}")
    done = tracer(*words, "-c", f"{build('orders')} 3", timeout=120)
    assert (done.status, done.out.decode().split()[:3]) == (0, shown)
    assert (f"{loops} hits ran out of rounds" in done.err) == bool(loops)
