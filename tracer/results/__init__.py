"""What a session collects: events, losses, the values of maps, their buckets, order and merging."""
