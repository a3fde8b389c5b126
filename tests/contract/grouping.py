"""The rounds of the target in groups, as maps with keys hold them."""

from __future__ import annotations

from tests.contract.depot import ITEMS, Round, rounds
from tests.contract.expect import Plain

R = rounds()


def weights_by_item(of: str = "weight") -> dict[Plain, list[int]]:
    return {item: [getattr(r, of) for r in R if r.item == item] for item in ITEMS}


def by(part: str) -> dict[Plain, list[Round]]:
    return {key: [r for r in R if getattr(r, part) == key] for key in {getattr(r, part) for r in R}}


def counted(part: str) -> dict[Plain, int]:
    return {key: len(group) for key, group in by(part).items()}


def summed(part: str, of: str = "weight") -> dict[Plain, int]:
    return {key: sum(getattr(r, of) for r in group) for key, group in by(part).items()}
