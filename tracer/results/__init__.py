"""The results of a session: events, losses, the values of maps, their buckets, order and merging."""
