"""The flow of calls below a function: the hits of its program become calls, and these text or a document."""
