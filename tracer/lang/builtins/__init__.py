"""Built-in values and functions, aggregations aside: one object each, in the module of its family."""
