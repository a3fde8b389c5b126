"""The golden files in tests/golden/lang: dumps of both stages, and every diagnostic as it is shown."""

from __future__ import annotations

import pytest

from tests.golden.lang.blocks import Block, blocks, dumps, errors, files


@pytest.mark.parametrize("block", [b for path in files("dumps") for b in blocks(path)], ids=lambda block: block.title)
def test_dumps_are_as_written(block: Block) -> None:
    assert dumps(block.program) == block.expected


@pytest.mark.parametrize("block", [b for path in files("errors") for b in blocks(path)], ids=lambda block: block.title)
def test_diagnostics_are_as_written(block: Block) -> None:
    assert errors(block.program) == block.expected
