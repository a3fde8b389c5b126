"""Addresses of a target's symbols, read by binutils and not by the product."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path


@cache
def symbol_addresses(path: Path) -> dict[str, int]:
    """Names of functions and data and their virtual addresses in the file."""
    return {name: address for name, address, _ in _symbols(path)}


@cache
def function_addresses(path: Path) -> dict[str, int]:
    """Function names and their virtual addresses in the file."""
    return {name: address for name, address, kind in _symbols(path) if kind in "tT"}


def _symbols(path: Path) -> list[tuple[str, int, str]]:
    listing = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return [(row[2], int(row[0], 16), row[1]) for row in rows if len(row) == 3]
