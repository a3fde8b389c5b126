"""What becomes of strings that are too long for ftrace, on each kernel: the live tests of this machine."""

from __future__ import annotations

import pytest

from tests.live.test_long_strings import (
    strings,  # noqa: F401 - a fixture
    test_ftrace_reads_of_each_string_what_max_strlen_asks_for,
    test_ftrace_says_which_strings_a_larger_buffer_does_not_bring,
    test_without_a_second_event_one_long_string_is_told_from_an_unreadable_one,
    test_without_a_second_event_strings_that_had_no_room_are_told_from_unreadable_ones,
    traced,  # noqa: F401 - a fixture
)

__all__ = [
    "test_ftrace_reads_of_each_string_what_max_strlen_asks_for",
    "test_ftrace_says_which_strings_a_larger_buffer_does_not_bring",
    "test_without_a_second_event_one_long_string_is_told_from_an_unreadable_one",
    "test_without_a_second_event_strings_that_had_no_room_are_told_from_unreadable_ones",
]

# Where strings do not stay in their page these tests overwrite what lies behind it.
pytestmark = [pytest.mark.needs("ftrace", "string_page"), pytest.mark.usefixtures("clean")]
