"""The aggregations: one object each."""
