"""What a kernel has, and what a backend may refuse where an older one has less."""

from __future__ import annotations

from dataclasses import dataclass

from tests.harness.cli import Done


@dataclass(frozen=True)
class Here:
    """What this kernel has, as `tracer info` says: its features, and for each backend why it is not usable."""

    features: dict[str, str]
    closed: dict[str, str]


# What a backend says where an older kernel has less, by the feature of `tracer info`; it may name both backends.
OLDER = {
    "strings in bounds": "the strings of a hit are near 4,000 bytes or more (CVE-2024-50067); ",
    "bpf atomics": "cannot add and read in one step, nor compare and swap (Linux 5.12); ",
    "bpf map walks": "the kernel has no walk over a map for BPF programs; ",
    "bpf long keys": "take keys of 512 bytes at most (Linux 5.11 takes longer ones); ",
}


def is_older(done: Done, here: Here) -> bool:
    """Whether a backend refuses a case, as it should, since this kernel has less."""
    said = [text for feature, text in OLDER.items() if here.features[feature] != "yes"]
    return done.status == 1 and done.out == b"" and any(text in done.err for text in said)
