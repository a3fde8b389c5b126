"""Programs that copy their own code to large pages when they start: node and php, where they are told to.

They copy what they find in memory, breakpoints of probes included, and to memory that no probe belongs to: the first
breakpoint there ends the program with SIGTRAP. So it must not start while its file is traced. Whether it will is told
by its words, its environment and, of php, its configuration. Sources: `node --help` (node 20), php_cli.c, php_ini.c and
accel_startup of ZendAccelerator.c (PHP 8.2), where the option works whether or not opcache is enabled.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.opening import content
from tracer.resolve.files.loaded import interpreted

_MOST_BYTES = 64 << 20
_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
_TAKING = {"-e", "--eval", "-p", "--print", "-r", "--require", "-C", "--conditions", "--import", "--loader"}
_PHP_TAKING = set("acdfgrtzBREFSTt")
_SAPIS = {"cgi": "cgi-fcgi", "fpm": "fpm-fcgi"}
_OPTION, _EXTENSION = "opcache.huge_code_pages", "zend_extension"
_SETTING = re.compile(r"\s*([\w.]+)\s*(?:=\s*\"?([^\";]*))?")
_SCANNED = re.compile(rb"\0(/[\w./+-]{1,200}/(?:conf\.d|php\.d))\0")
_CONFIGURED = re.compile(rb"\0(/(?:usr/local/)?etc(?:/php[\w.+-]*(?:/[\w.+-]+)*)?)\0")


@dataclass(frozen=True, slots=True)
class Copying:
    """A program that copies its code: its file, what tells it to, and what it is to be given instead."""

    path: str
    why: str
    remedy: str


def copying_command(argv: Sequence[str], program: str, environment: Mapping[str, str]) -> Copying | None:
    """The copying of the command of `-c`, whose file is `program`; None where it copies nothing, or that cannot be
    told.
    """
    words, variables = [*argv], dict(environment)
    path = program
    if os.path.basename(path) == "env":
        del words[0]
        while words and (words[0].startswith("-") or "=" in words[0]):
            name, equal, value = words.pop(0).partition("=")
            variables |= {name: value} if equal and not name.startswith("-") else {}
        path = _program_path(words[0], variables) if words else path
    try:
        real = os.path.realpath(interpreted(path))
    except TracerError:
        return None
    if real != os.path.realpath(path):  # a script: its first line has words, too
        words = [*_first_line(path), path, *words[1:]]
    name = os.path.basename(real)
    if name.startswith("node"):
        return _node(real, words[1:], variables)
    return _php(real, words[1:], variables) if name.startswith("php") else None


def copying_always(path: str, environment: Mapping[str, str]) -> Copying | None:
    """The copying of whatever runs a file from now on, by its configuration."""
    return _php(os.path.realpath(path), (), environment) if os.path.basename(path).startswith("php") else None


# --- node ---


def _node(path: str, words: Sequence[str], environment: Mapping[str, str]) -> Copying | None:
    option = None
    with suppress(ValueError):
        for word in _node_options(shlex.split(environment.get("NODE_OPTIONS", ""))):
            option = "NODE_OPTIONS", word
    for word in _node_options(words):
        option = "", word
    if option is None or option[1] not in ("on", "silent") or not _has_large_pages():
        return None
    where = f"{option[0]}: " if option[0] else ""
    return Copying(path, f"{where}--use-largepages={option[1]}", "leave --use-largepages out")


def _node_options(words: Sequence[str]) -> Iterator[str]:
    """The values of --use-largepages; its words end where the script's begin."""
    rest = [*words]
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name, equal, value = rest.pop(0).partition("=")
        if name.replace("_", "-") == "--use-largepages":
            yield value if equal else rest.pop(0) if rest else ""
        elif name in _TAKING and not equal and rest:
            del rest[0]


def _has_large_pages() -> bool:
    """Whether the kernel has huge pages: without, node says so and copies nothing."""
    try:
        with open(_PAGES, encoding="ascii") as file:
            return "[never]" not in file.read()
    except OSError:
        return False


# --- php ---


def _php(path: str, words: Sequence[str], environment: Mapping[str, str]) -> Copying | None:
    given: list[str] = []
    configured = environment.get("PHPRC") or None
    without = False
    rest = [*words]
    while rest and re.match(r"-\w", rest[0]):
        word = rest.pop(0)
        value = word[2:] or (rest.pop(0) if word[1] in _PHP_TAKING and rest else "")
        without = without or word == "-n"
        configured = value if word[1] == "c" else configured
        given += [value] if word[1] == "d" else []
    settings = [(setting, "-d") for setting in given]
    if not without:
        settings = [*_configured(path, configured, environment.get("PHP_INI_SCAN_DIR")), *settings]
    enabled, loaded = None, _holds(path, b"huge_code_pages")
    for text, where in settings:
        setting = _SETTING.match(text)
        name, value = (setting[1], (setting[2] or "").strip()) if setting is not None else ("", "")
        loaded = loaded or (name == _EXTENSION and "opcache" in value)
        if name == _OPTION:
            is_given = where == "-d" and "=" not in text
            enabled = (where, value or "1") if value.lower() in ("1", "on", "yes", "true") or is_given else None
            if enabled is None and value.isdigit() and int(value):
                enabled = where, value
    if enabled is None or not loaded:
        return None
    return Copying(path, f"{_OPTION}={enabled[1]} in {enabled[0]}" if enabled[0] != "-d" else f"{_OPTION}={enabled[1]}",
                   f"run it with -d {_OPTION}=0")  # fmt: skip


def _configured(path: str, configured: str | None, scanned: str | None) -> Iterator[tuple[str, str]]:
    """The lines of php.ini and of the files beside it, in the order in which they count, each with its file."""
    compiled, directories = _compiled(path)
    sapi = next((_SAPIS[name] for name in _SAPIS if name in os.path.basename(path)), "cli")
    names = f"php-{sapi}.ini", "php.ini"
    places = [configured] if configured is not None and os.path.isfile(configured) else []
    for directory in [configured] if configured is not None and os.path.isdir(configured) else directories:
        places += [os.path.join(directory, name) for name in names] if directory else []
    first = next((place for place in places if os.path.isfile(place)), None)
    if first is not None:
        yield from _lines(first)
    for folder in (compiled if scanned is None else scanned).split(":"):
        directory = folder or compiled
        with suppress(OSError):
            for name in sorted(os.listdir(directory)):
                if name.endswith(".ini"):
                    yield from _lines(os.path.join(directory, name))


def _lines(path: str) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for line in content(path, _MOST_BYTES).decode("utf-8", "replace").splitlines():
            if line.startswith(("[PATH=", "[HOST=")):
                return
            if line.strip() and line.lstrip()[0] not in ";[#":
                yield line.strip(), path


def _compiled(path: str) -> tuple[str, list[str]]:
    """The directory that the program searches, and those where its php.ini may be: texts of the program itself."""
    with suppress(OSError, ValueError):
        text = content(path, _MOST_BYTES)
        scanned = [os.fsdecode(path_text) for path_text in _SCANNED.findall(text)]
        configured = [os.fsdecode(path_text) for path_text in _CONFIGURED.findall(text)]
        directory = scanned[0] if scanned else ""
        return directory, [*(folder for folder in configured if folder != directory), os.path.dirname(directory)]
    return "", []


def _holds(path: str, text: bytes) -> bool:
    """Whether opcache is part of the program itself, as from PHP 8.5 on."""
    with suppress(OSError, ValueError):
        return text in content(path, _MOST_BYTES)
    return False


# --- whom ---


def _program_path(name: str, environment: Mapping[str, str]) -> str:
    import shutil

    return shutil.which(name, path=environment.get("PATH")) or name


def _first_line(path: str) -> list[str]:
    """The words after `#!`; of `env -S` what it runs."""
    with suppress(OSError):
        words = os.fsdecode(content(path, 256).partition(b"\n")[0]).removeprefix("#!").split()
        if os.path.basename(words[0] if words else "") == "env":
            words = [word for word in words[1:] if word != "-S"]
        return words
    return []
