"""Records what bpftrace answers to the cases, and shows where ours is another answer.

    BPFTRACE=path python -m tests.suite.record [--again] [TOPIC | TOPIC-NAME]...   asks it, as root
    python -m tests.suite.record --ours [TOPIC | TOPIC-NAME]...                    shows ours beside what is recorded
    python -m tests.suite.record --closed                                          drops the gaps that are none any more

Cases whose answer is there are asked again only with --again, or where they are named.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.harness.warm import Warms
from tests.suite.case import ANSWERS_IN, BACKENDS, CASES_IN, TARGET, Answer, Case, cases
from tests.suite.runs import Runs, fault
from tests.targets.build import build

_TIMEOUT_S = 30.0


def ask(case: Case, bpftrace: str) -> Answer:
    """What bpftrace says to a case."""
    answer = _asked(case, bpftrace, "text")
    if answer.refused is not None or not case.json:
        return answer
    return Answer(answer.out, _asked(case, bpftrace, "json").out, answer.status)


def _asked(case: Case, bpftrace: str, format: str) -> Answer:
    path = build(TARGET)
    command = [bpftrace, "-f", format, *case.words(case.located(path), path)]
    try:
        done = subprocess.run(
            command, capture_output=True, env={**os.environ, **case.env}, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return Answer(refused="it does not end")
    said = done.stderr.decode(errors="replace")
    out = done.stdout.decode(errors="surrogateescape").replace(str(path), "T")
    if done.returncode < 0:
        return Answer(refused=f"it is killed by signal {-done.returncode}")
    attached = "Attached" in said or '"attached_probes"' in out
    if done.returncode and not attached:
        errors = re.findall(r"^(?:.*: )?ERROR: (.*)", said, re.M)
        return Answer(refused=(errors or said.strip().splitlines()[-1:] or ["?"])[0].replace(str(path), "T"))
    return Answer(out, status=done.returncode)


def keep(topic: str, answers: dict[str, Answer]) -> None:
    """Writes the answers of a topic."""
    found: dict[str, dict[str, object]] = {}
    for name, answer in answers.items():
        kept: dict[str, object] = {}
        for part in ("out", "json"):
            text = getattr(answer, part)
            if text is not None:
                kept[part] = text.splitlines(keepends=True) if "\r" not in text and "\x0c" not in text else [text]
        if answer.status:
            kept["status"] = answer.status
        if answer.refused is not None:
            kept = {"refused": answer.refused}
        found[name] = kept
    (ANSWERS_IN / f"{topic}.json").write_text(json.dumps(found, indent=1) + "\n")


def record(wanted: Sequence[Case], everything: Sequence[Case]) -> None:
    """Asks for the cases and writes their topics anew."""
    bpftrace = os.environ["BPFTRACE"]
    build(TARGET)  # once, not in each of the threads
    with ThreadPoolExecutor(3) as pool:
        asked = dict(zip(map(str, wanted), pool.map(lambda case: ask(case, bpftrace), wanted), strict=True))
    for topic in {case.topic for case in wanted}:
        of_topic = [case for case in everything if case.topic == topic]
        found = {case.name: asked.get(str(case), case.theirs) for case in of_topic}
        keep(topic, {name: answer for name, answer in found.items() if answer is not None})


def compare(wanted: Sequence[Case], legs: Sequence[tuple[str, str]] = ()) -> dict[tuple[str, str, str], str]:
    """What is wrong with each leg of the cases that is wrong."""
    chosen = legs or [(backend, format) for backend in BACKENDS for format in ("text", "json")]
    asked = [(case, backend, format) for case in wanted for backend, format in chosen if format in case.formats]
    runs = Runs(asked, Warms())
    try:
        return {
            (str(case), backend, format): said
            for case, backend, format in runs.legs
            if (said := fault(case, backend, format, runs(case, backend, format)))
        }
    finally:
        runs.close()


def show(wanted: Sequence[Case]) -> None:
    """Prints where ours is another answer."""
    faults = compare(wanted)
    for (name, backend, format), said in faults.items():
        case = next(each for each in wanted if str(each) == name)
        mark = " (gap)" if (backend, format) in case.gaps else ""
        print(f"=== {name} {backend} {format}{mark}\n{case.program}\n{said}\n")
    print(f"{len(wanted)} cases, {len(faults)} legs are wrong")


def drop_closed(everything: Sequence[Case]) -> None:
    """Removes the markers of gaps whose legs are all right now."""
    marked = [case for case in everything if case.gaps]
    faults = compare(marked)
    for case in marked:
        if any((str(case), backend, format) in faults for backend, format in case.gaps if format in case.formats):
            continue
        path = CASES_IN / f"{case.topic}.txt"
        head, name, rest = path.read_text().partition(f"== {case.name}\n")
        block, mark, after = rest.partition("\n== ")
        path.write_text(head + name + re.sub(r"(?m)^-- gap.*\n", "", block) + mark + after)
        print(f"closed: {case}")



def main(words: list[str]) -> int:
    """Does what the words say."""
    everything = cases()
    names = [word for word in words if not word.startswith("--")]
    chosen = [case for case in everything if case.topic in names or str(case) in names] if names else list(everything)
    if "--closed" in words:
        drop_closed(everything)
    elif "--ours" in words:
        show([case for case in chosen if case.ours or case.theirs])
    else:
        record([case for case in chosen if names or "--again" in words or case.theirs is None], everything)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
