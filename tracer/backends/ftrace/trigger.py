"""Hist triggers: tables in which the kernel adds up the hits of an event, so that none of them becomes a sample.

A trigger is a line written to the event's `trigger` file. It adds each hit to the row of its key: one to `hitcount`,
and the values of up to two fields to their sums. What it does, and does not (tried on 6.1 and 6.12):

* Keys and sums are shown as unsigned 64 bits, fields of fewer bits extended by their sign; sums wrap there. Read as
  signed or unsigned 64 bits that is the language's own arithmetic.
* `.buckets=N` goes down to the next multiple of N as an unsigned number: for lhist() from a multiple of its step on, up
  to 2^63; `.log2` up to the next power of two. How histograms are made of them: `counting.bucket_parts`. Ends that
  are open are triggers of their own, so that a table has no more rows than there are buckets.
* Of a greatest value (`onmax`) it reads what is kept, compares and writes, each by itself: of two CPUs at once the
  lesser may stay. So min() and max() are not the kernel's.
* Strings in keys: one that cannot be read and an empty one are shown alike, a newline breaks the listing, and the rest
  is cut at 255 bytes. So a key of a string is not the kernel's either.
* At most three keys. One is needed: where a map has none, `common_type`, which is the same at every hit.
* `size`, a power of two from 128 to 131072, is exactly how many rows there is room for. The first to come stay, hits of
  all others are counted as dropped.
* A field in memory that could not be read is what the buffer held, and counts. The event's filter is not looked at,
  only the trigger's own `if`.
* A table stays until its trigger goes; a definition with a trigger cannot be removed before.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.dataclass import dataclass, replace
from tracer.lang.types import Value

MOST_ROWS = 1 << 17
MOST_ROWS_TOGETHER = 1 << 18  # of all triggers of a program; a row takes about 250 bytes, from the start
LEAST_ROWS = 1 << 7
MOST_KEYS = 3
MOST_SUMS = 2
LONGEST = 4000
"""Characters of a line: the kernel takes a page at once, and a branch or a mark to remove it may be added."""

THREAD = "common_pid"
CPU = "common_cpu"  # not `cpu`: the listing calls that common_cpu, and takes it back under its own name alone
_NOTHING = "common_type"


@dataclass(frozen=True, slots=True)
class Column:
    """A number in a row's key: which one, and whether it is signed."""

    index: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Feed:
    """The part of a map that comes from each row of a trigger, under a key of columns and constants.

    A hit adds `per_hit`, or where `total` is set its share of that sum; in an lhist map it falls into `bucket`, where a
    column holds a number of that bucket.
    """

    map: str
    key: tuple[Column | Value, ...]
    total: int | None = None
    per_hit: int = 1
    bucket: Column | int | None = None


@dataclass(frozen=True, slots=True)
class Trigger:
    """A hist trigger, which keeps one table: the fields of its key and those it sums, as they are written, its
    condition ("" for none), how many rows one branch of the event can need, and what the rows of each branch feed.
    `branch` is the field that tells the branches apart, "" where there is one.
    """

    keys: tuple[str, ...]
    sums: tuple[str, ...]
    condition: str
    rows: int
    feeds: tuple[tuple[Feed, ...], ...]
    branch: str = ""

    @property
    def line(self) -> str:
        """The trigger as the kernel lists it, but for its state."""
        return self.action("")

    def action(self, word: str) -> str:
        """The line that sets it or does something to it: `pause`, `continue`; "" for nothing but to set it."""
        keys = (*self.keys, *filter(None, (self.branch,))) or (_NOTHING,)
        values = ("hitcount", *self.sums)
        condition = f" if {self.condition}" if self.condition else ""
        verb = f":{word}" if word else ""
        return f"hist:keys={','.join(keys)}:vals={','.join(values)}:sort=hitcount:size={self.size}{verb}{condition}"

    @property
    def columns(self) -> int:
        """The number of numbers in the key of a row."""
        return max(len(self.keys) + (self.branch != ""), 1)

    def part(self, branch: int) -> Trigger:
        """The trigger for one branch alone."""
        return replace(self, feeds=(self.feeds[branch],), branch="")

    @property
    def size(self) -> int:
        """The number of rows of its table."""
        rows = min(max(self.rows * len(self.feeds), LEAST_ROWS), MOST_ROWS)
        return 1 << (rows - 1).bit_length()


def shape(triggers: Sequence[Trigger]) -> object:
    """Events with triggers of one shape can be one event with several branches."""
    return tuple((one.keys, one.sums, one.condition, one.rows, len(one.feeds[0])) for one in triggers)


def most_branches(triggers: Sequence[Trigger]) -> int:
    """The most branches of an event with these triggers; the number of the branch takes a place in the key."""
    if any(len(trigger.keys) == MOST_KEYS for trigger in triggers):
        return 1
    return min((max(MOST_ROWS // trigger.rows, 1) for trigger in triggers), default=1 << 16)


def joined(parts: Sequence[tuple[Trigger, ...]], branch: str) -> tuple[Trigger, ...]:
    """The triggers of several branches as those of one event, whose field `branch` is the number of the branch."""
    if len(parts) == 1:
        return parts[0]
    return tuple(
        replace(group[0], feeds=tuple(feeds for trigger in group for feeds in trigger.feeds), branch=branch)
        for group in zip(*parts, strict=True)
    )
