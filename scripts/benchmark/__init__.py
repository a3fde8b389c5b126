"""The benchmark of tracing beside other tracers on this machine: `scripts/bench`.

A *part* of the benchmark is a list of works; a *work* is one thing that several *contestants* do, and gives one or more
rows of the table. In each round every contestant does every work once, in another order each time. What is compared is
compared within a round, so that a machine that slows down slows both.
"""
