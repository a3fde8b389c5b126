"""The code that traps itself: what it executes is what stands in for the sites of an attach point."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import time

import pytest

from tracer.kernel.trials.hit_cost import instruction_like, loop_code
from tracer.kernel.trials.scratch import code_file

LIKE = {
    "90": "90", "66 2e 0f 1f 84 00 00 00 00 00": "662e0f1f840000000000",
    "90 0f 1f 44 00 00": "90", "0f 1f 44 00 00": "0f1f440000", "66 90": "6690", "0f 1f 40 00": "6690",
    "66 0f 1f 44 00 00": "6690", "f3 0f 1e fa": "f30f1efa", "55": "555d", "41 57": "555d", "c3": "c3",
    "e8 00 00 00 00": "eb00", "e9 00 00 00 00": "eb00", "74 05": "eb00", "0f 84 00 00 00 00": "eb00",
    "48 83 ec 08": "4889f8", "41 89 f8": "4889f8", "0f b6 07": "4889f8", "": "4889f8",
}  # fmt: skip


@pytest.mark.parametrize(("code", "stands_for"), LIKE.items())
def test_an_instruction_is_measured_by_one_that_kernels_treat_alike(code: str, stands_for: str) -> None:
    assert instruction_like(bytes.fromhex(code)) == stands_for


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is x86-64's")
@pytest.mark.parametrize("instruction", sorted(set(LIKE.values())))
def test_the_loop_calls_it_as_often_as_it_is_told_and_comes_back(instruction: str) -> None:
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        memory.write(loop_code(bytes.fromhex(instruction)))
        view = (ctypes.c_char * 1).from_buffer(memory)
        call = ctypes.CFUNCTYPE(None, ctypes.c_int)(ctypes.addressof(view))
        try:
            # A million calls take a millisecond; the one takes some hundred nanoseconds, most of them Python's, and
            # whatever happens to the processor meanwhile: the least of many is the call's own.
            once = min(_time(call, 1) for _ in range(100))
            million = min(_time(call, 1_000_000) for _ in range(3))
        finally:
            del view, call
    assert million > 20 * once


def _time(call: ctypes._FuncPointer, times: int) -> int:
    start = time.thread_time_ns()
    call(times)
    return time.thread_time_ns() - start


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")
def test_no_two_trials_are_at_one_offset_of_their_files() -> None:
    # At one offset for all, one in twenty let an instruction pass that the kernel does not probe.
    code = loop_code(b"\x90")
    starts = set()
    for _ in range(50):
        file, start = code_file(code)
        try:
            assert os.fstat(file).st_size == mmap.PAGESIZE
            assert os.pread(file, len(code), start) == code
        finally:
            os.close(file)
        starts.add(start)
    assert 0 not in starts
    assert len(starts) > 40, starts
