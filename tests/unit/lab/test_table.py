from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.lab import LabError, NotAvailable
from scripts.lab.results import DOCUMENT, Outcome, Result, from_json, report, table, to_json, write_table
from scripts.lab.suite import complaints

GOOD = Outcome(
    "6.1",
    "6.1.0-56-amd64",
    (
        Result("a[x-bcc-text]", "bcc", "passed", ""),
        Result("a[x-ftrace-text]", "ftrace", "refused", ""),
        Result("a[y-bcc-text]", "bcc", "excepted", ""),
        Result("tests/suite/test_suite.py::b[z-bcc-text]", "bcc", "passed", ""),
        Result("vm", None, "passed", ""),
        Result("vm_other", None, "skipped", ""),
    ),
    (),
    61.4,
    "2026-01-02",
)
BAD = Outcome(
    "nobpf",
    "6.1.192-nobpf",
    (Result("a[x-ftrace-text]", "ftrace", "failed", "assert 1 == 2\n"),),
    ("the kernel complained: WARNING: in uprobe",),
    9.0,
)


def test_a_report_counts_by_backend_and_shows_what_failed() -> None:
    assert report(GOOD) == (
        "6.1 (6.1.0-56-amd64): passed, 61 s\n"
        "  contract on bcc: 1 passed, 1 said exceptions\n"
        "  contract on ftrace: 0 passed, 1 refused\n"
        "  suite on bcc: 1 passed\n"
        "  tests of this kernel: 1 passed, 1 left out"
    )
    assert report(BAD) == (
        "nobpf (6.1.192-nobpf): FAILED, 9 s\n"
        "  contract on ftrace: 0 passed, 1 FAILED\n"
        "--- nobpf: a[x-ftrace-text]\n"
        "assert 1 == 2\n"
        "--- nobpf: the kernel complained: WARNING: in uprobe"
    )


def test_no_result_at_all_is_no_pass() -> None:
    assert GOOD.passed
    assert not BAD.passed
    assert not Outcome("6.1", "", (), (), 1.0).passed


def test_the_table_says_what_passed_and_what_could_not_be_had() -> None:
    assert table({"6.1": GOOD, "nobpf": BAD, "5.10": NotAvailable("nobody answers")}) == (
        "\n"
        "| kernel | run on | where from | backend | passed | refused | exceptions | failed | suite | own tests |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| nobpf (6.1.192-nobpf) |  | built from linux-source-6.1 | ftrace | 0 | 0 | 0 | 1 | not run | not run |\n"
        "| 6.1 (6.1.0-56-amd64) | 2026-01-02 | Debian's package | bcc | 1 | 0 | 1 | 0 | 1 passed | 1 passed |\n"
        "|  |  |  | ftrace | 0 | 1 | 0 | 0 | not run |  |\n"
        "| 6.1-lockdown | not run |  |  |  |  |  |  |  |  |\n"
        "| 6.12 | not run |  |  |  |  |  |  |  |  |\n"
        "| 7.2 | not run |  |  |  |  |  |  |  |  |\n"
        "| 5.10 | not available: nobody answers |  |  |  |  |  |  |  |  |\n"
        "\n"
        "- nobpf: `a[x-ftrace-text]` failed.\n"
        "- nobpf: the kernel complained: WARNING: in uprobe"
    )


def test_the_table_goes_between_its_marks_and_nothing_else_changes(tmp_path: Path) -> None:
    document = tmp_path / "kernels.md"
    document.write_text(DOCUMENT.read_text())
    write_table({"6.1": GOOD}, document)
    write_table({}, document)
    again = document.read_text()
    assert table({"6.1": GOOD}).splitlines()[4] in again  # a kernel without an outcome keeps its rows
    assert "\n| 6.12 (" in again and "| 6.12 | not run" not in again
    before, _, _ = DOCUMENT.read_text().partition("from here -->")
    assert again.startswith(before)
    assert again.endswith(DOCUMENT.read_text().partition("<!-- to here -->")[2])
    document.write_text("no marks\n")
    with pytest.raises(LabError):
        write_table({}, document)


def test_what_is_kept_of_a_run_is_all_of_it() -> None:
    assert from_json(to_json(GOOD)) == GOOD
    assert from_json(to_json(BAD)) == BAD


def test_a_run_that_goes_on_with_another_replaces_what_was_not_passed_and_keeps_complaints() -> None:
    cut = replace(GOOD, trouble=("the tests were ended after 9 s", "the kernel complained: WARNING: x"))
    cut = replace(cut, results=(*GOOD.results, *BAD.results))
    in_suite = "tests/suite/test_suite.py::b[z-bcc-text]"
    assert cut.done == ("a[x-bcc-text]", "a[x-ftrace-text]", "a[y-bcc-text]", in_suite, "vm", "vm_other")
    later = Outcome(
        "6.1", "6.1.0-57-amd64", (replace(BAD.results[0], outcome="passed", said=""),), (), 2.0, "2026-01-03"
    )
    whole = cut.with_more(later)
    assert (whole.release, whole.day, whole.failures) == ("6.1.0-57-amd64", "2026-01-03", ())
    assert whole.trouble == ("the kernel complained: WARNING: x",)
    assert len(whole.results) == 6


def test_what_a_kernel_says_of_itself_is_heard() -> None:
    console = "[ 1.0] booted\n[ 2.0] WARNING: CPU: 0 PID: 1 at kernel/events/uprobes.c:1\n[ 3.0] fine\n"
    assert complaints(console) == ["[ 2.0] WARNING: CPU: 0 PID: 1 at kernel/events/uprobes.c:1"]
