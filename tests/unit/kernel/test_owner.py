from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracer.errors import TracerError
from tracer.kernel.uprobe_events import owner


def test_a_claim_lives_until_it_is_released(tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    claimed = owner.claim(directory)
    assert owner.is_ours(claimed.group)
    assert claimed.group.startswith(f"tracer_{os.getpid()}_")
    assert owner.is_alive(claimed.group, directory) is True
    claimed.release()
    claimed.release()
    assert owner.is_alive(claimed.group, directory) is None
    assert os.listdir(directory) == []


def test_a_claim_that_leaves_something_counts_as_dead(tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    claimed = owner.claim(directory)
    claimed.release(empty=False)
    assert owner.is_alive(claimed.group, directory) is False


def test_two_claims_have_two_groups(tmp_path: Path) -> None:
    first, second = owner.claim(str(tmp_path / "run")), owner.claim(str(tmp_path / "run"))
    assert first.group != second.group
    first.release()
    assert owner.is_alive(second.group, str(tmp_path / "run")) is True
    second.release()


def test_a_claim_ends_with_its_process_and_is_then_forgotten(tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    living = owner.claim(directory)
    child = os.fork()
    if child == 0:
        owner.claim(directory)
        os._exit(0)
    os.waitpid(child, 0)
    (dead,) = (name for name in os.listdir(directory) if name != living.group)
    assert owner.is_alive(dead, directory) is False
    (tmp_path / "run" / "somebody_elses").touch()
    owner.forget_dead(directory, keep=frozenset({dead}))
    assert dead in os.listdir(directory)
    owner.forget_dead(directory)
    assert sorted(os.listdir(directory)) == sorted(["somebody_elses", living.group])
    living.release()


@pytest.mark.parametrize("mode", [0o777, 0o722])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(TracerError, match="cannot make the lock"):
        owner.claim(str(directory))


def test_a_link_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TracerError, match="it belongs to somebody else"):
        owner.claim(str(tmp_path / "run"))


@pytest.mark.parametrize(
    "group", ["tracer", "tracer_1_", "tracer_1_0123456g", "xtracer_1_01234567", "tracer_1_01234567/../x"]
)
def test_other_peoples_groups_are_not_ours(group: str) -> None:
    assert not owner.is_ours(group)
