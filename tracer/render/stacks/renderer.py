"""Maps of stacks as `--stacks` has them; everything else as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.render.renderer import Effects, Renderer, Sink
from tracer.render.stacks.collect import Collector, is_of_stacks
from tracer.render.stacks.folded import lines
from tracer.render.text import TextRenderer
from tracer.render.value_text import NUMBERS

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.render.stacks.profiles import Profile
    from tracer.render.value_text import Symbolizer
    from tracer.results.values import MapSnapshot


class FoldedRenderer(TextRenderer):
    """Text, with maps of stacks as folded lines. Where the program has several such maps, each line begins with its
    own.

    Nothing stands before the maps at the end: other programs read this.
    """

    def __init__(
        self, program: Program, symbolizer: Symbolizer | None, out: Sink, quiet: bool = False,
        effects: Effects | None = None,
    ) -> None:  # fmt: skip
        super().__init__(program, symbolizer, out, quiet, effects)
        self._collector = Collector(program, symbolizer or NUMBERS, self.text)
        self._several = sum(map(is_of_stacks, program.maps.values())) > 1

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        Renderer.maps(self, snapshots)

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        """Lines for a map of stacks."""
        if is_of_stacks(snapshot.decl):
            self.take(self._collector.profile(snapshot, top, div))
        else:
            super().print_map(snapshot, top, div)

    def take(self, profile: Profile) -> None:
        """Handles a map of stacks."""
        self.write(lines(profile, profile.name if self._several else None))


class DocumentRenderer(FoldedRenderer):
    """Text without the maps of stacks. Each time that one is printed, it is a profile of the document that follows."""

    def __init__(
        self, program: Program, symbolizer: Symbolizer | None, out: Sink, quiet: bool = False,
        effects: Effects | None = None,
    ) -> None:  # fmt: skip
        super().__init__(program, symbolizer, out, quiet, effects)
        self._profiles: list[Profile] = []

    @property
    def profiles(self) -> Sequence[Profile]:
        """The profiles that were printed so far, each with a name of its own."""
        seen: dict[str, int] = {}
        named = []
        for profile in self._profiles:
            seen[profile.name] = seen.get(profile.name, 0) + 1
            again = seen[profile.name] > 1
            named.append(replace(profile, name=f"{profile.name} ({seen[profile.name]})") if again else profile)
        return named

    def take(self, profile: Profile) -> None:
        """Kept for the document."""
        self._profiles.append(profile)
