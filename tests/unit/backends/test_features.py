"""What follows from what a kernel has: the table of each backend, and the remedies of its refusals."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import chain, combinations
from typing import cast

import pytest

from tracer.backends.bcc.host import features as bcc
from tracer.backends.choose import BACKENDS, choose
from tracer.backends.ftrace import features as ftrace
from tracer.errors import ProgramError, Source, Span
from tracer.kernel.disabled import KNOWN
from tracer.lang import features
from tracer.lang.features import FEATURES, Feature
from tracer.lang.typed import Program
from tracer.plan.model import Need, Plan
from tracer.plan.states import NEEDS_ROOT, Capabilities, Supported, Unsupported, settled

MODULES = {"bcc": bcc, "ftrace": ftrace}
LACKING = [(), *chain.from_iterable(combinations(KNOWN, number) for number in (1, 2)), tuple(KNOWN)]
"""What kernels may lack: nothing, each one or two, all."""


def test_no_two_features_have_one_name() -> None:
    assert len({feature.name for feature in FEATURES}) == len(FEATURES) > 40


@pytest.mark.parametrize("backend", MODULES)
def test_every_feature_has_a_state_and_every_no_a_reason_and_a_remedy(backend: str) -> None:
    for lacking in LACKING:
        states = MODULES[backend].states(lambda name, lacking=lacking: name not in lacking)
        assert states.keys() == set(FEATURES)
        for feature, state in states.items():
            if isinstance(state, Unsupported):
                assert state.reason, feature
                assert state.hint, feature


def test_no_feature_of_bcc_is_refused_for_what_is_not_tried_for_a_plan() -> None:
    """`host.capabilities(wanted)` takes for there what has no trial of its own: these have."""
    tried = {
        features.SEMAPHORE: {"ref_ctr"}, features.MAP_WALK: {"walks"}, features.STOPPED_STACK: {"user_registers"},
        features.FOLLOW: {"task_newtask"}, features.KERNEL_MEMORY: {"kernel_reads"},
        features.TASKS: {"btf", "kernel_reads"}, features.INTERPRETED: {"btf", "kernel_reads", "atomics"},
    }  # fmt: skip
    for lacking in LACKING:
        states = bcc.states((set(KNOWN) - set(lacking)).__contains__)
        always = {
            features.KEYS_OF_CLEARED, features.SERIES_KEYS, features.SHARED_AGGREGATION, features.STACK_COMPUTED,
            features.MAP_WALK_CHANGED, features.LENGTH_FORGETS, features.JOINS, features.DEEP_STACK,
        }  # fmt: skip
        refused = {feature for feature, state in states.items() if isinstance(state, Unsupported)}
        assert refused == always | {feature for feature, names in tried.items() if names & set(lacking)}


def test_what_nobody_could_try_is_unknown_where_it_matters() -> None:
    names = (
        "sleepable", "atomics", "walks", "mappings", "long_keys", "late_allocation", "uprobe_multi", "task_newtask",
        "user_registers",
    )  # fmt: skip
    states = settled(bcc.states, {**dict.fromkeys(names, None), "ref_ctr": False, "btf": True, "kernel_reads": True})
    assert {feature for feature, state in states.items() if state is None} == {
        features.FOLLOW, features.STRING, features.STRING_COMPUTED, features.LOAD, features.LOAD_COMPUTED,
        features.AGGREGATION, features.MAP, features.MAP_WALK, features.BUFFER_SIZED, features.INTERPRETED,
        features.USER_STACK, features.STOPPED_STACK, features.SYMBOL, features.POINTER_32, features.LOAD_AFTER,
    }  # fmt: skip
    assert isinstance(states[features.SEMAPHORE], Unsupported)
    assert states[features.MANY_SITES] == Supported(), "it works in either way"


class Host:
    """A backend on a host of ours."""

    def __init__(self, name: str, *missing: Feature, unusable: Unsupported | None = None) -> None:
        self.name = name
        other = "ftrace" if name == "bcc" else "bcc"
        lacks = {feature: Unsupported("it is not there", f"--backend {other} can") for feature in missing}
        self.found = Capabilities(name, unusable, lacks, {})

    def capabilities(self, wanted: Collection[Feature] | None = None) -> Capabilities:
        return self.found


def _same(host: Host) -> Host:
    return host


def plan(*features: Feature) -> Plan:
    source = Source("abcdefghij")
    needs = tuple(Need(each, each.name, Span(at, at + 1)) for at, each in enumerate(features))
    return Plan(Program(source, (), {}, (), ()), (), (), needs, {})


def refusal(monkeypatch: pytest.MonkeyPatch, *hosts: Host, forced: str | None = None) -> list[tuple[str, str | None]]:
    for host in hosts:
        monkeypatch.setitem(BACKENDS, host.name, partial(_same, host))
    with pytest.raises(ProgramError) as caught:
        choose(plan(features.UID, features.MAP_LENGTH), forced)
    return [(each.message, each.hint) for each in caught.value.diagnostics]


NO_UID = "uid, gid, username is not available with ftrace: it is not there"


def test_the_other_backend_is_a_remedy_where_it_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    found = refusal(monkeypatch, Host("bcc"), Host("ftrace", features.UID), forced="ftrace")
    assert found == [(NO_UID, "--backend bcc can")]
    found = refusal(monkeypatch, Host("bcc", unusable=NEEDS_ROOT), Host("ftrace", features.UID), forced="ftrace")
    assert found == [(NO_UID, "--backend bcc can")]


@pytest.mark.parametrize("forced", [None, "ftrace"])
def test_where_the_other_backend_cannot_be_used_the_remedy_is_to_make_it_usable(
    forced: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_bpf = Unsupported("there is no bpf()", "boot another kernel")
    found = refusal(monkeypatch, Host("bcc", unusable=no_bpf), Host("ftrace", features.UID), forced=forced)
    assert found == [(NO_UID, "bcc could, but there is no bpf() (boot another kernel)")]


def test_where_each_backend_lacks_another_thing_one_of_them_has_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    found = refusal(monkeypatch, Host("bcc", features.MAP_LENGTH), Host("ftrace", features.UID), forced="ftrace")
    assert found == [(NO_UID, "bcc could, but not len: leave one of the two out")]
    found = refusal(monkeypatch, Host("bcc", features.MAP_LENGTH), Host("ftrace", features.UID))
    hint = "ftrace could, but not uid, gid, username: leave one of the two out"
    assert found == [("len is not available with bcc: it is not there", hint)]


def test_what_both_lack_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = {features.UID: Unsupported("it is not there", "another way")}
    hosts = [Host("bcc"), Host("ftrace")]
    for host in hosts:
        host.found = Capabilities(host.name, None, lacks, {})
    found = refusal(monkeypatch, *hosts)
    assert found == [("uid, gid, username is not available with bcc: it is not there", "another way")]


def test_a_backend_that_is_slow_with_a_program_is_taken_last(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {name: Host(name) for name in ("bcc", "ftrace")}
    slow = {features.MAP_WALK_LARGE: Supported(slow="each hit takes long")}
    hosts["bcc"].found = Capabilities("bcc", None, slow, {})
    for host in hosts.values():
        monkeypatch.setitem(BACKENDS, host.name, partial(_same, host))

    def chosen(forced: str | None, *features: Feature) -> tuple[str, tuple[str, ...]]:
        choice = choose(plan(*features), forced)
        return cast(Host, choice.backend).name, choice.passed_over

    why = ("using ftrace, not bcc: each hit takes long",)
    assert chosen(None, features.MAP_WALK, features.MAP_WALK_LARGE) == ("ftrace", why)
    assert chosen("bcc", features.MAP_WALK, features.MAP_WALK_LARGE) == ("bcc", ())
    assert chosen(None, features.MAP_WALK) == ("bcc", ())
    hosts["ftrace"].found = Host("ftrace", features.MAP_WALK_LARGE).found
    assert chosen(None, features.MAP_WALK, features.MAP_WALK_LARGE) == ("bcc", ())
    hosts["ftrace"].found = Host("ftrace", unusable=NEEDS_ROOT).found
    assert chosen(None, features.MAP_WALK, features.MAP_WALK_LARGE) == ("bcc", ())
