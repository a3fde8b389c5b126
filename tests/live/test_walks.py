"""`for` over a map in a probe: exact where many hits come at once, and what bcc does without it or cannot do in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.depot import COLD
from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.live.bcc import build_hits
from tests.live.test_flood import busy
from tests.targets.build import build

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

THREADS, EACH = 4, 25_000
REASON = "for over @n is not available with bcc: the kernel has no walk over a map for BPF programs"


def test_many_threads_beside_busy_loops_see_every_key_and_value(tmp_path: Path, clean: None) -> None:
    # The hit that counts last walks behind all others: it, and none before, sees as many as there are.
    hits = build_hits(tmp_path)
    program = (
        "let @m = hash(64); let @c = percpuhash(64); BEGIN { @m[1] = 5; @m[2] = 70; @m[3] = 900; }"
        f" usdt:{hits}:hits:flood {{ @c[arg0 & 7] = count(); $s = 0; $seen = 0;"
        " for ($kv : @m) { $s += $kv.0 * $kv.1; @rounds = count(); }"
        " for ($kv : @c) { $seen += $kv.1; } @s = sum($s); @most = max($seen); @n = count(); }"
    )
    with busy():
        done = tracer(
            "--backend", "bcc", "-f", "json", "-e", program, "-c", f"{hits} flood {THREADS} {EACH}", timeout=240
        )
    found, number = maps(done), THREADS * EACH
    assert done.status == 0 and "lost" not in done.err and "left out" not in done.err
    assert (found["@n"], found["@rounds"], found["@s"]) == (number, 3 * number, (5 + 140 + 2700) * number)
    assert sum(found["@c"].values()) == found["@most"] == number


def test_without_the_kernels_walk_ftrace_takes_it_with_the_same_answer(clean: None) -> None:
    hit = "{ @n[arg0 & 3] = count(); for ($kv : @n) { @ = sum($kv.1); } }"
    text = f"let @n = percpuhash(64); usdt:{build('depot')}:depot:parcel {hit}"
    words, without = ("-e", text, "-c", f"{build('depot')} 5"), {"TRACER_WITHOUT": "walks"}
    refused = tracer("--backend", "bcc", *words, env=without)
    taken, plain = tracer(*words, env=without), tracer(*words)
    carets = " " * text.index("for (") + "^" * len("for ($kv : @n)")
    assert (refused.status, refused.out) == (1, b"")
    assert refused.err == f"{text}\n{carets} error: {REASON}; use Linux 5.13 or newer\n"
    assert taken.err == f"tracer: using ftrace, not bcc: {REASON} (use Linux 5.13 or newer)\nAttached 1 probe\n"
    assert taken.out == plain.out != b""
    assert plain.err == "Attached 1 probe\n"


def test_ftrace_is_taken_where_the_kernel_would_look_at_room_for_many_keys(clean: None) -> None:
    text = f"usdt:{build('depot')}:depot:parcel {{ @n[arg0 & 3] = count(); for ($kv : @n) {{ @ = sum($kv.1); }} }}"
    words = ("-e", text, "-c", f"{build('depot')} 5")
    taken, forced = tracer(*words), tracer("--backend", "bcc", *words)
    why = "tracer: using ftrace, not bcc: each hit visits the room for every key, 20 ns each\n"
    assert (taken.err, forced.err) == (f"{why}Attached 1 probe\n", "Attached 1 probe\n")
    assert taken.out == forced.out != b""


def test_a_walk_does_not_wait_for_a_page(clean: None) -> None:
    """The kernel holds its lock of readers meanwhile. What is read before the loop waits as ever."""
    head = f"usdt:{build('depot')}:depot:label /arg0 == {COLD}/ {{ @t[1] = 1; "
    words = ("--backend", "bcc", "-c", f"{build('depot')} 1", "-e")
    inside = tracer(*words, head + "for ($kv : @t) { @[str(arg1)] = count(); } }")
    before = tracer(*words, head + "$s = str(arg1); for ($kv : @t) { @[$s] = count(); } }")
    assert "1 hit left out: an argument or string could not be read there" in inside.err
    assert (before.err, before.text) == ("Attached 1 probe\n", "@[a page nobody touched]: 1\n@t[1]: 1\n")


def nested(loops: str) -> str:
    """A loop over a map for each letter, one inside the other."""
    body = f"@n = count(); $s += ${loops[0]}.1 * ${loops[-1]}.1;"
    for letter in reversed(loops):
        body = f"for (${letter} : @m) {{ {body} }}"
    head = f"BEGIN {{ @m[1] = 2; @m[5] = 3; }} usdt:{build('depot')}:depot:gauge"
    return f"{head} {{ $s = 0; {body} @s = $s; }}"


def test_seven_loops_run_inside_each_other_and_eight_are_refused(clean: None) -> None:
    words = ("--backend", "bcc", "-c", f"{build('depot')} 1", "-e")
    seven, eight = tracer(*words, nested("abcdefg")), tracer(*words, nested("abcdefgh"))
    assert seven.status == 0, seven.err
    assert (maps_of(seven.text)["@n"], maps_of(seven.text)["@s"]) == (2**7, 2**5 * (2 + 3) ** 2)
    assert eight.status == 1
    assert "this clause is too much for bcc: the kernel follows seven loops over maps inside each other" in eight.err


def maps_of(text: str) -> dict[str, int]:
    """Those without keys."""
    rows = (line.partition(": ") for line in text.splitlines() if line.startswith("@") and "[" not in line)
    return {name: int(value) for name, _, value in rows}
