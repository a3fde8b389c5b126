"""What all tests need."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.harness.cli import PATIENCE
from tests.harness.kernel import KernelLog
from tests.harness.warm import Warms

# A shell without job control starts what it puts into the background with SIGINT ignored, `nohup` with SIGHUP; both are
# inherited, and tracer honours them. The tests send these signals and expect them to be heard.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# In CI the same examples each time, so that a failure there is of the change; everywhere else new ones are looked for.
# How long one takes says nothing on a machine that does other work too.
# No test of an emulated machine needs it, and to import it takes seconds there.
if os.environ.get("TRACER_TEST_WARM") != "1":
    from hypothesis import settings

    settings.register_profile("ours", deadline=None, derandomize=os.environ.get("CI") == "true")
    settings.load_profile("ours")


@pytest.fixture(scope="session")
def warms() -> Warms:
    """For whoever runs many command lines."""
    return Warms()


@pytest.fixture(scope="session")
def kernel_log() -> Iterator[KernelLog]:
    """The kernel's log of the whole session."""
    log = KernelLog()
    yield log
    log.close()


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """In CI, where nobody else traces: a live test fails where the kernel could not take a breakpoint out, but for
    those of the programs that it names (`@pytest.mark.leaks("bpftrace")`).
    """
    if os.environ.get("CI") != "true" or request.node.get_closest_marker("live") is None:
        yield
        return
    log: KernelLog = request.getfixturevalue("kernel_log")
    yield
    named = [name for mark in request.node.iter_markers("leaks") for name in mark.args]
    leaks = [line for line in log.leaks() if "leaking uprobe" in line]
    assert [line for line in leaks if not any(f"uprobe: {name}:" in line for name in named)] == []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives each test as many times its limit as TRACER_TEST_PATIENCE says."""
    for item in items if PATIENCE != 1 else ():
        own = item.get_closest_marker("timeout")
        limit = float(own.args[0] if own else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(limit * PATIENCE), append=False)
