from __future__ import annotations

from scripts.benchmark.spread import Spread, difference, ratio, spread


def test_a_spread_is_the_median_the_quartiles_and_the_ends() -> None:
    assert spread([5, 1, 2, 4, 3]) == Spread(median=3, lower=2, upper=4, least=1, most=5)
    assert spread([10, 20]) == Spread(median=15, lower=12.5, upper=17.5, least=10, most=20)
    assert spread([7]) == Spread(7, 7, 7, 7, 7)


def test_ratios_are_made_within_a_round() -> None:
    """A machine that is twice as slow in one round changes no ratio."""
    assert ratio([10, 20, 10], [20, 40, 20]) == Spread(0.5, 0.5, 0.5, 0.5, 0.5)


def test_a_round_in_which_one_of_both_failed_makes_no_ratio() -> None:
    assert ratio([10, None, 30, 40], [10, 10, None]) == Spread(1, 1, 1, 1, 1)
    assert ratio([None], [1]) is None
    assert ratio([1], [0]) is None


def test_differences_are_made_within_a_round_and_may_be_negative() -> None:
    assert difference([5, 7, 8], [6, 6, 6]) == Spread(median=1, lower=0, upper=1.5, least=-1, most=2)
