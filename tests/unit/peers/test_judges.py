"""How outputs of bpftrace's tools are compared."""

from __future__ import annotations

from scripts.peers.__main__ import table
from scripts.peers.tools import lines, rates, totals

THEIRS = "TIME PID\n10:00:01.123456  7 acts 0.5\n10:00:02.000000  7 acts 0.7\n10:00:03.000000  9 other 1\n"


def test_lines_are_the_same_but_for_times_and_what_is_left_out() -> None:
    judge = lines(r"\bacts\b")
    assert judge.compare(THEIRS, "10:00:01.123999  7 acts 0.6\n10:00:02.100000 7 acts 0.9\n") == ""
    assert judge.compare(THEIRS, "10:00:01.123999  7 acts 0.6\n") == "1 of 2 lines missing, 0 others"
    assert judge.compare(THEIRS, "10:00:01.1 7 acts 0.6\n10:00:02.1 8 acts 0.9\n") == "1 of 2 lines missing, 1 others"
    assert judge.compare("nothing\n", THEIRS) == "bpftrace printed nothing of it"
    assert lines("acts", r" \d+ ").compare("1 7 acts\n", "1 8 acts\n") == ""


def test_totals_may_lie_a_fifth_apart() -> None:
    theirs = "@usecs:\n[1]      60 |@@@@ |\n[2, 4)   40 |@@   |\n\n@n: 100\n@of[acts]: 20\n"
    assert totals().compare(theirs, "@n: 200\n") == ""
    assert totals().compare(theirs, "@n: 120\n") == "120 in place of 220"
    assert totals(0.6).compare(theirs, "@n: 120\n") == ""
    assert totals().compare("", "@n: 120\n") == "bpftrace counted nothing"
    assert rates().compare("@: 4\n@: 20\n", "@: 19\n@: 2\n") == ""
    assert rates().compare("@: 4\n@: 20\n", "@: 9\n@: 2\n") == "9 in place of 20"


def test_the_table_says_what_is_refused_and_why() -> None:
    found = {
        "one": {"bcc": "", "ftrace": "refused: no uid; --backend bcc can", "no BPF": "refused: no uid; bcc could"},
        "two": {"bcc": "", "ftrace": "3 in place of 9", "no BPF": ""},
        "three": {"bpftrace": "No matches for kprobe x."},
    }
    rows = table(found).splitlines()
    assert rows[2:4] == ["| `one` | yes | no | no | no uid |", "| `two` | yes | differs | yes | 3 in place of 9 |"]
    assert rows[-1].endswith(": `three`.")
