"""What becomes of strings that are too long for ftrace, on each kernel: the live tests of this machine."""

from __future__ import annotations

import pytest

from tests.live.test_long_strings import (
    strings,  # noqa: F401 - a fixture
    test_ftrace_says_which_strings_a_larger_buffer_does_not_bring,
    test_ftrace_tells_one_long_string_from_an_unreadable_one,
    test_ftrace_tells_strings_that_had_no_room_from_unreadable_ones,
)

__all__ = [
    "test_ftrace_says_which_strings_a_larger_buffer_does_not_bring",
    "test_ftrace_tells_one_long_string_from_an_unreadable_one",
    "test_ftrace_tells_strings_that_had_no_room_from_unreadable_ones",
]

# Where strings do not stay in their page these tests overwrite what lies behind it.
pytestmark = [pytest.mark.needs("ftrace", "string_page"), pytest.mark.usefixtures("clean")]
