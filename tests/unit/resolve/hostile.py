"""Files whose names would steer a terminal, end a comment, or write lines of their own."""

from __future__ import annotations

from pathlib import Path

from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter, usdt_note

NAMES = (
    "esc\x1b[31mred", "line\nforged: 1", "rtl\u202eabc", "end*/ int x;", "bad\udcff", "tab\tx", 'quote"x',
    "back\\slash", "c1\x9bx", "sep\u2028x", "%s%n", "\\\n", "??/", "//", "a\rb", "bom\ufeff", "zero\u200bwidth",
)  # fmt: skip


def write_hostile(directory: Path) -> tuple[Path, Path]:
    """Two files with functions and USDT probes of these names; the second has such a name itself."""
    places = {name: TEXT_ADDRESS + 2 * number for number, name in enumerate(NAMES)}
    writer = ElfWriter(
        text=b"\x90\xc3" * len(places),
        symbols=[(name, address, 2, 0x12) for name, address in places.items()],
        notes=b"".join(usdt_note(name, name, f"8@%rax {name}", address) for name, address in places.items()),
    )
    return writer.write(directory / "plain"), writer.write(directory / "f\x1b[1m\nforged: x\u202e* y")


def steering(text: str) -> set[str]:
    """The characters that should not be there; "forged" for a line that a name made."""
    odd = {each for each in text if each not in "\n\t" and not each.isprintable()}
    return odd | ({"forged"} if "\nforged" in text or text.startswith("forged") else set())
