"""Breakpoints in the text of running programs: what the kernel has written there, told by the file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.cli import read_line, target


@dataclass(frozen=True)
class Text:
    """The executable part of a file in the memory of a process."""

    memory: int
    start: int
    content: bytes

    def altered(self) -> int:
        """How many of its bytes are not as in the file."""
        now = os.pread(self.memory, len(self.content), self.start)
        assert len(now) == len(self.content)
        return 0 if now == self.content else sum(map(int.__ne__, now, self.content))


def texts_of(path: Path, pids: Iterable[int]) -> Iterator[Text]:
    """Each executable mapping of a file in these processes. The memory stays open as long as the program runs."""
    content = path.read_bytes()
    for pid in pids:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            bounds, rights, offset, _, _, name = [*line.split(maxsplit=5), ""][:6]
            if name == str(path) and "x" in rights:
                start, end = (int(bound, 16) for bound in bounds.split("-"))
                first = int(offset, 16)
                yield Text(memory, start, content[first : first + end - start].ljust(end - start, b"\0"))


@contextmanager
def sleeping(path: Path, number: int) -> Iterator[Sequence[Text]]:
    """Runs a program some times, each until it says that it is ready; all must live on."""
    with ExitStack() as stack:
        processes = [stack.enter_context(target(path)) for _ in range(number)]
        for process in processes:
            assert read_line(process) == "ready"
        texts = list(texts_of(path, (process.pid for process in processes)))
        for text in texts:
            stack.callback(os.close, text.memory)
        assert len(texts) == number and not any(text.altered() for text in texts)
        yield texts
        assert all(process.poll() is None for process in processes), "a target did not live on"
