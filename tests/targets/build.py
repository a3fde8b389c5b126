"""Builds the traced programs: each once per content of its sources and flags, in a directory that outlives the run.

The directory is `$TRACER_TEST_CACHE`, or one under the temporary directory that is named for the user. It is readable
to everybody, since some tests trace as another user.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Recipe:
    """How one program is made. `flags` are given to gcc or g++; `stripped` drops every symbol afterwards."""

    sources: tuple[str, ...]
    flags: tuple[str, ...] = ("-O2", "-g")
    compiler: str = "gcc"
    stripped: bool = False


_DEPOT = ("depot.c", "depot_plain.c")
_ANSWER = ("-O2", "-shared", "-fPIC", "-nostdlib", "-fcf-protection=none")
_NARROW = (
    "-m32", "-nostdlib", "-static", "-no-pie", "-fno-pie", "-fno-stack-protector", "-fcf-protection=none",
    "-fno-optimize-sibling-calls",
    "-idirafter", "/usr/include/x86_64-linux-gnu",
)  # fmt: skip

RECIPES: dict[str, Recipe] = {
    "shop": Recipe(("shop.c",), ("-O1", "-g")),
    "loader": Recipe(("loader.c",)),
    "plugin": Recipe(("plugin.c",), ("-O2", "-g", "-shared", "-fPIC")),
    "depot": Recipe(_DEPOT, ("-O2", "-g", "-fno-omit-frame-pointer")),
    "depot-nopie": Recipe(_DEPOT, ("-O2", "-g", "-no-pie", "-fno-pie")),
    "depot-O0": Recipe(_DEPOT, ("-O0", "-g")),
    "depot-stripped": Recipe(_DEPOT, ("-O2",), stripped=True),
    "lines-O0": Recipe(("lines.c",), ("-O0", "-g")),
    "lines-O2": Recipe(("lines.c",)),
    "lines-nopie": Recipe(("lines.c",), ("-O2", "-gdwarf-4", "-no-pie", "-fno-pie")),
    "kin": Recipe(("kin.c",), ("-O2", "-g", "-pthread")),
    "counters": Recipe(("counters.c",), ("-O1", "-g", "-pthread")),
    "counters-nopie": Recipe(("counters.c",), ("-O1", "-no-pie", "-fno-pie", "-pthread")),
    "threads": Recipe(("threads.c",), ("-O2", "-g", "-pthread")),
    "churn": Recipe(("churn.c",), ("-O2", "-g", "-pthread")),
    "forks": Recipe(("forks.c",)),
    "copies": Recipe(("copies.c",)),
    "plug.so": Recipe(("plug.c",), ("-O2", "-g", "-shared", "-fPIC")),
    "shares": Recipe(("shares.c",), ("-O1",)),
    "tally": Recipe(("tally.c",), ("-O1", "-g", "-pthread")),
    "acts": Recipe(("acts.c",), ("-O1",)),
    "asks": Recipe(("asks.c",), ("-O1", "-pthread")),
    "reads": Recipe(("reads.c",), ("-O1",)),
    "cold": Recipe(("cold.c",), ("-O1",)),
    "execs": Recipe(("execs.c",), ("-O1", "-g", "-pthread")),
    "family": Recipe(("family.c",), ("-O2", "-g", "-pthread")),
    "orphans": Recipe(("orphans.c",)),
    "hot": Recipe(("hot.c",)),
    "ticker": Recipe(("ticker.c",)),
    "unserved": Recipe(("unserved.c",)),
    "apart": Recipe(("apart.c",)),
    "zeroes": Recipe(("zeroes.c",), ("-O2", "-g", "-pthread")),
    "silent": Recipe(("silent.c",), ("-O2", "-g", "-fno-ipa-icf")),
    "silent-plt": Recipe(("silent.c",), ("-O2", "-g", "-fcf-protection", "-Wl,-z,ibtplt")),
    "redzone": Recipe(("redzone.c",), ("-O2", "-g", "-fno-ipa-icf")),
    "misread": Recipe(("misread.c",)),
    "results": Recipe(("results.c",), ("-O1", "-g")),
    "shapes": Recipe(("shapes.c",)),
    "beginnings": Recipe(("beginnings.c",)),
    "pairs": Recipe(("pairs.c",), ("-O1", "-g", "-static", "-no-pie", "-fno-pie", "-fno-optimize-sibling-calls")),
    "inlines": Recipe(("inlines.c",), ("-O2", "-g", "-fno-optimize-sibling-calls")),
    "inlined": Recipe(("inlined.c",)),
    "inlined-clang": Recipe(("inlined.c",), compiler="clang"),
    "inlined-cc": Recipe(("inlined.cc",), compiler="g++"),
    "inlined-cc-clang": Recipe(("inlined.cc",), compiler="clang++"),
    "tls": Recipe(("tls.c",)),
    "nested": Recipe(("nested.c",), ("-O1", "-g", "-fno-omit-frame-pointer", "-pthread")),
    "fields": Recipe(("fields.c",), ("-O1", "-g", "-no-pie", "-fno-pie")),
    "gated": Recipe(("gated.c",)),
    "gated-nopie": Recipe(("gated.c",), ("-O2", "-g", "-no-pie", "-fno-pie")),
    "answer-1": Recipe(("answer.c",), (*_ANSWER, "-DANSWER=1")),
    "answer-2": Recipe(("answer.c",), (*_ANSWER, "-DANSWER=2")),
    "allocs": Recipe(("allocs.c",)),
    "digs": Recipe(("digs.c",), ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")),
    "calls": Recipe(("calls.c",), ("-O1", "-g", "-fno-omit-frame-pointer", "-shared", "-fPIC")),
    "twins": Recipe(("twins.c", "twins_other.c"), ("-O1", "-g")),
    "lists": Recipe(("lists.c",)),
    "many": Recipe(("many.c",)),
    "many-1500": Recipe(("many.c",), ("-O2", "-g", "-DN=1500")),
    "moves": Recipe(("moves.c",)),
    "waits": Recipe(("waits.c",)),
    "mixer": Recipe(("mixer.c",)),
    "numbers-O0": Recipe(("numbers.c",), ("-O0", "-g")),
    "numbers-O1": Recipe(("numbers.c",), ("-O1", "-g")),
    "numbers-O2": Recipe(("numbers.c",)),
    "numbers-nopie": Recipe(("numbers.c",), ("-O2", "-g", "-no-pie", "-fno-pie")),
    "signalled": Recipe(("signalled.c",), ("-O2", "-g", "-pthread")),
    "throws": Recipe(("throws.cc",), compiler="g++"),
    "hostile": Recipe(("hostile.c",), ("-O2", "-g", "-fno-omit-frame-pointer", "-pthread")),
    "steady": Recipe(("steady.c",), ("-O2", "-g", "-fno-omit-frame-pointer")),
    "texts": Recipe(("texts.c",), ("-O1", "-g", "-fno-builtin", "-DOTHER_WAY=0")),
    "texts-other": Recipe(("texts.c",), ("-O1", "-g", "-fno-builtin", "-DOTHER_WAY=1")),
    "records-O0": Recipe(("records.c",), ("-O0", "-g")),
    "records-O2": Recipe(("records.c",)),
    "members-O0": Recipe(("members.c",), ("-O0", "-g")),
    "members-O2": Recipe(("members.c",), ("-O2", "-g", "-fno-ipa-cp", "-fno-ipa-sra")),
    "members-dwarf-3": Recipe(("members.c",), ("-O0", "-gdwarf-3", "-gstrict-dwarf")),
    "hierarchy-O0": Recipe(("hierarchy.cc",), ("-O0", "-g"), compiler="g++"),
    "hierarchy-O2": Recipe(("hierarchy.cc",), compiler="g++"),
    "orders": Recipe(("orders.c",), ("-O2", "-g", "-fno-omit-frame-pointer")),
    "variables-O0": Recipe(("variables.c",), ("-O0", "-g")),
    "variables-O2": Recipe(("variables.c",)),
    "narrow": Recipe(("narrow.c",), ("-O2", "-g", *_NARROW)),
    "narrow-O0": Recipe(("narrow.c",), ("-O0", "-g", *_NARROW)),
    "narrow-plain": Recipe(("narrow.c",), ("-O2", *_NARROW)),
    "carts": Recipe(("carts.cc",), compiler="g++"),
    "flows": Recipe(("flows.cc",), ("-O1", "-g", "-foptimize-sibling-calls", "-pthread"), compiler="g++"),
    "call-trees": Recipe(("call_trees.cc",), ("-O1", "-g", "-pthread"), compiler="g++"),
}


def cache_dir() -> Path:
    """Where the built programs are kept."""
    named = os.environ.get("TRACER_TEST_CACHE")
    directory = Path(named) if named else Path(tempfile.gettempdir()) / f"tracer-targets-{os.getuid()}"
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    return directory


@cache
def build(name: str) -> Path:
    """The path of the built program `name`, a key of RECIPES."""
    recipe = RECIPES[name]
    sources = [HERE / source for source in recipe.sources]
    home = _home(recipe.compiler, repr(recipe), sources)
    # The name of the file is the name of the process: all variants of one program answer alike.
    program = home / recipe.sources[0].partition(".")[0]
    if not program.exists():
        command = [recipe.compiler, *recipe.flags, "-Wall", "-Wextra", *map(str, sources)]
        _build(program, [*command, *(["-s"] if recipe.stripped else []), "-o"])
    return program


@cache
def build_go(name: str, *flags: str, level: str = "v1") -> Path:
    """The program of NAME.go, built with these flags for that level of the processor (GOAMD64)."""
    source = HERE / f"{name}.go"
    home = _home("go", repr((flags, level)), [source])
    program = home / name
    if not program.exists():
        kept = {"GOCACHE": str(cache_dir() / "go"), "GOFLAGS": "", "GOAMD64": level, "GO111MODULE": "auto"}
        _build(program, ["go", "build", *flags, "-o"], [str(source)], {**os.environ, **kept})
    return program


@cache
def build_rust(name: str, mangling: str = "v0", debug: int = 1, level: int = 0) -> Path:
    """The program of NAME.rs with its names mangled so: "v0" or "legacy"; optimised so far."""
    source = HERE / f"{name}.rs"
    home = _home("rustc", f"{mangling} {debug} {level}", [source])
    program = home / name
    if not program.exists():
        flags = [f"-Cdebuginfo={debug}", f"-Copt-level={level}"]
        flags += ["-Zunstable-options", f"-Csymbol-mangling-version={mangling}"]
        # A released compiler takes -Z with this alone, and a new one wants it for the older mangling.
        _build(program, ["rustc", *flags, str(source), "-o"], environment={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    return program


@cache
def build_java(name: str) -> Path:
    """The directory that holds NAME.class."""
    source = HERE / f"{name}.java"
    home = _home("javac", name, [source])
    if not (home / f"{name}.class").exists():
        # As in `_build`: a directory of its own, which takes the place of the empty one, or is dropped.
        with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
            part = Path(folder) / name
            part.mkdir(mode=0o755)
            subprocess.run(["javac", "-d", str(part), str(source)], check=True, capture_output=True, text=True)
            with suppress(OSError):
                part.rename(home)
    return home


def _home(compiler: str, recipe: str, sources: list[Path]) -> Path:
    tool = shutil.which(compiler)
    if tool is None:
        raise RuntimeError(f"{compiler} is needed to build {', '.join(source.name for source in sources)}")
    digest = hashlib.sha256(repr((recipe, tool, os.stat(os.path.realpath(tool)).st_size)).encode())
    for source in sources:
        # Its path too: debug information names it, and another clone's is another.
        digest.update(os.fsencode(source))
        digest.update(source.read_bytes())
    home = cache_dir() / f"{sources[0].stem}-{digest.hexdigest()[:12]}"
    home.mkdir(mode=0o755, exist_ok=True)
    return home


def _build(
    program: Path, command: list[str], sources: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> None:
    # Two test runs may build at once: each into a file of its own, renamed when it is whole.
    part = program.with_name(f".{program.name}.{os.getpid()}")
    done = subprocess.run([*command, str(part), *sources], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    part.rename(program)


if __name__ == "__main__":
    for each in RECIPES:
        print(each, build(each))
