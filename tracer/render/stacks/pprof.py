"""Stacks for pprof: gzipped protobuf, with addresses, mappings and build-ids, so that they can be symbolised elsewhere.

Source: proto/profile.proto of github.com/google/pprof; the numbers below are those of its fields.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence

from tracer import __version__
from tracer.render.stacks.profiles import Frame, Module, Page, Profile, Sample

_VARINT, _BYTES = 0, 2
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING, _TIME, _COMMENT, _DEFAULT = 1, 2, 3, 4, 5, 6, 9, 13, 14


def document(profiles: Sequence[Profile], page: Page) -> bytes:
    """The file. Each map is a type of value; the parts of a key that are no stack are labels."""
    return gzip.compress(_Writer(profiles, page).message(), mtime=0)


class _Writer:
    """Numbers strings, functions, mappings and locations as they are met: strings from 0, the others from 1."""

    def __init__(self, profiles: Sequence[Profile], page: Page) -> None:
        self._profiles = profiles
        self._page = page
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._mappings: dict[Module, int] = {}
        self._unnamed: set[Module] = set()
        self._locations: dict[Frame, int] = {}

    def message(self) -> bytes:
        """The Profile."""
        for profile in self._profiles:  # pprof takes the first mapping for that of the program
            for frame in (frame for sample in profile.samples for frame in sample.frames):
                if frame.kind == "user" and frame.module is not None:
                    self._mappings.setdefault(frame.module, len(self._mappings) + 1)
        types = [_field(_SAMPLE_TYPE, self._value_type(profile)) for profile in self._profiles]
        samples = [
            _field(_SAMPLE, self._sample(sample, profile, column))
            for column, profile in enumerate(self._profiles) for sample in profile.samples
        ]  # fmt: skip
        locations = [_field(_LOCATION, self._location(frame, number)) for frame, number in self._locations.items()]
        functions = [_field(_FUNCTION, self._function(*which, number)) for which, number in self._functions.items()]
        mappings = [_field(_MAPPING, self._mapping(module, number)) for module, number in self._mappings.items()]
        rest = [_number(_TIME, self._page.time_ns), _number(_COMMENT, self._string(f"tracer {__version__}"))]
        if self._page.title:
            rest.append(_number(_COMMENT, self._string(self._page.title)))
        if self._profiles:
            rest.append(_number(_DEFAULT, self._string(_name(self._profiles[0]))))
        strings = [_field(_STRING, text.encode("utf-8", "backslashreplace")) for text in self._strings]
        return b"".join([*types, *samples, *mappings, *locations, *functions, *strings, *rest])

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, profile: Profile) -> bytes:
        return _number(1, self._string(_name(profile))) + _number(2, self._string(profile.unit))

    def _sample(self, sample: Sample, profile: Profile, column: int) -> bytes:
        places = [self._locations.setdefault(frame, len(self._locations) + 1) for frame in reversed(sample.frames)]
        values = [sample.value if place == column else 0 for place in range(len(self._profiles))]
        names = list(profile.keys)
        if len(names) != len(sample.labels):
            names = [f"key{place}" for place in range(1, len(sample.labels) + 1)]
        labels = [
            _field(3, _number(1, self._string(name)) + _number(2, self._string(text)))
            for name, text in zip(names, sample.labels, strict=True)
        ]
        return _packed(1, places) + _packed(2, values) + b"".join(labels)

    def _location(self, frame: Frame, number: int) -> bytes:
        message = _number(1, number)
        if frame.module is not None:
            message += _number(2, self._mappings.setdefault(frame.module, len(self._mappings) + 1))
        message += _number(3, frame.address)
        # What stands for a place in a file is no name: who has the file may know a better one.
        if frame.module is not None and frame.name.startswith(("[", "0x")):
            self._unnamed.add(frame.module)
            return message
        function = self._functions.setdefault((frame.name, frame.path), len(self._functions) + 1)
        return message + _field(4, _number(1, function))

    def _function(self, name: str, path: str, number: int) -> bytes:
        shown = self._string(name)
        # A Python frame says its file itself.
        file, _, _ = name.partition(":")
        source = self._string(file) if file.endswith(".py") else 0
        return _number(1, number) + _number(2, shown) + _number(3, shown) + _number(4, source)

    def _mapping(self, module: Module, number: int) -> bytes:
        numbers = _number(1, number) + _number(2, module.start) + _number(3, module.limit) + _number(4, module.offset)
        texts = _number(5, self._string(module.path)) + _number(6, self._string(module.build_id))
        # Where each place has its function, pprof looks for none.
        return numbers + texts + _number(7, module not in self._unnamed)


def _name(profile: Profile) -> str:
    """The name without `@`: on pprof's command line it is the value of an option."""
    return profile.name.removeprefix("@") or "samples"


# --- the wire format, of which a profile needs two kinds ---


def _varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    """A 0 is not written."""
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))
