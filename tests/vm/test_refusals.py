"""What the kernel refuses, and how its error_log says so, on each kernel: the live tests of this machine."""

from __future__ import annotations

import pytest

from tests.live.test_ftrace_refusals import (
    app,  # noqa: F401 - a fixture
    test_a_file_that_vanishes_between_the_check_and_the_definition_is_said,
    test_more_values_than_a_probe_can_have_are_refused_under_the_first_that_is_too_many,
    test_what_the_kernel_refuses_is_said_under_what_it_is_about_in_its_own_words,
)

__all__ = [
    "test_a_file_that_vanishes_between_the_check_and_the_definition_is_said",
    "test_more_values_than_a_probe_can_have_are_refused_under_the_first_that_is_too_many",
    "test_what_the_kernel_refuses_is_said_under_what_it_is_about_in_its_own_words",
]

# Their program reads strings, which ftrace refuses where they may leave their page.
pytestmark = [pytest.mark.needs("ftrace", "string_page"), pytest.mark.usefixtures("clean")]
