"""The program that the demo traces where there is no C compiler: calls and garbage, the same in every run."""


class Ring:
    """Refers to itself, so that only the garbage collector frees it."""

    def __init__(self) -> None:
        """Closes the ring."""
        self.next: Ring = self


def is_even(number: int) -> bool:
    """Called 3,000 times."""
    return number % 2 == 0


def turn(number: int) -> bool:
    """Called 3,000 times; calls is_even."""
    Ring()
    return is_even(number)


for number in range(3000):
    turn(number)
