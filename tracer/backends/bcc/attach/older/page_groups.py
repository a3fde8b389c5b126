"""Finds the texts of `probe` and `func` of a site without cookies (before Linux 6.6).

A program knows the address of the place that was hit, and of that the distance from the start of its page is the same
in every process and in the file. So places whose distances differ can share a program: each variant goes into the first
*group* in which its distances are free, each group gets a copy of the program with the group's number in it, and the
group's page says for each distance which texts are meant. Ten thousand functions that are aligned to 16 bytes take some
60 copies, where one for each would be ten thousand.
"""

from __future__ import annotations

import struct

from tracer.backends.bcc.codegen.generate import Generated
from tracer.backends.precheck import MOST_ALONE, too_many_alone
from tracer.dataclass import dataclass
from tracer.plan.model import Plan

PAGE = 4096
"""Files are mapped by this or a multiple of it."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each variant, by its id; and their pages: numbers of texts as u32, by distance."""

    of: dict[int, int]
    pages: tuple[bytes, ...]


def groups(plan: Plan, generated: Generated) -> Groups | None:
    """The groups of the variants that have texts. None where none has, or where a place does not show at its hit: at a
    return the address is that of the caller, and an event of the kernel has no place in a file.

    Then each place takes a perf event and a program of its own. Raises `ProgramError` where those are too many.
    """
    texts = generated.site_texts.cookies
    variants = [variant for probe in plan.probes for variant in probe.variants if variant.id in texts]
    if not variants:
        return None
    number = sum(len(variant.places) for variant in variants)
    for probe in plan.probes:
        told = [variant for variant in probe.variants if variant.id in texts]
        if any(not variant.places or any(site.is_return_probe for site in variant.places) for variant in told):
            if number > MOST_ALONE:
                places = f"{number} places with func or probe, return probes or events among them,"
                lacking = "no links for many (Linux 6.6)"
                raise too_many_alone(plan, probe, places, lacking, "--backend ftrace takes one for all")
            return None
    first: dict[str, int] = {}  # the number of each function's first group
    taken: dict[str, dict[int, int]] = {}
    chosen: list[tuple[int, str, int]] = []
    for variant in variants:
        function = generated.functions[variant.id]
        next_free = taken.setdefault(function, {})
        distances = {site.offset % PAGE for site in variant.places}
        group = max(next_free.get(distance, 0) for distance in distances)
        next_free.update(dict.fromkeys(distances, group + 1))
        chosen.append((variant.id, function, group))
    count = 0
    for function, next_free in taken.items():
        first[function] = count
        count += max(next_free.values())
    of = {variant: first[function] + group for variant, function, group in chosen}
    pages = [[0] * PAGE for _ in range(count)]
    for variant in variants:
        for site in variant.places:
            pages[of[variant.id]][site.offset % PAGE] = texts[variant.id]
    return Groups(of, tuple(struct.pack(f"={PAGE}I", *page) for page in pages))
