"""The text of a traced program may steer a terminal: colours, its title, the clipboard (OSC 52), keys it sends back."""

from __future__ import annotations

import re

_STEERING = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
"""The controls of ASCII but for tab and newline, and those of Unicode (U+0080 to U+009F) as UTF-8."""


def escaped(text: bytes) -> bytes:
    """The text with hexadecimal escapes for each byte of a control, and for each that is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "backslashreplace").encode()
    return _STEERING.sub(_bytes, text)


def escaped_in_json(text: bytes) -> bytes:
    """Escapes lines of JSON, whose writer leaves only DEL and U+0080 to U+009F as they are."""
    return _STEERING.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), text)


def _bytes(match: re.Match[bytes]) -> bytes:
    return b"".join([b"\\x%02x" % byte for byte in match[0]])
