"""The archives from which this host takes Debian's packages, by its apt sources (sources.list(5)): the same for other
suites.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.lab import NotAvailable

_ONE_LINE = re.compile(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+(\S.*)")


@dataclass(frozen=True)
class Archive:
    """An archive and the options that say whom to trust for it, in words of deb822: `Signed-By`, `Trusted`."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()

    @property
    def keyring(self) -> Path | None:
        """The file of keys that it must be signed with, where one is named."""
        named = dict(self.options).get("Signed-By", "").split()
        return Path(named[0]) if len(named) == 1 and named[0].startswith("/") else None

    def stanza(self, suites: Sequence[str]) -> str:
        """The archive as a paragraph of a .sources file, with these suites and the component main."""
        fields = [("Types", "deb"), ("URIs", self.uri), ("Suites", " ".join(suites)), ("Components", "main")]
        # The key itself may stand there, on lines of its own.
        return "".join(f"{name}:{' ' * value[0].isprintable()}{value}\n" for name, value in (*fields, *self.options))


def sources(suites: Sequence[str], folder: Path = Path("/etc/apt")) -> str:
    """A .sources file for these suites of Debian; those of the security archive are left out where the host names none.

    Raises `NotAvailable` where it names no archive of Debian at all.
    """
    plain = debian(folder).stanza([suite for suite in suites if not suite.endswith("-security")])
    others = (other for other in _debians(folder) if other.suites[0].endswith(("-security", "/updates")))
    archive = next(others, None)
    security = [suite for suite in suites if suite.endswith("-security")]
    return plain if archive is None else f"{plain}\n{archive.stanza(security)}"


def debian(folder: Path = Path("/etc/apt")) -> Archive:
    """The archive of Debian's releases. Raises `NotAvailable`."""
    archive = next((candidate for candidate in _debians(folder) if candidate.suites[0].isalpha()), None)
    if archive is None:
        raise NotAvailable(f"{folder} names no archive of Debian's packages; add one to {folder / 'sources.list.d'}")
    return archive


def _debians(folder: Path) -> Iterator[Archive]:
    """The archives of the host that may be Debian's, its own files first."""
    parts = folder / "sources.list.d"
    for path in dict.fromkeys((folder / "sources.list", parts / "debian.sources", *sorted(parts.glob("*")))):
        parse = {".sources": _deb822, ".list": _one_line}.get(path.suffix)
        if parse is not None and path.is_file():
            archives = parse(path.read_text(errors="replace"))
            yield from (archive for archive in archives if "debian" in archive.uri and "main" in archive.components)


def _one_line(text: str) -> Iterator[Archive]:
    for line in text.splitlines():
        if match := _ONE_LINE.fullmatch(line.partition("#")[0].strip()):
            settings = dict(setting.split("=", 1) for setting in (match[1] or "").split() if "=" in setting)
            yield Archive(match[2], (match[3],), tuple(match[4].split()), _options(settings))


def _deb822(text: str) -> Iterator[Archive]:
    for paragraph in re.split(r"\n[ \t]*\n", re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)):
        pairs = re.findall(r"^(\S+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        fields = {name.lower(): value.rstrip() for name, value in pairs}
        if fields.get("enabled", "yes").lower() in ("no", "false", "0") or "deb" not in fields.get("types", "").split():
            continue
        components = tuple(fields.get("components", "").split())
        for uri in fields.get("uris", "").split():
            yield Archive(uri, tuple(fields.get("suites", "").split()) or ("",), components, _options(fields))


def _options(settings: dict[str, str]) -> tuple[tuple[str, str], ...]:
    named = [(name, settings.get(name.lower(), "")) for name in ("Signed-By", "Trusted")]
    return tuple((name, value.replace(",", " ")) for name, value in named if value)
