"""Runs bpftrace's tools, unchanged, through bpftrace and through tracer over one load, and compares what they print.

    python -m scripts.peers BPFTRACE FOLDER [TOOL]…      as root; writes the table of docs/peers.md without any TOOL

All of one tool run at the same time, so that they see the same: bpftrace, tracer on BCC, on ftrace, and on a kernel
whose bpf() is not there (`scripts/without-bpf`). `FOLDER` holds the .bt files.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scripts.peers.tools import PYTHON, TOOLS, WRITTEN
from tests.targets.build import build

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "peers.md"
BEGIN, END = "<!-- begin tools -->\n", "<!-- end tools -->"
_RUNS = 3
_READY_S, _AFTER_S, _ENDS_S = 30.0, 1.3, 20.0

_TRACER = (PYTHON, "-m", "tracer")
OURS = {
    "bcc": (*_TRACER, "--backend", "bcc"),
    "ftrace": (*_TRACER, "--backend", "ftrace"),
    "no BPF": (PYTHON, str(ROOT / "scripts" / "without-bpf"), *_TRACER),
}


@dataclass
class Run:
    """A tool under way, with its outputs in files."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]

    @staticmethod
    def start(command: tuple[str, ...], file: Path) -> Run:
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - `Run` keeps them
        process = subprocess.Popen([*command, str(file)], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT)
        return Run(process, out, err)

    @staticmethod
    def _text(file: IO[bytes]) -> str:
        file.seek(0)
        return file.read().decode(errors="replace")

    @property
    def printed(self) -> str:
        return self._text(self.out)

    @property
    def said(self) -> str:
        return self._text(self.err)

    @property
    def attached(self) -> bool:
        return "Attached " in self.said or "Attached " in self.printed

    def await_probes(self) -> bool:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.attached:
                return True
            time.sleep(0.05)
        return self.attached

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def reason(self) -> str:
        """Why it did not run, in the words of its first error."""
        found = re.search(r"error: (.*)|ERROR: (.*)", self.said)
        return (found[1] or found[2]) if found else (self.said.strip().splitlines() or ["it said nothing"])[-1]


def compare(bpftrace: str, file: Path) -> dict[str, str]:
    """What each gives: "" where it is bpftrace's answer, or why not; "bpftrace" why that one does not run itself."""
    tool = TOOLS.get(file.stem)
    theirs = Run.start((bpftrace,), file)
    if tool is None:
        ready = theirs.await_probes()
        theirs.stop()
        return {"bpftrace": "no load is known for it" if ready else theirs.reason}
    runs = {name: Run.start(command, file) for name, command in OURS.items()}
    if not theirs.await_probes():
        for run in runs.values():
            run.stop()
        return {"bpftrace": theirs.reason}
    able = {name: run.await_probes() for name, run in runs.items()}
    load = tool.load.replace("ACTS", str(build("acts"))).replace("THREADS", str(build("threads")))
    subprocess.run(load, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=60)
    time.sleep(_AFTER_S)
    for run in (theirs, *runs.values()):
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGINT)
    theirs.stop()
    answers: dict[str, str] = {}
    for name, run in runs.items():
        run.stop()
        answers[name] = tool.judge.compare(theirs.printed, run.printed) if able[name] else f"refused: {run.reason}"
        told = re.search(r"hits? (left out.*?: .*?);", run.said)
        if able[name] and answers[name] and told is not None:
            answers[name] = f"hits are {told[1]}"
    return answers


def _best(bpftrace: str, file: Path) -> dict[str, str]:
    """What each gives in the best of a few runs: others use the machine too, and not all tools begin at once."""
    best = compare(bpftrace, file)
    for _ in range(_RUNS - 1):
        if not any(answer and not answer.startswith("refused: ") for answer in best.values()) or "bpftrace" in best:
            break
        again = compare(bpftrace, file)
        best = {
            name: again.get(name, answer) if answer and "left out" not in answer else answer
            for name, answer in best.items()
        }
    return best


def table(found: dict[str, dict[str, str]]) -> str:
    """The table of the page."""
    rows = [f"| tool | {' | '.join(OURS)} | why not |", "|---|---|---|---|---|"]
    for name, answers in found.items():
        if "bpftrace" in answers:
            continue
        marks = [
            "no" if answers[ours].startswith("refused: ") else "differs" if answers[ours] else "yes" for ours in OURS
        ]
        reasons = dict.fromkeys(
            answer.removeprefix("refused: ").split("; ")[0] for answer in answers.values() if answer
        )
        rows.append(f"| `{name}` | {' | '.join(marks)} | {'; '.join(reasons).replace('|', chr(92) + '|')} |")
    others = {name: answers["bpftrace"] for name, answers in found.items() if "bpftrace" in answers}
    rows += ["", "Not compared, since bpftrace cannot run them on this kernel, or there is nothing for them to see: "]
    rows[-1] += ", ".join(f"`{name}`" for name in others) + "."
    return "\n".join(rows) + "\n"


def main() -> int:
    """Compares some tools, or all and writes the table."""
    bpftrace, folder, *names = sys.argv[1:]
    files = [Path(folder) / f"{name}.bt" for name in names] or sorted(Path(folder).glob("*.bt"))
    found = {}
    for file in files:
        found[file.stem] = _best(bpftrace, file)
        print(f"{file.stem:15} {found[file.stem]}", flush=True)
    Path(WRITTEN).unlink(missing_ok=True)
    if not names:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + BEGIN + table(found) + END + rest.partition(END)[2])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
