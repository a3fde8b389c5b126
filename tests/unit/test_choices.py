"""What a user chooses by name stands in one table each: what takes a name and what it stands for follow from that."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from tests.harness.loaded import loaded
from tracer import choices
from tracer.backends import choose
from tracer.cli import options
from tracer.errors import Source, TracerError
from tracer.tracing import Prepared, Request


def test_the_options_take_the_names_of_the_tables() -> None:
    assert get_args(options.BackendName) == ("auto", *choices.BACKENDS)
    assert get_args(options.Format) == tuple(choices.RENDERERS)
    assert get_args(options.StackFormat) == tuple(choices.STACKS)
    assert get_args(options.Stage) == choices.STAGES


def test_each_backend_is_the_one_of_its_name() -> None:
    assert {name: make().name for name, make in choose.BACKENDS.items()} == {name: name for name in choices.BACKENDS}


def test_each_stage_is_shown_and_none_is_another() -> None:
    with Prepared(Request(Source("uprobe:libc:malloc { @ = count(); }"), backend="ftrace")) as prepared:
        shown = {prepared.dump(stage) for stage in choices.STAGES if stage != "bytecode"}
        with pytest.raises(TracerError, match="ftrace runs no bytecode"):
            prepared.dump("bytecode")
    assert all(shown) and len(shown) == len(choices.STAGES) - 1


def test_the_tables_are_known_without_what_their_names_stand_for(tmp_path: Path) -> None:
    found = loaded(tmp_path, "run", "--help")
    assert "choices" in found.modules and not found.modules & {"render", "render.stacks", "backends", "pipeline"}
