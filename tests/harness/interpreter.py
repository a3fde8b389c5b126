"""Processes of `tracer` that are forks of one interpreter which has imported everything: half as dear as a start anew,
and a tenth in an emulated machine.

`python -m tests.harness.interpreter FD` is that interpreter. For each message on its socket (the words, the
environment, and the three descriptors) it makes a process, and answers with its number. That process is a child of who
asked, as any that it starts: it can be waited for, and its CPU counts. It has nothing that an earlier one left, for the
interpreter never runs a command itself.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn

_ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 1 << 16
"""Bytes of a message."""

_OF_THE_START = ("GLIBC_", "LANG", "LC_", "LD_", "MALLOC", "PYTHON", "TZ")
"""How variables begin that are read when Python starts, or before."""

_RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)
"""Limits that a session raises in the process that opens it, here the test's, as each tracer does for itself."""
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")} - {*_RAISED})

_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_PR_GET_TID_ADDRESS = 40


def _surroundings(environment: Mapping[str, str]) -> tuple[object, ...]:
    """What a process takes over from who starts it, and a fork of an earlier start would not."""
    return (
        os.getcwd(),
        sorted((name, value) for name, value in environment.items() if name.startswith(_OF_THE_START)),
        [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN],
        [resource.getrlimit(number) for number in _LIMITS],
    )


class Interpreter:
    """The interpreter. It ends with the process that asks, which ends when its socket is closed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._surroundings = _surroundings(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.interpreter", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C is for who asks
            )

    def takes(self, words: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether a fork would be what a start anew is."""
        return _surroundings(environment) == self._surroundings and len(_message(words, environment)) < _LONGEST

    def fork(self, words: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """The number of a new process, of which the descriptors are input, output and errors."""
        with self._lock:
            socket.send_fds(self._socket, [_message(words, environment)], list(descriptors))
            return int(self._socket.recv(100))

    def close(self) -> None:
        """Ends it."""
        self._socket.close()
        self._process.wait()


def _message(words: Sequence[str], environment: Mapping[str, str]) -> bytes:
    return json.dumps([list(words), dict(environment)]).encode()


_NAMES = tuple(signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]


class Fork(subprocess.Popen[bytes]):
    """A process of `tracer WORDS` in a session of its own, by the interpreter."""

    def __init__(
        self, interpreter: Interpreter, words: Sequence[str], environment: Mapping[str, str], **streams: Any
    ) -> None:
        self._interpreter = interpreter
        super().__init__(list(words), env=dict(environment), **streams)

    def _execute_child(self, *given: Any) -> None:
        """See `Popen`, which has opened the pipes and does all that comes later."""
        of = dict(zip(_NAMES, given, strict=True))
        ends = [of[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        try:
            descriptors = [usual if end == -1 else end for usual, end in enumerate(ends)]
            self.pid = self._interpreter.fork(of["args"], of["env"], descriptors)
            self._child_created = True
        finally:
            self._close_pipe_fds(*given[_NAMES.index("p2cread") :][:6])  # type: ignore[attr-defined]


# --- the interpreter itself ------------------------------------------------------------------------------------------


def _serve(descriptor: int) -> None:
    import tracer
    from tracer import dataclass
    from tracer.resolve.sites import site_cache

    for module in walk_packages(tracer.__path__, "tracer."):
        if not module.name.endswith(("__main__", "compile_child")):
            import_module(module.name)
    for class_ in gc.get_objects():
        if isinstance(class_, type) and class_.__dict__.get("__init__") is dataclass._first_init:
            _complete(class_)
    site_cache._resolver()  # the version of what is imported now; to look at all files took a third of an emulated run
    gc.disable()  # as the command does before its imports
    gc.freeze()
    with socket.socket(fileno=descriptor) as asked:
        while True:
            message, descriptors, *_ = socket.recv_fds(asked, _LONGEST, 3)
            if not message:
                return
            if _sibling() == 0:
                os.setsid()  # before anybody knows its number, and may send a signal to the session
                asked.send(b"%d" % os.getpid())
                asked.close()
                words, environment = json.loads(message)
                _run(words, environment, descriptors)
            for received in descriptors:
                os.close(received)


def _complete(class_: Any) -> None:
    """Compiles what a class of `tracer.dataclass` compiles with its first object: each run would do it anew."""
    from tracer import dataclass

    class_.__init__ = dataclass._compiled_init(class_, dataclass._fields(class_), class_._is_frozen)


def _sibling() -> int:
    """fork(2), of a child of our parent's."""
    libc, python = ctypes.PyDLL(None, use_errno=True), ctypes.pythonapi
    number_at = ctypes.c_void_p()  # where the C library keeps the number of a thread, if the kernel tells
    libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(number_at), 0, 0, 0)
    flags = _CLONE_PARENT | signal.SIGCHLD
    flags |= _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID if number_at.value else 0
    nothing = ctypes.c_void_p()
    python.PyOS_BeforeFork()
    # The fourth on x86-64, the fifth on arm64; the other one is looked at for another flag.
    pid = int(libc.syscall(_CLONE[platform.machine()], flags, nothing, nothing, number_at, number_at))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def _run(words: list[str], environment: dict[str, str], descriptors: list[int]) -> NoReturn:
    """As a process of its own does it."""
    from tracer.cli.app import main

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 1)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["tracer", *words]
    os._exit(main())  # tidying up all that is imported takes longer than a run


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
