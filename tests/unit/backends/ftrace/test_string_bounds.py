"""Which kernels are known to keep strings within their page."""

from __future__ import annotations

import pytest

from tracer.backends.ftrace.string_bounds import is_repaired


@pytest.mark.parametrize(
    ("words", "repaired"),
    [
        ("6.18.44-fc-v669 #1 SMP PREEMPT_DYNAMIC @0", True),
        ("6.1.0-56-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)", True),
        ("6.1.0-20-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.85-1 (2024-04-11)", False),
        ("6.12.0-124.8.1.el10_1.x86_64 #1 SMP PREEMPT_DYNAMIC Mon Oct 6 2025", True),
        ("6.6.58", False),
        ("6.6.59", True),
        ("6.8.0-51-generic #52-Ubuntu SMP Ubuntu 6.8.0-51.52-generic 6.8.12", False),
        ("5.10.0-46-amd64 #1 SMP Debian 5.10.262-1 (2026-07-31)", False),
        ("5.14.0-503.11.1.el9_5.x86_64 #1 SMP", False),
        ("7.2.0", True),
        ("", False),
    ],
)
def test_goes_by_the_stable_version_where_the_kernel_names_one(words: str, repaired: bool) -> None:
    assert is_repaired(words) is repaired
