"""Results of resolving that one run keeps for the next: values of tracer's classes as marshal types, and the version
that found them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tracer.dataclass import names


def plain(value: Any, classes: Mapping[str, type]) -> Any:
    """A value as something that marshal knows: an object as its class's name and its fields, a tuple with no name."""
    if value.__class__ is tuple:
        return ("", *[plain(item, classes) for item in value])
    name = value.__class__.__name__
    return (name, *[plain(getattr(value, field), classes) for field in names(value)]) if name in classes else value


def rebuilt(value: Any, classes: Mapping[str, type]) -> Any:
    """The opposite of `plain`."""
    if value.__class__ is not tuple:
        return value
    items = [rebuilt(item, classes) for item in value[1:]]
    return classes[value[0]](*items) if value[0] else tuple(items)


@lru_cache(maxsize=1)
def version() -> str:
    """The version of the code that resolves, and of the types that it returns."""
    here = os.path.dirname(__file__)
    above = os.path.dirname(here)
    rooms = (here, os.path.join(above, "kinds"), os.path.join(above, "lang", "types"))
    every = [folder for room in rooms for folder, _, _ in os.walk(room) if not folder.endswith("__pycache__")]
    return repr([modules(folder) for folder in every])


def modules(folder: str, end: str = ".py") -> list[tuple[str, int, int]]:
    """The files of a folder, by name, size and time."""
    with os.scandir(folder) as entries:
        files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(end)]
    return sorted((name, status.st_size, status.st_mtime_ns) for name, status in files)
