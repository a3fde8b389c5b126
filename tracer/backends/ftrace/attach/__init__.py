"""What differs by kind of probe where trace events are defined and read: an attacher for each kind."""
