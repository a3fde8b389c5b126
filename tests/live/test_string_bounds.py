"""Strings on a kernel that writes past its page for them."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = pytest.mark.live

REASON = (
    "str() is not available with ftrace: the kernel may write past its buffer where the strings of a hit are near 4,000"
    " bytes or more (CVE-2024-50067); use a repaired kernel: 6.1.115, 6.6.59, 6.12; or TRACER_UNSAFE_STRINGS=1 where no"
    " string comes near that"
)


def test_they_are_refused_on_ftrace_unless_the_user_vouches_for_them() -> None:
    text, child = f"usdt:{build('depot')}:depot:parcel {{ @[str(arg1)] = count(); }}", f"{build('depot')} 1"
    words = ("--backend", "ftrace", "-e", text, "-c", child)
    refused = tracer(*words, env={"TRACER_WITHOUT": "string_bounds"})
    caret = " " * text.index("str(") + "^" * len("str(arg1)")
    assert (refused.status, refused.out, refused.err) == (1, b"", f"{text}\n{caret} error: {REASON}\n")
    vouched = tracer(*words, env={"TRACER_WITHOUT": "string_bounds", "TRACER_UNSAFE_STRINGS": "1"})
    assert (vouched.status, vouched.text) == (0, "@[copper wire]: 1\n"), vouched.err


def test_names_of_threads_and_numbers_need_no_page() -> None:
    text = f"usdt:{build('depot')}:depot:parcel {{ @[comm, arg0] = count(); }}"
    done = tracer(
        "--backend", "ftrace", "-e", text, "-c", f"{build('depot')} 1", env={"TRACER_WITHOUT": "string_bounds"}
    )
    assert (done.status, done.text) == (0, "@[depot, 1]: 1\n"), done.err
