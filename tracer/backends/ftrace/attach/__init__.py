"""The attachers of trace events: what differs by kind of probe where they are defined and read is asked of these."""
