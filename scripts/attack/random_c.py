"""Random programs of C that record their own variables: nested scopes, loops, shadowing, structs, arrays, inlining.

`rec(LINE, …)` stands on a line of its own and is given values of variables in scope, so what it records is what they
hold where its line begins. `program` returns the text, and by line what is recorded there, in order.
"""

from __future__ import annotations

import random

TYPES = ("int", "long", "short", "unsigned char", "unsigned", "signed char", "unsigned long", "unsigned short")
_HEAD = """#include <stddef.h>
struct pair { int first; long second; short few[3]; };
struct entry { long line, count, values[6]; };
volatile int seed = SEED;
struct entry entries[4096];
volatile long recorded;
__attribute__((noinline)) void rec(long line, long count, long a, long b, long c, long d)
{ if (recorded < 4096) { struct entry *e = &entries[recorded]; e->line = line; e->count = count;
  e->values[0] = a; e->values[1] = b; e->values[2] = c; e->values[3] = d; recorded = recorded + 1; } }
__attribute__((noinline)) void finished(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void touch(void *p) { __asm__ volatile("" :: "r"(p) : "memory"); }
"""

Names = dict[int, list[str]]


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = _HEAD.replace("SEED", str(seed % 97)).splitlines()
        self.names: Names = {}
        self.functions: list[tuple[str, int]] = []
        self.budget = 0

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def value(self, scopes: list[dict[str, str]]) -> str:
        """An expression without side effects."""
        readable = self.readable(scopes)
        pick = self.random
        one = pick.choice(readable) if readable else str(pick.randrange(50))
        other = pick.choice([*readable, str(pick.randrange(1, 90))])
        forms = ("{0} + {1}", "{0} ^ {1}", "{0} * 3 - {1}", "{0}", "({0} & 15) + seed")
        return pick.choice(forms).format(one, other)

    def readable(self, scopes: list[dict[str, str]]) -> list[str]:
        """Every scalar that a name means here."""
        visible: dict[str, str] = {}
        for scope in scopes:
            visible.update(scope)
        expressions = []
        for name, kind in visible.items():
            if kind == "pair":
                expressions += [f"{name}.first", f"{name}.second", f"{name}.few[1]"]
            elif kind == "pointer":
                expressions += [f"{name}->first", f"{name}->second"]
            elif kind == "array":
                expressions += [f"{name}[0]", f"{name}[3]"]
            else:
                expressions.append(name)
        return expressions

    def record(self, depth: int, scopes: list[dict[str, str]]) -> None:
        readable = self.readable(scopes)
        if not readable:
            return
        wanted = self.random.sample(readable, min(4, len(readable)))
        line = len(self.lines) + 1
        self.names[line] = wanted
        values = ", ".join([*(f"(long) {expression}" for expression in wanted), *["0"] * (4 - len(wanted))])
        self.put(depth, f"rec({line}, {len(wanted)}, {values});")

    def declare(self, depth: int, scopes: list[dict[str, str]]) -> None:
        pick = self.random
        name = pick.choice("abcdefgh")
        if name in scopes[-1]:
            name = f"{name}{len(self.lines)}"
        kind = pick.choice((*TYPES, *TYPES, "pair", "array", "static"))
        start = self.value(scopes) if pick.random() < 0.8 else str(pick.randrange(1000))
        if any(start.startswith(name) or f" {name}" in start or f"({name}" in start for _ in "x"):
            start = "seed"
        if kind == "pair":
            self.put(depth, f"struct pair {name} = {{ {start}, 7, {{ 1, {pick.randrange(9)}, 3 }} }};")
            if pick.random() < 0.5:
                self.put(depth, f"touch(&{name});")
        elif kind == "array":
            self.put(depth, f"int {name}[4] = {{ {start}, 2, 3, seed }};")
            if pick.random() < 0.5:
                self.put(depth, f"touch({name});")
        elif kind == "static":
            self.put(depth, f"static int {name} = {pick.randrange(99)};")
        else:
            self.put(depth, f"{kind} {name} = {start};")
            if pick.random() < 0.15:
                self.put(depth, f"touch(&{name});")
        scopes[-1][name] = "scalar" if kind not in ("pair", "array") else kind

    def statements(self, depth: int, scopes: list[dict[str, str]]) -> None:
        pick = self.random
        for _ in range(pick.randrange(2, 6)):
            self.budget -= 1
            what = pick.random()
            if what < 0.3 or self.budget < 0:
                self.declare(depth, scopes)
            elif what < 0.5:
                plain = [n for s in scopes for n, k in s.items() if k == "scalar"]
                visible = [n for n in plain if next(s for s in scopes[::-1] if n in s)[n] == "scalar"]
                visible = [n for n in visible if not n.startswith("i")]
                if visible:
                    self.put(depth, f"{pick.choice(visible)} {pick.choice(('=', '+=', '^='))} {self.value(scopes)};")
            elif depth < 4 and what < 0.65:
                name = f"i{depth}"
                self.put(depth, f"for (int {name} = 0; {name} < {pick.randrange(1, 4)}; {name}++) {{")
                inner = [*scopes, {name: "scalar"}, {}]
                self.statements(depth + 1, inner)
                self.record(depth + 1, inner)
                self.put(depth, "}")
            elif depth < 4 and what < 0.8:
                self.put(depth, f"if (({self.value(scopes)}) & 1) {{")
                inner = [*scopes, {}]
                self.statements(depth + 1, inner)
                self.record(depth + 1, inner)
                if pick.random() < 0.5:
                    self.put(depth, "} else {")
                    other: list[dict[str, str]] = [*scopes, {}]
                    self.statements(depth + 1, other)
                self.put(depth, "}")
            elif depth < 4 and what < 0.87:
                self.put(depth, "{")
                inner = [*scopes, {}]
                self.statements(depth + 1, inner)
                self.record(depth + 1, inner)
                self.put(depth, "}")
            elif self.functions:
                name, count = pick.choice(self.functions)
                given = ", ".join(self.value(scopes) for _ in range(count))
                self.put(depth, f"seed = {name}(({given.replace(', ', '), (')}), &shared);")
            self.record(depth, scopes)

    def function(self, number: int) -> None:
        pick = self.random
        count = pick.randrange(1, 8)
        name = f"f{number}"
        parameters = {f"p{index}": pick.choice(TYPES) for index in range(count)}
        always = "static inline __attribute__((always_inline)) "
        words = pick.choice(("static ", "__attribute__((noinline)) ", "static inline ", always))
        given = ", ".join(f"{kind} {parameter}" for parameter, kind in parameters.items())
        self.put(0, f"{words}long {name}({given}, struct pair *q)")
        self.put(0, "{")
        scopes = [dict.fromkeys(parameters, "scalar") | {"q": "pointer"}, {}]
        self.budget = 12
        self.statements(1, scopes)
        self.record(1, scopes)
        self.put(1, f"return {self.value(scopes)};")
        self.put(0, "}")
        self.functions.append((name, count))


def program(seed: int) -> tuple[str, Names]:
    """The text of a program, and what each of its lines records."""
    writer = _Writer(seed)
    writer.put(0, "struct pair shared = { 5, 9, { 2, 4, 6 } };")
    for number in range(writer.random.randrange(2, 5)):
        writer.function(number)
    writer.put(0, "int main(int argc, char **argv)")
    writer.put(0, "{")
    writer.budget = 10
    scopes: list[dict[str, str]] = [{"argc": "scalar"}, {}]
    writer.statements(1, scopes)
    for name, count in writer.functions:
        given = ", ".join(f"({writer.value(scopes)})" for _ in range(count))
        writer.put(1, f"seed += {name}({given}, &shared);")
        writer.record(1, scopes)
    writer.put(1, "finished();")
    writer.put(1, "return 0;")
    writer.put(0, "}")
    return "\n".join(writer.lines) + "\n", writer.names
