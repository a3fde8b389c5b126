"""The states of features on this host: the one table that `check`, `info` and the documentation read.

Each backend has a function from what it has found of the kernel to a state for every feature. The names of the findings
are those by which they can be switched off (`kernel.disabled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracer.dataclass import dataclass
from tracer.lang.features import Feature


@dataclass(frozen=True, slots=True)
class Supported:
    """The state of a feature that works. `how` says how, `but` what is missing ("partly"), `slow` why another backend
    that can do it is preferred when the user names none.
    """

    how: str = ""
    but: str = ""
    slow: str = ""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The state of a feature that does not work: the reason and the remedy."""

    reason: str
    hint: str | None = None


State = Supported | Unsupported

Has = Callable[[str], bool]
"""Whether the kernel has a feature, a key of `disabled.KNOWN`."""

NEEDS_ROOT = Unsupported("tracing needs root", "run it with sudo")

NO_COUNTER = Unsupported(
    "the kernel does not count semaphores (ref_ctr, Linux 4.20)",
    "--usdt-file-activation raises them in the processes that run now",
)
"""`features.SEMAPHORE`, on either backend."""


def elsewhere(backend: str) -> str:
    """The remedy that names the other backend; `choose` replaces it if that cannot be used either."""
    return f"--backend {backend} can"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of one backend here.

    `unusable` is set where nothing works (no bpf(), no tracefs, not root). `features` has a state for each feature,
    None where only root can tell; one that is not in it is supported. `facts` are findings for `info`: name to "yes",
    "no: reason" or a value; what only root can see is "unknown".
    """

    backend: str
    unusable: Unsupported | None
    features: Mapping[Feature, State | None]
    facts: Mapping[str, str]

    @property
    def missing(self) -> dict[Feature, Unsupported]:
        """The features that are missing."""
        return {feature: state for feature, state in self.features.items() if isinstance(state, Unsupported)}


def settled(
    states: Callable[[Has], Mapping[Feature, State]], answers: Mapping[str, bool | None]
) -> dict[Feature, State | None]:
    """The states that follow from what was found; None where they depend on something that is None, not known."""
    best, worst = states(lambda name: answers[name] is not False), states(lambda name: bool(answers[name]))
    return {feature: _common(state, worst[feature]) for feature, state in best.items()}


def _common(best: State, worst: State) -> State | None:
    if best == worst:
        return best
    same = isinstance(best, Supported) and isinstance(worst, Supported) and best.but == worst.but
    return Supported() if same else None
