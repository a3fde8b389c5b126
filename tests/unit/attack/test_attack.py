"""What the attacks run and how they judge: a sweep reaches every call and error, and each kind of fault is seen."""

from __future__ import annotations

import errno
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.attack import command
from scripts.attack.calls import ERRORS, number_of, numbers
from scripts.attack.faults import Fault, every, spread, summary
from scripts.attack.trial import CONFIGS
from scripts.attack.verdict import Seen, judge
from scripts.attack.verify import files, summary as readers
from tests.harness.cli import ROOT
from tracer.verify.findings import Part

COUNTS = {str(config): {"openat": 500, "setsid": 1, "write": 3, "getpid": 9} for config in CONFIGS}


def test_each_error_has_a_number_and_each_call_a_number_here() -> None:
    assert all(number_of(error) > 0 for errors in ERRORS.values() for error in errors)
    assert {"openat", "bpf", "perf_event_open", "recvmsg", "execve", "ptrace"} <= ERRORS.keys() & numbers().keys()


def test_a_sweep_reaches_every_call_and_error_in_every_way_of_running() -> None:
    faults = every(COUNTS, 1)
    assert len(set(faults)) == len(faults)
    reached = {(fault.config, fault.call, fault.error) for fault in faults}
    calls = ("openat", "setsid", "write")
    assert reached == {(config, call, error) for config in CONFIGS for call in calls for error in ERRORS[call]}
    places = sorted({fault.nth for fault in faults if fault.call == "openat"})
    assert 1 <= places[0] <= 3 and 498 <= places[-1] <= 500
    assert max(b - a for a, b in pairwise(places)) <= 5
    assert {fault.nth for fault in faults if fault.call == "setsid"} == {1}
    assert {fault.error for fault in faults if fault.lasting} == {"EMFILE", "ENFILE", "ENOMEM"}


def test_with_no_bound_a_sweep_reaches_every_single_call() -> None:
    one = str(CONFIGS[0])
    faults = every({one: {"write": 40}}, 0)
    assert Counter(fault.nth for fault in faults) == dict.fromkeys(range(1, 41), len(ERRORS["write"]))


def test_a_sample_has_all_calls_and_is_the_same_by_its_seed() -> None:
    faults = every(COUNTS, 1)
    assert spread(faults, 30, 7) == spread(faults, 30, 7) != spread(faults, 30, 8)
    assert Counter(fault.call for fault in spread(faults, 30, 7)) == {"openat": 10, "setsid": 10, "write": 10}


@pytest.mark.parametrize("lasting", [False, True])
def test_a_fault_is_read_back_from_its_text(lasting: bool) -> None:
    fault = Fault(CONFIGS[5], "openat", "EMFILE", 300, lasting)
    assert Fault.of(str(fault)) == fault
    assert str(fault).endswith("openat EMFILE 300" + "+" * lasting)


@pytest.mark.parametrize(
    ("status", "out", "err", "kinds"),
    [
        (0, "@: 100", "Attached 1 probe\n", []),
        (0, "@: 99", "Attached 1 probe\n", ["a wrong answer without a word"]),
        (0, "@: 99", "Attached 1 probe\ntracer: 1 hit was lost: no memory\n", []),
        (1, "", "Attached 1 probe\n", ["no word of an error"]),
        (1, "", "tracer: error: pipe2: Too many open files\n", []),
        (1, "", "tracer: error: Too many open files\n", ["an error that names nothing"]),
        (1, "", "tracer: error: [Errno 24] Too many open files\n", ["an error that names nothing"]),
        (1, "", "tracer: error: internal error: KeyError: 3\n", ["an internal error"]),
        (1, "", "tracer: error: the other process was killed\n", ["a false cause"]),
        (1, "", 'Traceback (most recent call last):\n  File "x"\n', ["a traceback"]),
        (1, "", "MemoryError\n", ["a bare exception"]),
        (-11, "", "", ["ended by a signal"]),
    ],
)
def test_each_kind_of_fault_is_seen(status: int, out: str, err: str, kinds: list[str]) -> None:
    seen = Seen(status, out, err)
    judge(seen, "@: 100", errno.EMFILE)
    assert [kind for kind, _ in seen.wrongs] == kinds


def test_who_kills_expects_a_killed_process_and_its_mention() -> None:
    seen = Seen(-9, "", "tracer: the process that removes the probes was killed: tracer removed them itself\n")
    judge(seen, "@: 100", kills=True)
    assert seen.wrongs == []


def test_what_python_says_before_it_reaches_tracer_is_its_own() -> None:
    seen = Seen(1, "", "Fatal Python error: init_import_site\n", began=False)
    judge(seen, "@: 100")
    assert seen.wrongs == []


def test_the_summary_counts_runs_in_which_the_call_failed() -> None:
    name = f"{CONFIGS[0]} openat EMFILE 3"
    rows = [
        {"fault": name, "hit": {}, "status": 0, "seconds": 1.5, "err": "Attached 1 probe\n", "wrongs": []},
        {"fault": name, "hit": {"pid": 1}, "status": 0, "seconds": 0.5, "err": "Attached 1 probe\n", "wrongs": []},
        {"fault": name, "hit": {"pid": 1}, "status": 1, "seconds": 2.5, "err": "", "wrongs": [["a traceback", "x"]]},
    ]
    assert summary(rows).splitlines() == [
        "| faults | |",
        "| --- | --- |",
        "| runs in which the call came and failed | 2 |",
        "| system calls, errors of them | 1, 1 |",
        "| ended with the right answer and no word | 1 |",
        "| ended with an error | 1 |",
        "| median and longest time to the end | 2.5 s, 2.5 s |",
        "| faults found | 1 |",
        "| of them a traceback | 1 |",
    ]


def test_a_table_goes_between_the_marks_of_its_attack_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "reliability.md"
    page.write_text("<!-- attack kills -->\n<!-- end -->\n## Limits\n<!-- attack limits -->\n<!-- end -->\n")
    for table in ("| a |", "| b |"):
        command.write("kills", table)
        kills = f"<!-- attack kills -->\n{table}\n<!-- end -->\n"
        assert page.read_text() == kills + "## Limits\n<!-- attack limits -->\n<!-- end -->\n"


def test_each_attack_has_its_place_in_the_docs() -> None:
    commands = {path.name for path in (ROOT / "scripts" / "attack").iterdir() if path.is_symlink()}
    marks = re.findall(r"<!-- attack (\w+) -->\n", (ROOT / "docs" / "reliability.md").read_text())
    own_page = {path.stem for path in (ROOT / "docs").glob("*.md")}  # scripts/attack/variables has docs/variables.md
    assert set(marks) == commands - own_page and len(marks) == len(set(marks))


def test_each_elf_file_is_compared_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF and more")
    (tmp_path / "text").write_text("no ELF")
    (tmp_path / "same").hardlink_to(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert list(files([str(tmp_path), str(tmp_path)])) == [str(tmp_path / "a")]


def test_the_table_of_the_readers_counts_what_was_compared_what_differs_and_why_not() -> None:
    one = [Part("sections", 30, (), 0, (("not UTF-8", 2),), "", ""), Part("symbols", 5, ("a line",), 3, (), "", "cut")]
    other = [Part("sections", 4, (), 0, (), "", ""), Part("symbols", 1, (), 0, (), "", "")]
    table = readers({"/a": one, "/b": other, "/c": "32-bit ELF files are not supported"}, 9, 12.3)
    assert table.splitlines()[2:] == [
        "| files of this machine, tried, in seconds | 9, 3, 12 |",
        "| no file for tracer: 32-bit ELF files are not supported | 1 |",
        "| sections: compared, different, files whose time ended first | 34, 0, 0 |",
        "| symbols: compared, different, files whose time ended first | 6, 4, 1 |",
        "| not compared: a name is not UTF-8: pyelftools has U+FFFD there, ours escapes of the bytes | 2 |",
    ]
