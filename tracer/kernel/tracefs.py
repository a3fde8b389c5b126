"""The only place that reads or writes tracefs.

Each write is one line by one write(2), opened for appending and never with O_TRUNC, which would take everybody's
probes away.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.kernel.disabled import is_disabled
from tracer.kernel.limits import COLLISION, ONE_SEMAPHORE

MOUNT_POINT = "/sys/kernel/tracing"
_OLD_MOUNT_POINT = "/sys/kernel/debug/tracing"  # before 4.1, and blocked by lockdown
_LINE = re.compile(r"^([pr])[0-9]*:(?:([^/\s]+)/)?(\S+) ")
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
_DEFINITION = re.compile(
    rf"[pr]:{_NAME}/{_NAME} /[^\s#]*:0x[0-9a-f]+(\(0x[0-9a-f]+\))?"
    rf"( {_NAME}=[-+@%$\\()A-Za-z0-9_]+:[a-z0-9]+(\[[0-9]+\])?)*"
)
_ENTRY = re.compile(
    r"\[[^\]]*\] [\w:]+: error: (?P<reason>.*)\n  Command: (?P<line>.*)\n(?:(?P<blanks> *)\^)?"
)
_FETCH = re.compile(r"f(\d+)=")
_UNDOING = re.compile(rf"-:{_NAME}/{_NAME}")
_TRIGGER = re.compile(
    r"!?hist:keys=[a-z0-9_,.=]+:vals=[a-z0-9_,]+:sort=hitcount:size=[0-9]+(:pause|:continue)?( if [ -~]+)?"
)
LONGEST_LINE = 4094  # WRITE_BUFSIZE of kernel/trace, less the end of the line and a NUL
MOUNT_HINT = f"mount -t tracefs tracefs {MOUNT_POINT}"
ROOT_HINT = "run it with sudo"
_LOCKED = "kernel lockdown in confidentiality mode closes it"
_LOCKED_HINT = "boot without lockdown=confidentiality; BPF needs no tracefs"
IN_README = {"ref_ctr": "ref_ctr_offset", "ustring": "ustring", "hist": "hist:keys", "many": r"\imm-value"}
"""Words of the README that show a feature; `many` are several probes in one event (Linux 5.4)."""


class Tracefs:
    """A mounted tracefs."""

    def __init__(self, root: str) -> None:
        self.root = root

    @property
    def definitions_file(self) -> str:
        """The path of the file in which probes are defined and undefined."""
        return f"{self.root}/uprobe_events"

    def readme(self) -> str:
        """The kernel's own words on what it knows of ftrace."""
        return _readme(self.root)

    def knows(self, feature: str) -> bool:
        """Whether the README names a feature, a key of IN_README."""
        return not is_disabled(feature) and IN_README[feature] in self.readme()

    def define(self, line: str, what: str) -> None:
        """Writes one definition. Raises `TracerError` with the kernel's own words; `what` names the probe in it."""
        try:
            self._write(line)
        except OSError as error:
            raise _refused(self, line, what, error) from None

    def define_all(self, lines: Sequence[str]) -> bool:
        """Writes definitions by one write(2). False where the kernel refuses one: then it has taken those before it."""
        if not all(_DEFINITION.fullmatch(line) and len(os.fsencode(line)) <= LONGEST_LINE for line in lines):
            return False
        try:
            put(self.definitions_file, "".join(f"{line}\n" for line in lines))
        except OSError:
            return False
        return True

    def places(self, group: str, event: str) -> int:
        """The number of places of an event."""
        matches = (_LINE.match(line) for line in _read(self.definitions_file).splitlines())
        return sum(match is not None and (match[2], match[3]) == (group, event) for match in matches)

    def undefine(self, group: str, event: str) -> bool:
        """Removes an event with all its places; False where it is in use. One that is not there is no error."""
        try:
            self._write(f"-:{group}/{event}")
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            if error.errno == errno.EINVAL:  # what older kernels say of one that is not there
                return not self.places(group, event)
            if error.errno != errno.ENOENT:
                raise TracerError(f"cannot remove the probe {group}/{event}: {os.strerror(error.errno or 0)}") from None
        return True

    def definitions(self) -> list[tuple[str, str]]:
        """Group and event of every uprobe that is defined, anybody's."""
        return [event for event in dict.fromkeys(self.definition_lines()) if event != ("", "")]

    def profile(self) -> tuple[list[str], list[int]]:
        """The uprobes that are defined, anybody's, in the order of `definition_lines`: file and event of each, and its
        hits.

        All hits, also those that a filter drops: the kernel counts them before it looks whose they are. Before Linux
        6.12 or so not atomically.
        """
        lines = [line.rstrip().rpartition(" ") for line in _read(f"{self.root}/uprobe_profile").splitlines()]
        return [place.strip() for place, _, _ in lines], [int(hits) for _, _, hits in lines]

    def kernel_profile(self) -> list[tuple[str, int, int]]:
        """The kprobes that are defined, anybody's: event, hits and misses of each; none where the kernel has none."""
        try:
            lines = _read(f"{self.root}/kprobe_profile").splitlines()
        except TracerError:
            return []
        fields = [line.rsplit(None, 2) for line in lines]
        return [(event.strip(), int(hits), int(missed)) for event, hits, missed in fields]

    def written_definitions(self) -> list[str]:
        """The lines of all definitions, in the order of `profile`."""
        return _read(self.definitions_file).splitlines()

    def definition_lines(self) -> list[tuple[str, str]]:
        """Group and event of each line of the definitions: an event as often as it has places."""
        matches = (_LINE.match(line) for line in _read(self.definitions_file).splitlines())
        return [(match[2] or "uprobes", match[3]) if match else ("", "") for match in matches]

    def format(self, group: str, event: str) -> str:
        """The layout of an event."""
        return _read(f"{self.root}/events/{group}/{event}/format")

    def event_systems(self) -> list[str]:
        """The systems of events that the kernel has by itself, in the order of their names: uprobes and kprobes that
        somebody defined are no tracepoints, and those of "ftrace" are none that perf can open.
        """
        others = {group for group, _ in self.definitions()} | {"ftrace", "uprobes", "kprobes", "synthetic"}
        try:
            with os.scandir(f"{self.root}/events") as entries:
                return sorted(entry.name for entry in entries if entry.is_dir() and entry.name not in others)
        except OSError as error:
            raise _unreadable(f"{self.root}/events", error) from None

    def events_of(self, system: str) -> list[str]:
        """The events of one of these, in the order of their names."""
        path = f"{self.root}/events/{system}"
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []  # a module that went meanwhile
        except OSError as error:
            raise _unreadable(path, error) from None

    def trigger_file(self, group: str, event: str) -> str:
        """The path of the file in which an event's triggers are set and removed."""
        return f"{self.root}/events/{group}/{event}/trigger"

    def trigger(self, group: str, event: str, line: str, put: Callable[[str, str], None]) -> None:
        """Writes one line about a hist trigger. Raises `TracerError` with the kernel's own words where it has some.

        Setting and removing one writes breakpoints: `put` is the watcher's `append`.
        """
        try:
            _append(self.trigger_file(group, event), line, _TRIGGER.fullmatch(line) is not None, put)
        except OSError as error:
            said = self.last_error(line)
            reason = said.reason if said is not None else os.strerror(error.errno or 0)
            raise TracerError(f"the kernel refuses the trigger: {reason}", detail=line) from None

    def hist(self, group: str, event: str) -> str:
        """The tables of an event's hist triggers."""
        return _listed(_read(f"{self.root}/events/{group}/{event}/hist"))

    def triggers(self, group: str, event: str) -> list[str]:
        """The hist triggers of an event as they are listed."""
        try:
            lines = _listed(_read(self.trigger_file(group, event))).splitlines()
        except TracerError:
            return []
        return [line.rpartition(" [")[0] for line in lines if line.startswith("hist:")]

    def instances(self) -> list[str]:
        """The names of its instances, anybody's."""
        try:
            return os.listdir(f"{self.root}/instances")
        except OSError:
            return []

    def instance(self, name: str) -> Tracefs:
        """The view of an instance, whether there is one of the name or not."""
        return Tracefs(f"{self.root}/instances/{name}")

    def restricts_processes(self) -> bool:
        """Whether somebody has told ftrace of processes whose events alone, or not at all, are looked at.

        Hist triggers do not see the others' hits then (tried on 6.1); perf does.
        """
        lists = (f"{self.root}/set_event_pid", f"{self.root}/set_event_notrace_pid")
        return any(_read(path).strip() for path in lists if os.path.exists(path))

    def number(self, group: str, event: str) -> int | None:
        """The number of an event, None where there is no such event."""
        try:
            return int(_read(f"{self.root}/events/{group}/{event}/id"))
        except TracerError:
            return None

    def _write(self, line: str) -> None:
        form = _DEFINITION.fullmatch(line) or _UNDOING.fullmatch(line)
        _append(self.definitions_file, line, form is not None)

    def lock(self, alone: bool, patience_s: float) -> int | None:
        """Locks the list of definitions (flock(2)) and returns the descriptor that holds the lock; None where it
        cannot be had in time.

        A session holds it, as others may too, from its first definition until all are in use. Who removes definitions
        of which no file in /run tells whether they are a living session's holds it `alone`: what is unused then
        belongs to nobody. tracefs is one for all containers of a host, which /run is not.
        """
        fd = os.open(self.definitions_file, os.O_RDONLY | os.O_CLOEXEC)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(fd)
                    return None
                time.sleep(0.005)
            except OSError:
                os.close(fd)
                return None
            else:
                return fd

    def last_error(self, line: str) -> Said | None:
        """The words of the kernel's error_log (Linux 5.2) about a line that it refused; None where it says nothing."""
        try:
            log = _read(f"{self.root}/error_log")
        except TracerError:
            return None
        return said_about(line, log)


@dataclass(frozen=True, slots=True)
class Said:
    """An entry of the kernel's error_log: the reason, the fetch argument that the caret stands under (None where it
    stands under something else), and the entry itself.
    """

    reason: str
    fetch: int | None
    entry: str


def said_about(line: str, log: str) -> Said | None:
    """The last entry about a line. Each is the reason, the line as the kernel understood it, and a caret below:

    [   12.345678] trace_uprobe: error: Invalid register name
      Command: p:g/e0 /bin/app:0x10 f0=%nonsense:u64
                                       ^
    """
    for entry in reversed(re.split(r"^(?=\[)", log, flags=re.MULTILINE)):
        match = _ENTRY.match(entry)
        if match and match["line"].split() == line.split():
            fetch = None
            if match["blanks"] is not None:
                column = len(match["blanks"]) - len("  Command: ")
                word = next((word for word in re.finditer(r"\S+", match["line"]) if word.end() > column >= 0), None)
                named = _FETCH.match(word[0]) if word is not None else None
                fetch = int(named[1]) if named is not None else None
            return Said(match["reason"].strip(), fetch, entry.rstrip("\n"))
    return None


class Refused(TracerError):
    """The kernel did not take a definition; `fetch` is the number of the fetch argument that it was about, or None."""

    def __init__(self, message: str, hint: str | None, detail: str, fetch: int | None = None) -> None:
        super().__init__(message, hint, detail)
        self.fetch = fetch


def find(mount: bool = True) -> Tracefs:
    """The tracefs of this machine; root mounts it where it is not, and it stays mounted. Raises `TracerError`."""
    for root in (MOUNT_POINT, _OLD_MOUNT_POINT):
        if os.path.exists(f"{root}/uprobe_events"):
            return Tracefs(root)
    if os.geteuid() != 0:
        raise TracerError("tracefs needs root", ROOT_HINT)
    mounted = _is_mounted()
    if not mounted and mount:
        _mount()
        if os.path.exists(f"{MOUNT_POINT}/uprobe_events"):
            return Tracefs(MOUNT_POINT)
        mounted = _is_mounted()
    if mounted and not os.path.exists(f"{MOUNT_POINT}/README"):
        # Linux 6.1 with lockdown=confidentiality makes no files in it (tracefs_create_file).
        raise TracerError("tracefs is empty: " + _LOCKED, _LOCKED_HINT)
    if mounted:
        raise TracerError("this kernel's tracefs has no uprobe_events", "boot a kernel with CONFIG_UPROBE_EVENTS")
    raise TracerError("tracefs is not mounted", MOUNT_HINT)


def _is_mounted() -> bool:
    try:
        text = Path("/proc/self/mounts").read_text(errors="surrogateescape")  # of paths, which are any bytes
    except OSError:
        return False
    return any(line.split(" ")[1:3] == [MOUNT_POINT, "tracefs"] for line in text.splitlines())


def _mount() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tracefs", MOUNT_POINT.encode(), b"tracefs", 0, None) != 0:
        code = ctypes.get_errno()
        raise TracerError(
            f"cannot mount tracefs on {MOUNT_POINT}: {os.strerror(code)}",
            MOUNT_HINT if code != errno.ENODEV else "boot a kernel with tracing (CONFIG_TRACING)",
        )


def _listed(text: str) -> str:
    """Hist triggers as they can be written. 7.2 lists the key `common_cpu` under its name twice, and does not take that
    back (seen on 7.2.13; 6.18 and before list it once). No command's name is as long.
    """
    return text.replace("common_cpucommon_cpu", "common_cpu")


def _append(path: str, line: str, is_form: bool, write: Callable[[str, str], None] | None = None) -> None:
    """Nothing reaches the kernel that is not one whole line of a form that is ever written, a `known` one."""
    if len(os.fsencode(line)) > LONGEST_LINE or not is_form:
        raise OSError(errno.E2BIG if len(os.fsencode(line)) > LONGEST_LINE else errno.EBADMSG, "not written")
    (write or put)(path, line + "\n")


def put(path: str, text: str) -> None:
    """Appends to a file by one write(2). Raises `OSError`."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, text.encode("utf-8", "surrogateescape"))
    finally:
        os.close(fd)


@lru_cache(maxsize=1)
def _readme(root: str) -> str:
    return _read(f"{root}/README")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> TracerError:
    message, hint = f"cannot read {path}: {error.strerror}", None
    if error.errno in (errno.EACCES, errno.EPERM):
        hint = ROOT_HINT
        if os.geteuid() == 0:
            # As Linux answers where lockdown came after the mount (tracefs' default_open_file).
            message, hint = f"{message}: {_LOCKED}", _LOCKED_HINT
    return TracerError(message, hint)


_HINTS = {
    errno.EACCES: ROOT_HINT,
    errno.EPERM: "a locked-down kernel refuses probes even to root",
    errno.ENOENT: "does the file still exist?",
}


def _refused(tracefs: Tracefs, line: str, what: str, error: OSError) -> Refused:
    code = error.errno or 0
    if code == errno.E2BIG and len(os.fsencode(line)) > LONGEST_LINE:
        message = f"the probe at {what} reads more values than fit into a definition of {LONGEST_LINE} characters"
        return Refused(message, "read fewer values there, or --backend bcc", line)
    said = tracefs.last_error(line)
    reason = said.reason if said is not None else os.strerror(code)
    hint = _HINTS.get(code, "--backend bcc attaches in another way")
    if code == errno.EINVAL and said is None:
        reason, hint = COLLISION, ONE_SEMAPHORE
    message = f"the kernel refused a probe at {what}: {reason}"
    if said is None:
        return Refused(message, hint, f"{line}: {os.strerror(code)}")
    return Refused(message, hint, said.entry, said.fetch)
