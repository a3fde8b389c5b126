"""Calls and spans: how a clause of them becomes ordinary clauses."""
