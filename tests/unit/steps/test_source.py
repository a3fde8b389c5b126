"""The Python source of a clause."""

from __future__ import annotations

from tests.typed_ir import clause, program, run


def test_a_clause_that_does_nothing_runs() -> None:
    assert run(program([clause([], kind="begin", names=("BEGIN",))]), [()]).events == []
