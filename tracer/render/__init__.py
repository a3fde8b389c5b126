"""Events and maps as text and as JSON; everything is written to a stream that the caller gives."""
