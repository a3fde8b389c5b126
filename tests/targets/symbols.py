"""Addresses of a target's functions, read by binutils and not by the product."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path


@cache
def function_addresses(path: Path) -> dict[str, int]:
    """Function names and their virtual addresses in the file."""
    listing = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3 and row[1] in "tT"}
