"""An address means what lay there at the hit: plugins that are loaded in turn at one address, programs that exec."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.live

PLUGIN_C = r"""
extern void leaf(int);
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
__attribute__((noinline)) void NAMED(PLUGIN, _inner)(int round) { leaf(round); asm volatile(""); }
void entry(int round) { NAMED(PLUGIN, _inner)(round); asm volatile(""); }
__attribute__((noinline)) void NAMED(PLUGIN, _target)(void) { asm volatile(""); }
void *target = NAMED(PLUGIN, _target);
"""
HOST_C = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void leaf(int round) { asm volatile(""); }
__attribute__((noinline)) void given(void *target, void *entry) { asm volatile("" : : "r"(target), "r"(entry)); }
int main(int argc, char **argv)
{
    void *before = NULL;
    int moved = 0;
    for (int round = 0; round < atoi(argv[1]); round++) {
        void *plugin = dlopen(round % 2 ? "./beta.so" : "./alpha.so", RTLD_NOW);
        void (*entry)(int) = dlsym(plugin, "entry");
        moved += before && before != entry;
        before = entry;
        for (int call = 0; call < atoi(argv[2]); call++) {
            entry(round);
            given(*(void **)dlsym(plugin, "target"), entry);
            if (atoi(argv[3])) usleep(atoi(argv[3]));
        }
        dlclose(plugin);
    }
    return moved; /* 0: all lay at one address */
}
"""
EXEC_C = r"""
#include <unistd.h>
__attribute__((noinline)) void NAME(void) { asm volatile(""); }
__attribute__((noinline)) void given(void *target) { asm volatile("" : : "r"(target)); }
int main(int argc, char **argv)
{
    for (int call = 0; call < 3; call++) given(NAME);
    if (argc > 1) execv(argv[1], argv + 1);
    return 0;
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "plugin.c").write_text(PLUGIN_C)
    (folder / "host.c").write_text(HOST_C)
    for name in ("alpha", "beta"):
        words = ["gcc", "-O1", "-fPIC", "-shared", f"-DPLUGIN={name}", "plugin.c", "-o", f"{name}.so"]
        subprocess.run(words, cwd=folder, check=True)
    subprocess.run(["gcc", "-w", "-O1", "-rdynamic", "host.c", "-o", "host"], cwd=folder, check=True)
    return folder / "host"


def traced(backend: str, host: Path, program: str, words: str) -> bytes:
    program = program.replace("T:", f"{host}:")
    done = tracer("-q", "--backend", backend, "-e", program, "-c", f"{host} {words}", cwd=host.parent)
    assert (done.status, done.err) == (0, "")
    return done.out


# A thousand rounds take tenths of a second; the pauses of the others let tracer sleep and keep up in between.
@pytest.mark.parametrize(("rounds", "calls", "pause_us"), [(1000, 2, 0), (4, 60, 3000), (4, 1, 300_000)])
def test_plugins_loaded_in_turn_keep_their_names(
    backend: str, host: Path, rounds: int, calls: int, pause_us: int, clean: None
) -> None:
    each = rounds * calls // 2
    words = f"{rounds} {calls} {pause_us}"
    program = "uprobe:T:given { @[usym(arg0)] = count(); @same[usym(arg1)] = count(); }"
    program += " uprobe:T:leaf { @s[arg0 % 2, ustack(3)] = count(); }"
    found = traced(backend, host, program, words).decode()
    stacks = "".join(
        f"@s[{number}, \n        leaf+0\n        {name}_inner+9\n        entry+9\n]: {each}\n"
        for number, name in enumerate(("alpha", "beta"))
    )
    shown = {f"@[{name}_target]: {each}" for name in ("alpha", "beta")} | {f"@same[entry]: {2 * each}"}
    assert set(found.replace(stacks, "").split("\n")) - {""} == shown and stacks in found
    # Live, too, and in their order.
    program = 'uprobe:T:given { printf("%s ", usym(arg0)); } uprobe:T:leaf { printf("%s", ustack(2)); }'
    printed = re.findall(rb"(\w+)_inner\+9\n(\w+)_target", traced(backend, host, program, words))
    expected = [(name, name) for round in range(rounds) for name in [b"beta" if round % 2 else b"alpha"] * calls]
    assert printed == expected


def test_programs_that_exec_keep_the_names_of_each(backend: str, tmp_path: Path, clean: None) -> None:
    (tmp_path / "exec.c").write_text(EXEC_C)
    names = ("first", "second", "third")
    for name in names:
        words = ["gcc", "-O1", "-no-pie", "-fno-pie", f"-DNAME={name}", "exec.c", "-o", name]
        subprocess.run(words, cwd=tmp_path, check=True)
    points = ",".join(f"uprobe:{tmp_path / name}:given" for name in names)
    command = " ".join(str(tmp_path / name) for name in names)
    for options in ((), ("--follow",)):
        done = tracer(
            "-q", "--backend", backend, *options, "-c", command,
            "-e", f'{points} {{ @[usym(arg0)] = count(); printf("%s %s", usym(arg0), ustack(1)); }}',
        )  # fmt: skip
        assert (done.status, done.err) == (0, "")
        assert Counter(re.findall(r"(?m)^(\w+) \n        given\+0$", done.text)) == dict.fromkeys(names, 3)
        assert sorted(re.findall(r"(?m)^@.*$", done.text)) == [f"@[{name}]: 3" for name in names]
