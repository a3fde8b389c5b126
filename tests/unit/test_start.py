"""What each command imports beside Typer: the list is short because every module is paid for at each start.

A test here fails when a command imports more. Import it where it is needed instead, inside a function; only if every
run of the command needs it does it belong into the list.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.loaded import loaded

COMMAND_LINE = {"cli", "cli.app", "cli.arguments", "cli.options", "dataclass", "errors", "regex"}
LANGUAGE = {
    "lang", "lang.syntax", "lang.analyse", "lang.syntax.ast", "lang.syntax.attach", "lang.builtins",
    "lang.check", "lang.check.assignments",
    "lang.check.calls", "lang.check.context", "lang.check.effects", "lang.check.expressions", "lang.check.facts",
    "lang.check.maps", "lang.check.names", "lang.check.operators", "lang.check.statements", "lang.config",
    "lang.convert", "lang.syntax.expressions", "lang.formats", "lang.types.combine", "lang.syntax.lexer",
    "lang.types.operations",
    "lang.syntax.parser", "lang.syntax.statements", "lang.suggest", "lang.typed", "lang.types", "lang.unsupported",
}  # fmt: skip
PLANNING = {
    *LANGUAGE, "backends", "backends.capabilities", "cli.run", "interp", "interp.fetch", "pipeline", "plan",
    "plan.check", "plan.lower", "plan.model", "plan.points", "plan.requires", "lang.walk", "resolve",
    "resolve.sites.expand", "resolve.model", "resolve.sites.limit", "results", "results.buckets", "resolve.sites",
}  # fmt: skip
RUNNING = {
    *PLANNING, "backends.local", "cli.closing", "cli.names", "cli.output", "cli.overhead", "cli.signals", "cli.trace",
    "interp", "interp.arithmetic", "interp.clock", "interp.compile", "interp.expressions", "interp.hostvalues",
    "interp.mapcode", "interp.memory", "interp.runtime", "interp.source", "interp.statements", "overhead", "render",
    "render.clock", "render.formats", "render.histogram", "render.loss", "render.printf", "render.symbols",
    "render.text", "render.values", "results.events", "results.integers", "results.order", "results.store",
    "results.values", "tracing", "waiting",
}  # fmt: skip
LISTING = {
    "cache", "cli.list", "lang", "lang.syntax.ast", "lang.syntax.attach", "lang.syntax.lexer", "lang.suggest",
    "lang.syntax", "lang.unsupported", "resolve", "resolve.arch", "resolve.binary", "resolve.elf.debug_file",
    "resolve.elf.file", "resolve.elf.layout", "resolve.files.find", "resolve.functions.find",
    "resolve.files.libraries", "resolve.listing", "resolve.model", "resolve.processes.maps",
    "resolve.elf.symbol_table", "resolve.elf.symbols", "resolve.usdt.notes", "resolve.elf", "resolve.files",
    "resolve.functions", "resolve.processes", "resolve.usdt", "resolve.symbols",
}  # fmt: skip
ASKING = {
    "backends", "backends.bcc", "backends.bcc.binding", "backends.bcc.features", "backends.bcc.follow",
    "backends.bcc.host", "backends.bcc.kernel", "backends.bcc.links", "backends.bcc.numbers", "backends.bcc.refused",
    "backends.bcc.syscall", "backends.capabilities", "backends.descriptors_left", "backends.ftrace",
    "backends.ftrace.bounds", "backends.ftrace.descriptors", "backends.ftrace.detect", "backends.ftrace.features",
    "backends.ftrace.tracefs", "backends.opening", "backends.perf", "backends.unprobed", "backends.without",
    "cli.host", "cli.info", "lang", "lang.typed", "lang.types", "lockdown", "plan", "plan.model", "resolve",
    "resolve.model", "resolve.processes.maps", "resolve.processes",
}  # fmt: skip
COMMANDS = {"cli.cleanup", "cli.demo", "cli.info", "cli.list", "cli.run"}

BYTES = {"struct"}
KERNEL = {"ctypes", "ctypes._endian", "encodings.ascii", "mmap", "struct"}

# Later versions of Python import these for an empty Typer program too.
PYTHON_3_10 = {"locale", "textwrap"}

INDIRECT = {
    "resolve.functions.indirect", "resolve.elf.symbol_versions", "resolve.safety", "resolve.safety.code",
    "resolve.safety.disassembly", "resolve.dwarf", "resolve.dwarf.frames",
}  # fmt: skip
"""What finds libc's functions that are chosen when it is loaded."""

CASES: dict[str, tuple[tuple[str, ...], set[str], set[str]]] = {
    "a program of BEGIN alone": (("-e", "BEGIN { exit(); }"), RUNNING, BYTES),
    "a program with an error": (("-e", "BEGIN { x"), PLANNING | {"cli.errors"}, {"unicodedata"}),
    "a wrong command line": (("--nonsense",), COMMANDS | {"cli.errors"}, {"unicodedata", "difflib"}),
    "the version": (("--version",), set(), set()),
    "the help": (("--help",), COMMANDS | {"cli.errors"}, {"unicodedata"}),
    "the help of a command": (("run", "--help"), {"cli.run"}, set()),
    "a list of USDT probes": (("-l", "usdt:libc:*"), LISTING | {"cli.errors"}, BYTES | {"bisect", "unicodedata"}),
    "a list of functions": (
        ("-l", "uprobe:libc:*"),
        LISTING | INDIRECT | {"cli.errors"},
        BYTES | {"bisect", "unicodedata", "ctypes", "ctypes._endian"},
    ),
    "what the host can do": (("info",), ASKING, KERNEL | {"glob", "pwd", "resource"}),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_imported_that_the_command_does_not_need(case: str, tmp_path: Path) -> None:
    words, own, other = CASES[case]
    found = loaded(tmp_path, *words)
    assert found.own - own - COMMAND_LINE == set()
    assert found.other - other - {"__future__"} - PYTHON_3_10 == set()
    assert "cli.app" in found.own


def test_a_program_of_begin_end_and_interval_cannot_even_reach_bpf(tmp_path: Path) -> None:
    """Without ctypes there is no way to bpf(2) or perf_event_open(2), and no process is started."""
    found = loaded(tmp_path, "-e", "BEGIN { @n++; } interval:ms:1 { exit(); } END { @n++; }")
    assert "ctypes" not in found.other and found.started == ()
    assert not any(name.startswith(("backends.bcc", "backends.ftrace")) for name in found.own)
    assert [path for path in found.maps if "libffi" in path or "libcrypto" in path or "LLVM" in path] == []
