"""The cases of the suite, and what bpftrace 0.27.1 answered to each, read from their files.

cases/TOPIC.txt holds programs as people write them:

    == name of the case
    -- json                       recorded and compared as JSON too
    -- run: 3                     the program traces `orders 3`; `:T:` in it stands for the path of that program,
                                  the line `ORDER` for the declarations of its types
    -- args: 42 -- --limit=5      words after the program
    -- env: BPFTRACE_MAX_STRLEN=8
    -- unsafe                     with --unsafe
    -- live: why                  not without root and a kernel
    -- differs: why               ours is another answer on purpose (docs/language.md lists these); it stands behind
                                  the program in lines that begin with `>> `, as JSON in `>json> `; `>refused> ` has the
                                  message of a refusal; a program that prints nothing has none
    -- refused ftrace: message    that backend does not run it, and says so
    -- gap ftrace json: why       not yet right there (`gap: why`: nowhere); the test fails as soon as it is
    BEGIN { … }

answers/TOPIC.json holds what record.py wrote of them, by name: `out` and `json` as lines, `status` where it is not 0,
and `refused`, the message of a program that bpftrace does not take.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).parent
CASES_IN, ANSWERS_IN = HERE / "cases", HERE / "answers"

BACKENDS, FORMATS = ("bcc", "ftrace"), ("text", "json")
TARGET = "orders"
DECLARED = (CASES_IN / "order.h").read_text()


@dataclass(frozen=True)
class Answer:
    """What a program comes to. `refused` is the message where it is not run at all."""

    out: str | None = None
    json: str | None = None
    status: int = 0
    refused: str | None = None

    def of(self, format: str) -> str | None:
        """What goes to stdout."""
        return self.json if format == "json" else self.out


@dataclass(frozen=True)
class Case:
    """A program, how it is started, and what is known of its answers.

    `theirs` is bpftrace's answer, None where none is recorded; `ours` is there where it is another on purpose.
    `refused` and `gaps` are by backend, the latter by pairs of backend and format.
    """

    name: str
    topic: str
    program: str
    json: bool = False
    rounds: int | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    unsafe: bool = False
    live: bool = False
    differs: str = ""
    ours: Answer | None = None
    theirs: Answer | None = None
    refused: dict[str, str] = field(default_factory=dict)
    gaps: dict[tuple[str, str], str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.topic}-{self.name.replace(' ', '_')}"

    @property
    def recorded(self) -> bool:
        """Whether its answer is known."""
        return self.ours is not None or self.theirs is not None

    @property
    def wanted(self) -> Answer:
        """The answer that is right here."""
        found = self.ours or self.theirs
        assert found is not None, f"{self}: no answer is recorded; run tests/suite/record.py"
        return found

    @property
    def formats(self) -> tuple[str, ...]:
        """In which formats it is compared."""
        wanted = self.ours or self.theirs
        as_json = self.json and (wanted is None or wanted.refused is not None or wanted.json is not None)
        return FORMATS if as_json else FORMATS[:1]

    @property
    def params(self) -> list[str]:
        """The program's own words, $1 and so on."""
        return [word for word in self.args if word != "--"]

    @property
    def settings(self) -> dict[str, str]:
        """What `pipeline.plan` is given as the environment."""
        return {**self.env, "TRACER_UNSAFE": "true"} if self.unsafe else self.env

    def words(self, program: str, path: Path | None) -> list[str]:
        """What stands behind `tracer run` or `bpftrace`, but for the format and the backend."""
        words = ["--unsafe"] * self.unsafe + ["-e", program]
        if self.rounds is not None:
            words += ["-c", f"{path} {self.rounds}"]
        return [*words, *self.args]

    def located(self, path: Path) -> str:
        """The program with the target's path and the declarations of its types in place."""
        return self.program.replace("ORDER\n", DECLARED).replace(":T:", f":{path}:")


def cases() -> tuple[Case, ...]:
    """All of them, in the order of the files."""
    found = [case for path in sorted(CASES_IN.glob("*.txt")) for case in _read(path)]
    names = [str(case) for case in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two cases of one name: {twice}")
    return tuple(found)


def part_of(index: int, parts: int) -> tuple[Case, ...]:
    """Every `parts`th of those that trace the target, from the one with that index on."""
    return tuple(case for case in cases() if case.rounds is not None)[index::parts]


def _read(path: Path) -> list[Case]:
    recorded = ANSWERS_IN / f"{path.stem}.json"
    answers = json.loads(recorded.read_text()) if recorded.exists() else {}
    cases = []
    for block in ("\n" + path.read_text()).split("\n== ")[1:]:
        name, _, rest = block.partition("\n")
        case = _case(name.strip(), path.stem, rest)
        if case.name in answers:
            case = replace(case, theirs=read_answer(answers[case.name]))
        cases.append(case)
    return cases


def read_answer(found: dict[str, object]) -> Answer:
    """An answer as it stands in a file of answers."""

    def text(name: str) -> str | None:
        lines = found.get(name)
        return "".join(lines) if isinstance(lines, list) else None

    status, refused = found.get("status", 0), found.get("refused")
    assert isinstance(status, int)
    return Answer(text("out"), text("json"), status, None if refused is None else str(refused))


def _case(name: str, topic: str, text: str) -> Case:
    case = Case(name, topic, "")
    program: list[str] = []
    own: dict[str, list[str]] = {">> ": [], ">json> ": [], ">refused> ": []}
    for line in text.rstrip().split("\n"):
        mark = next((mark for mark in own if line == mark.strip() or line.startswith(mark)), None)
        if mark is not None:
            own[mark].append(line[len(mark) :] + "\n")
        elif line.startswith("-- ") and not program:
            case = _option(case, line[3:])
        elif not line.startswith("# ") or program:
            program.append(line)
    if case.differs:
        out, as_json, refused = (own[mark] for mark in own)
        ours = Answer(refused="".join(refused).strip()) if refused else Answer("".join(out))
        case = replace(case, ours=replace(ours, json="".join(as_json) if as_json else None))
    return replace(case, program="\n".join(program).strip())


def _option(case: Case, text: str) -> Case:
    head, _, value = text.partition(": ")
    match head.split():
        case ["json"]:
            return replace(case, json=True)
        case ["unsafe"]:
            return replace(case, unsafe=True)
        case ["live"]:
            return replace(case, live=True)
        case ["run"]:
            return replace(case, rounds=int(value))
        case ["args"]:
            return replace(case, args=tuple(shlex.split(value)))
        case ["env"]:
            return replace(case, env=dict(word.split("=", 1) for word in shlex.split(value)))
        case ["differs"]:
            return replace(case, differs=value)
        case ["refused", backend] if backend in BACKENDS:
            return replace(case, refused={**case.refused, backend: value})
        case ["gap", *where]:
            backends = [each for each in BACKENDS if each in where] or BACKENDS
            formats = [each for each in FORMATS if each in where] or FORMATS
            found = {(backend, format): value for backend in backends for format in formats}
            return replace(case, gaps={**case.gaps, **found})
    raise ValueError(f"{case}: {text}")
