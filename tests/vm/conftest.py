"""Tests that run in a guest of `scripts/vm test`, on every kernel of scripts/lab/kernels.py.

A test says what it needs of the kernel by `@pytest.mark.needs("hist", "ftrace")`: features and backends of that table.
Where the table gives the kernel less, the test is left out; where it gives all of them, the test runs and must pass.
That the table tells the truth is a test too (test_kernel.py).
"""

from __future__ import annotations

import pytest

from scripts.lab.kernels import FEATURES, Kernel
from tests.live.conftest import clean, place  # noqa: F401 - fixtures
from tests.vm.plugin import kernel_of


@pytest.fixture(scope="session")
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """The row of the table for the kernel that this runs on."""
    return kernel_of(request.config)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*what): features and backends of scripts/lab/kernels.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    row = kernel_of(config)
    for item in items:
        for mark in item.iter_markers("needs"):
            if unknown := set(mark.args) - FEATURES:
                raise pytest.UsageError(f"{item.nodeid} needs what no kernel has: {', '.join(sorted(unknown))}")
            if missing := set(mark.args) - row.features - set(row.backends):
                item.add_marker(pytest.mark.skip(f"{row.name} has no {', '.join(sorted(missing))}"))
