"""Programs stopped by gdb, and the stacks of the stops as gdb finds them and as we do from the registers and a copy of
the stack alone.
"""

from __future__ import annotations

import os
import pickle
import subprocess
from pathlib import Path

from tracer.host import maps
from tracer.resolve.symbols.processes import Image, Process, Processes
from tracer.resolve.symbols.unwinder import Unwinder
from tracer.resolve.unwind.registers import X86_64

HERE = Path(__file__).parent
PID = 1 << 30


def compared(
    tmp_path: Path, argv: list[str], breaks: str, stops: int, pass_by: int = 0, pid: int | None = None
) -> tuple[Unwinder, int, int]:
    """The unwinder with its endings, how many stacks there were, and how many were gdb's to the last frame: of a
    program, or of the process `pid`.
    """
    out = tmp_path / "stops"
    whom = ["--args", *argv] if pid is None else ["-p", str(pid)]
    said = subprocess.run(
        ["gdb", "-nx", "-q", "-batch", "-x", str(HERE / "gdb_stops.py"), *whom],
        env={**os.environ, "BREAKS": breaks, "STOPS": str(stops), "PASS_BY": str(pass_by), "OUT": str(out)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        timeout=1800, check=False,
    )  # fmt: skip
    assert out.exists(), said.stdout[-4000:]
    text, found = pickle.loads(out.read_bytes())
    processes = Processes()
    code = tuple(each for each in map(maps._mapping, text.splitlines()) if each is not None and each.executable)
    processes._processes[PID] = Process(1, [Image(code)], read_at=float("inf"))
    unwinder = Unwinder(lambda: processes, X86_64)
    equal = 0
    for registers, stack, frames in found:
        words = memoryview(stack)[: len(stack) & ~7].cast("Q")
        ours = list(unwinder.unwind(PID, registers, words, 127).addresses)
        # Where nothing says that a stack ends, gdb goes on to what is no code: the zero below Go's goexit, the
        # arguments of the program above the dynamic loader's _start.
        equal += ours == [frame for frame in frames if any(each.start <= frame < each.end for each in code)]
    processes.close()
    return unwinder, len(found), equal
