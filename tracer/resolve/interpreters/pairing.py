"""Puts the frames of an interpreter in the places of the native frames that run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer.resolve.interpreters.description import begins_evaluation, is_end, is_frame


def merged(
    native: Sequence[int], words: Sequence[int], evaluates: Callable[[int], bool], most: int
) -> tuple[tuple[int, ...], bool]:
    """Returns the stack, innermost first, of `most` frames, and whether each evaluation found its frames.

    An evaluation is a native frame that `evaluates`: the frames that it runs stand in its place, and where it has none
    (it is about to begin, or to end) it stands for itself. Which are whose is known from the innermost one on; but one
    that is about to begin has none yet, and then it is known from the outermost.
    """
    groups, whole = _groups(words)
    places = [position for position, address in enumerate(native) if evaluates(address)]
    early = len(places) - len(groups) if whole else 0
    places = places[max(early, 0) :]
    stack: list[int] = []
    taken = 0
    for position, address in enumerate(native):
        if taken < len(places) and position == places[taken] and taken < len(groups):
            stack += groups[taken] or [address]
            taken += 1
        else:
            stack.append(address)
    paired = taken == len(places) and taken == len(groups)
    # The native stack broke off: who called is known all the same.
    for group in groups[taken:]:
        stack += group
    return tuple(stack[:most]), paired or len(stack) > most


def _groups(words: Sequence[int]) -> tuple[list[list[int]], bool]:
    """The frames of each evaluation, innermost first, and whether those are all."""
    groups: list[list[int]] = [[]]
    open_group = False
    for word in words:
        if is_end(word):
            return (groups if open_group else groups[:-1]), True
        open_group = True
        if is_frame(word):
            groups[-1].append(word)
        if begins_evaluation(word):
            groups.append([])
            open_group = False
    return (groups if open_group else groups[:-1]), False
