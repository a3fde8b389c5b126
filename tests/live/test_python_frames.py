"""Functions of Python on stacks, against what the program itself says of its frames at each hit.

Each takes some two seconds, one of them the verifier's with the loop of 127 frames.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tell, tracer, tracing
from tests.live.conftest import need

pytestmark = pytest.mark.live

TRUTH = r"""
import asyncio, ctypes, functools, json, os, sys, threading
out = []
def frames(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        found.append("%s:%s:%s" % (code.co_filename, name, frame.f_lineno))
        frame = frame.f_back
    return found
LIBC = ctypes.CDLL(None)
def hit(*_):
    out.append(frames(sys._getframe())); os.getppid()
    return 0
def by_ctypes():
    out.append(frames(sys._getframe())); LIBC.getppid()
def deep(n):
    if n:
        return deep(n - 1)
    return hit()
def decorated(f):
    @functools.wraps(f)
    def inner(*a, **k):
        return f(*a, **k)
    return inner
@decorated
def wrapped(): hit()
class Made:
    def __init__(self, n=0):
        self.n = n
        hit()
    def __lt__(self, other):
        hit()
        return self.n < other.n
    def __call__(self): hit()
    @property
    def prop(self): return hit()
    def __getattr__(self, k): return hit()
    def __del__(self): hit()
    def __enter__(self): hit()
    def __exit__(self, *a): hit()
class Sub(Made):
    def __init__(self):
        super().__init__(3)
class Meta(type):
    def __new__(m, n, b, d):
        hit()
        return type.__new__(m, n, b, d)
def generator():
    hit()
    yield 1
    hit()
    yield from inner_generator()
def inner_generator():
    try:
        yield hit()
    finally:
        hit()
async def coroutine(n):
    hit()
    if n:
        await coroutine(n - 1)
    await asyncio.sleep(0)
    hit()
async def numbers():
    yield hit()
async def main():
    await asyncio.gather(coroutine(2), coroutine(0))
    async for _ in numbers(): hit()
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(a, b):
    hit()
    return 0
def failing():
    try:
        try:
            raise ValueError
        except ValueError:
            hit()
            raise KeyError
        finally:
            hit()
    except KeyError:
        hit()
def called():
    hit(); by_ctypes(); wrapped()
    for n in (1, 7, 30): deep(n)
    sorted([3, 1, 2], key=lambda v: hit() or v)
    list(map(hit, (1, 2)))
    [hit() for _ in range(2)]
    {hit(): hit() for _ in range(1)}
    list(hit() for _ in range(2))
    a = Made(); b = Sub(); sorted([a, b]); a(); a.prop; a.nothing
    with a: hit()
    del a, b
    class Inside(metaclass=Meta):
        hit()
    list(generator())
    asyncio.run(main())
    failing()
    eval("hit()")
    functools.reduce(lambda x, y: hit(), [1, 2, 3])
    LIBC.qsort((ctypes.c_int * 3)(1, 2, 3), 3, 4, compare)
    json.dumps({"a": Made(1)}, default=lambda o: hit())
def again():
    # Each code object lies where the one before did, and so do its parts.
    for i in range(12):
        exec("\n" * i + "def g%d():\n hit()\ng%d()" % (i % 3, i % 3), dict(hit=hit))
called()
for n in range(3):
    thread = threading.Thread(target=deep, args=(n,))
    thread.start()
    thread.join()
again()
if os.fork() == 0:
    del out[:]
    deep(3)
    json.dump(out, open(sys.argv[1] + ".child", "w"))
    os._exit(0)
os.wait()
json.dump(out, open(sys.argv[1], "w"))
"""
FRAME = re.compile(r"^\S+:[^:+]+:\d+$")


def pythons() -> list[str]:
    """One Python of each version that there is."""
    found: dict[str, str] = {}
    homes = sorted(Path("/root/.pyenv/versions").glob("3.*")) if os.geteuid() == 0 else []
    for minor in range(8, 15):
        known = [home / "bin" / f"python3.{minor}" for home in homes]
        here = [str(path) for path in known if path.exists()]
        path = shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin") or (here[-1] if here else None)
        if path is not None:
            found[f"3.{minor}"] = path
    return list(found.values())


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(pythons(), "a Python that tracer knows")
    path = tmp_path_factory.mktemp("python") / "truth.py"
    path.write_text(TRUTH)
    return path


@pytest.mark.parametrize("python", pythons())
def test_every_stack_is_what_the_program_says(truth: Path, python: str, clean: None) -> None:
    program = 'uprobe:libc:getppid { printf("%d|%s|", pid == cpid, ustack(python)); }'
    # A thread that was joined may still be ending: 3.12 warns of the fork then.
    done = tracer("-q", "--backend", "bcc", "--follow", "-e", program, "-c", f"{python} -W ignore {truth} {truth}.out")
    assert (done.status, done.err) == (0, "")
    shown = done.printed.decode().split("|")[:-1]
    stacks: dict[str, list[list[str]]] = {"0": [], "1": []}
    for of_parent, text in zip(shown[::2], shown[1::2], strict=True):
        lines = [line.strip() for line in text.splitlines() if line]
        assert lines[0] == "getppid+0" and not any("_PyEval_EvalFrameDefault" in line for line in lines)
        stacks[of_parent].append([line for line in lines if FRAME.match(line)])
    assert stacks["1"] == json.loads(Path(f"{truth}.out").read_text())
    assert stacks["0"] == json.loads(Path(f"{truth}.out.child").read_text())


CALLS = """
import os, time
def inner():
    os.getppid()
def outer():
    inner()
print("ready", flush=True)
input()
for _ in range(300):
    outer()
    inner()
"""


def test_a_running_process_and_folded_stacks(tmp_path: Path, clean: None) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    with target(pythons()[-1], tmp_path / "calls.py") as process:
        assert read_line(process) == "ready"
        program = "uprobe:libc:getppid { @[ustack(python, 50)] = count(); }"
        options = "--stacks", "folded", "--backend", "bcc", "-p", str(process.pid)
        with tracing(tmp_path, *options, "-e", program) as running:
            tell(process)
            process.wait()
            done = running.wait()
    counts: Counter[tuple[str, ...]] = Counter()
    for line in done.printed.decode().splitlines():
        stack, _, count = line.rpartition(" ")
        counts[tuple(each for each in stack.split(";") if each.startswith("calls.py:"))] += int(count)
    inner = ("calls.py:<module>", "calls.py:inner")
    assert counts == {inner: 300, (inner[0], "calls.py:outer", inner[1]): 300}


def test_versions_that_are_not_known_are_said(tmp_path: Path) -> None:
    old = Path("/root/.pyenv/versions/3.7.16/bin/python3.7")
    if os.geteuid() != 0 or not old.exists():
        pytest.skip("needs a Python 3.7")
    program = "uprobe:libc:getppid { @[ustack(python)] = count(); }"
    done = tracer("-q", "--backend", "bcc", "-e", program, "-c", f"{old} -c 'import os; os.getppid()'")
    assert "(Python 3.7): tracer knows 3.8 to 3.14" in done.err
    assert b"_PyEval_EvalFrameDefault+" in done.printed


def test_ftrace_says_who_can() -> None:
    program = "uprobe:libc:getppid { @[ustack(python)] = count(); }"
    done = tracer("--backend", "ftrace", "-e", program)
    assert done.status != 0
    assert "a sample does not hold the interpreter's memory" in done.err and "--backend bcc can" in done.err
