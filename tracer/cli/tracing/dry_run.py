"""`--dry-run`: what would be attached, by which backend and why, and what the kernel would be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.pipeline import Compiled


def dry_run_text(compiled: Compiled, forced: str | None) -> str:
    """The whole report, in three parts."""
    from tracer.plan.dump import site_line

    sites = compiled.plan.sites
    if compiled.program is None:
        return "sites: none; BEGIN, END and interval run in user space\n"
    lines = [f"sites: {len(sites)}", *(f"  {site_line(site)}" for site in sites)]
    reason = "as --backend says" if forced else "the first that can run this program here"
    lines.append(f"backend: {compiled.backend}, {reason}")
    lines += [f"  {note}" for note in compiled.notes]
    if compiled.by_hand:
        lines.append("  semaphores: raised by tracer itself, in the processes that run then")
    lines += [f"  {name}: unknown without root" for name in _unknown(compiled.backend)]
    lines.append("program:")
    text = "".join(f"  {line}\n" if line else "\n" for line in compiled.program.text().splitlines())
    return "\n".join(lines) + "\n" + text


def steering_nothing(text: str) -> str:
    """Escapes in lines what could steer a terminal: a program's text is not always the user's own."""
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    from tracer.errors import printable

    return "\t".join(map(printable, line.split("\t")))


def _unknown(backend: str | None) -> list[str]:
    """The facts about this host that only root can see."""
    from tracer.backends.choose import BACKENDS

    if backend is None:
        return []
    facts = BACKENDS[backend]().capabilities().facts
    return [name for name, state in facts.items() if state == "unknown"]
