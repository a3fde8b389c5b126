"""The reference pages say what the program's own tables say.

`python tests/unit/test_docs.py` writes those tables into the pages.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from textwrap import fill

import pytest

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.unit.backends.bcc.plans import plan_of, probe  # noqa: E402
from tracer.backends.bcc.host import features as bcc  # noqa: E402
from tracer.backends.bcc.host.binding import NoBinding, find_binding  # noqa: E402
from tracer.backends.bcc.program import BccProgram  # noqa: E402
from tracer.backends.ftrace import features as ftrace  # noqa: E402
from tracer.kernel import disabled  # noqa: E402 - run as a script, the path comes first
from tracer.kinds import arch, timers  # noqa: E402
from tracer.kinds.registry import KINDS  # noqa: E402
from tracer.lang import config, typed, unsupported  # noqa: E402
from tracer.lang.aggregations import histograms, series  # noqa: E402
from tracer.lang.builtins import registry  # noqa: E402
from tracer.lang.check.unroll import UNROLL_MOST, UNROLLED_MOST  # noqa: E402
from tracer.lang.features import FEATURES  # noqa: E402
from tracer.lang.syntax import expressions, statements  # noqa: E402
from tracer.lang.types import STACK_FRAMES_MOST  # noqa: E402
from tracer.plan.states import Has, State, Unsupported  # noqa: E402

PLACES = {
    "anywhere": "anywhere", "probe": "probes", "return": "uretprobe, call", "call": "call",
    "signal": "all but BEGIN, END, interval", "registers": "probes, samples, watchpoints",
    "user": "BEGIN, END, interval",
}  # fmt: skip

SETTINGS = {
    "max_strlen": "bytes of a string's buffer, the NUL included",
    "str_trunc_trailer": "text that is shown after a string that fills its buffer; the NUL then has room of its own",
    "max_map_keys": "keys of each map",
    "max_probes": "probes that a program may have, BEGIN and END included; `--max-probes N` sets it too",
    "max_cat_bytes": "bytes of a file that `cat` shows",
    "stack_frames": "frames of `ustack` without a number",
    "stack_mode": "how `ustack` without a mode is shown",
    "stack_copy": "bytes of a stack that are copied, to be walked in user space; 0, where it is not set: 16,384, and"
    " up to 65,024 where stacks go on behind them",
    "stack_unwind": "how stacks are walked: by unwind tables, and where there are none frame pointers; or by these",
    "missing_probes": "what happens to an attach point that matches nothing: with `warn` or `ignore` the others go on",
    "unsafe": "allow what acts on the machine or on what is traced; `--unsafe` sets it, a program cannot",
    "inlined": "a function means its inlined copies too, as far as debug information tells of them",
    "unsafe_returns": "probe returns where an exception can end the program; `--unsafe-returns` sets it too",
    "print_maps_on_exit": "print the maps at the end",
    "show_stacks": "a probe without a body shows the user stack of each hit too",
    "typed_retval": "`retval` has the type that the function returns in a `uretprobe` too, as in a `call:` clause",
    "show_debug_info": "stacks show lines of source and what was inlined, as far as debug information knows it",
    "cpp_demangle": "stacks and `usym` show names of C++ and Rust as people write them, not as linkers do",
}

NOT_THERE = " (not in bpftrace)"

Left = Mapping[str, tuple[str, str | None]]


def table(*rows: tuple[str, ...]) -> str:
    """Rows as a table; the first is its head."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def left_out(entries: Left, write: Callable[[str], str] = lambda name: name) -> str:
    """What is left out, names with one reason in one row."""
    rows: dict[tuple[str, str | None], list[str]] = {}
    for name, entry in entries.items():
        rows.setdefault(entry, []).append(f"`{write(name)}`")
    body = [(" ".join(names), reason, remedy or "") for (reason, remedy), names in rows.items()]
    return table(("left out", "reason", "instead"), *body)


def functions(kind: str) -> str:
    rows = [row for row in registry.FUNCTIONS.values() if row.role == kind]
    return table(
        ("function", "type", "where", "gives" if kind != "statement" else "does"),
        *((f"`{row.call}`", row.shown or str(row.type or "none"), PLACES[row.place], row.help + NOT_THERE * row.ours)
          for row in rows),
    )


def settings() -> str:
    defaults = {each.name: str(each.default).lower() for each in fields(typed.Config) if each.name != "tuning"}
    assert defaults.keys() == set(config.SETTINGS) == SETTINGS.keys()
    return table(
        ("setting", "default", "can be", "is"),
        *((f"`{name}`", defaults[name], f"{low} to {high}", SETTINGS[name] + NOT_THERE * (name in config.OURS))
          for name, (low, high) in config.LIMITS.items()),
        *((f"`{name}`", defaults[name], ", ".join(words), SETTINGS[name] + NOT_THERE * (name in config.OURS))
          for name, words in config.WORDS.items()),
        *((f"`{name}`", defaults[name] or '""', "a text", SETTINGS[name]) for name in config.TEXTS),
    )  # fmt: skip


def limits() -> str:
    return table(
        ("what", "at most"),
        ("rounds that all loops of a probe have together at a hit", str(typed.LOOP_LIMIT)),
        ("rounds that all loops of BEGIN, END or an interval have together", str(typed.LOCAL_LOOP_LIMIT)),
        ("rounds of `unroll`", str(UNROLL_MOST)),
        ("statements that all `unroll` of a clause make together", str(UNROLLED_MOST)),
        ("blocks inside each other", str(statements.MAX_BLOCKS)),
        ("brackets inside each other", str(expressions.MAX_NESTING)),
        ("operators inside each other", str(expressions.MAX_DEPTH)),
        ("frames of a stack", str(STACK_FRAMES_MOST)),
        ("second argument of `hist`", str(histograms.HIST_BITS_MOST)),
        ("buckets of `lhist` between low and high", str(histograms.LHIST_BUCKETS_MOST)),
        ("intervals of `tseries`", str(series.MOST_INTERVALS)),
        ("arguments of a function (`uprobe`)", str(arch.MAX_FUNCTION_ARGS)),
        ("shortest interval", f"{timers.SHORTEST_PERIOD_NS} ns"),
    )


BACKENDS = {"bcc": bcc, "ftrace": ftrace}


def everything(name: str) -> bool:
    """A kernel that has every feature."""
    return name in disabled.KNOWN


def all_but(missing: str) -> Has:
    return lambda name: everything(name) and name != missing


def says(state: State) -> str:
    if isinstance(state, Unsupported):
        return f"no: {state.reason}"
    return f"partly: {state.but}" if state.but else f"yes: {state.how}" if state.how else "yes"


def features() -> str:
    rows = [[says(module.states(everything)[feature]) for module in BACKENDS.values()] for feature in FEATURES]
    names = [feature.name for feature in FEATURES]
    return table(("what a program may need", *BACKENDS), *((name, *row) for name, row in zip(names, rows, strict=True)))


def taken_away(name: str) -> str:
    """What programs lose, or get otherwise, on a kernel without this feature."""
    if name in ("bpf", "ring"):
        return "bcc is not usable"
    changed: dict[tuple[State, str], list[str]] = {}
    for feature in FEATURES:
        found: dict[State, list[str]] = {}
        for backend, module in BACKENDS.items():
            if (state := module.states(all_but(name))[feature]) != module.states(everything)[feature]:
                found.setdefault(state, []).append(backend)
        for state, backends in found.items():
            changed.setdefault((state, " and ".join(backends)), []).append(feature.name)
    lines = [f"{backends}: {', '.join(names)}: {says(state)}" for (state, backends), names in changed.items()]
    return "; ".join(lines) or "programs run as before"


def switches() -> str:
    rows = [(f"`{name}`", text, taken_away(name)) for name, text in disabled.KNOWN.items()]
    return table(("name", "is", "without it"), *rows)


def values() -> str:
    every = registry.VALUES.values()
    rows = [(f"`{row.name}`", row.shown or str(row.type), PLACES[row.place], row.help) for row in every]
    return table(("variable", "type", "where", "is"), *rows)


LINES = ("@ = count();", "@ = hist(arg0);", "@[arg0 & 15] = count();", "@[str(arg1)] = count();")
"""The one-liners whose instructions are counted."""


def libbcc() -> str | None:
    binding = find_binding()
    return None if isinstance(binding, NoBinding) else binding.version


def instructions() -> str:
    """What libbcc makes of the one-liners; arg0 is a register of 4 bytes, arg1 one of 8."""
    listings = {line: BccProgram(plan_of(probe(f"{{ {line} }}"))).bytecode() for line in LINES}
    counts = {line: re.match(r"probe_0: (\d+) instructions\n", text) for line, text in listings.items()}
    rows = [(f"`{line}`", count[1]) for line, count in counts.items() if count is not None]
    return table((f"made by libbcc {libbcc()}, for x86-64", "instructions"), *rows)


def ignored() -> str:
    names = {*config.TUNING, *config.UNTOLD} - {*config.SETTINGS}
    return fill(", ".join(f"`{name}`" for name in sorted(names)), 138)


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "language.md": {
        "attach": lambda: table(("probe", "written"), *((f"`{each.name}`", each.form) for each in KINDS.values())),
        "values": values,
        "aggregations": lambda: functions("aggregation"),
        "statements": lambda: functions("statement"),
        "functions": lambda: functions("value"),
        "settings": settings,
        "ignored": ignored,
        "limits": limits,
        "no-probes": lambda: left_out(unsupported.PROBES),
        "no-functions": lambda: left_out(unsupported.FUNCTIONS, "{}()".format),
        "no-variables": lambda: left_out(unsupported.BUILTINS),
        "no-statements": lambda: left_out(unsupported.STATEMENTS),
    },
    "backends.md": {
        "features": features,
        "without": switches,
    },
    "how-it-works.md": {
        "instructions": instructions,
    },
}
"""The tables of each page, by the name in their mark."""

MARK = re.compile(r"(<!-- table (?P<name>[a-z-]+) -->\n)(?P<text>.*?)(?=<!-- end -->)", re.S)


def pages() -> Iterator[tuple[str, str]]:
    for page in TABLES:
        yield page, (ROOT / "docs" / page).read_text()


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, tables in TABLES.items() for name in tables])
def test_a_table_says_what_the_program_says(page: str, name: str) -> None:
    page_text = (ROOT / "docs" / page).read_text()
    if name == "instructions" and (f"made by libbcc {libbcc()}," not in page_text or platform.machine() != "x86_64"):
        pytest.skip("another libbcc makes other instructions")
    written = {found["name"]: found["text"] for found in MARK.finditer(page_text)}
    assert written[name] == TABLES[page][name]() + "\n", "python tests/unit/test_docs.py mends it"


def test_no_mark_is_unknown() -> None:
    for page, text in pages():
        assert [found["name"] for found in MARK.finditer(text)] == list(TABLES[page])


def test_links_lead_somewhere() -> None:
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def rewrite() -> None:
    """Puts the tables into the pages."""
    for page, text in pages():
        made = TABLES[page]
        text = MARK.sub(lambda found, made=made: f"{found[1]}{made[found['name']]()}\n", text)  # type: ignore[misc]
        (ROOT / "docs" / page).write_text(text)


if __name__ == "__main__":
    rewrite()
