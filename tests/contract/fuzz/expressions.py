"""Random expressions, made by type: what is assigned is cast to the type its target has, so that nearly every program
passes the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.contract.fuzz.vocabulary import ARITHMETIC, COMPARISONS, INTS, NUMBERS, PLACES, TEXTS, Dice, Kind, Map, Place


@dataclass
class Expressions:
    """Makes expressions for a probe. `scopes` are the variables that it has so far, each with its kind and its type,
    which is "loop" where it must not be assigned.
    """

    dice: Dice
    maps: list[Map] = field(default_factory=list)
    scopes: list[list[tuple[str, Kind, str]]] = field(default_factory=list)
    place: Place = PLACES[0]

    def variables(self, kind: Kind) -> list[str]:
        return [name for scope in self.scopes for name, other, _ in scope if other == kind]

    def integer(self, depth: int) -> str:
        """Any integer."""
        if depth <= 0 or self.dice.chance(12):
            return self.leaf()
        deeper = depth - 1
        match self.dice.randrange(20):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                return self.arithmetic(deeper)
            case 7 | 8 | 9:
                return f"({self.dice.pick(*INTS)})({self.integer(deeper)})"
            case 10:
                return f"({self.dice.pick('-', '~')}{self.integer(deeper)})"
            case 11 | 12:
                return f"({self.boolean(deeper)} ? {self.integer(deeper)} : {self.integer(deeper)})"
            case 13:
                return f"(int64)({self.boolean(deeper)})"
            case 14:
                return self.step() or self.leaf()
            case 15:
                return self.map_value(deeper, "i") or self.leaf()
            case 16:
                length = self.dice.choice((0, 1, 3, 7, 8, 9, 15, 63))
                return self.dice.pick(
                    f"strlen({self.text(deeper)})", f"strncmp({self.text(deeper)}, {self.text(deeper)}, {length})"
                )
            case 17 if self.readable():
                return f"len({self.dice.choice(self.readable()).name})"
            case 18 if self.place.text and self.place.bytes:
                kind = self.dice.pick("int8", "uint8", "int16", "uint16", "int32", "uint32")
                return f"*({kind} *)({self.place.text} + {self.dice.randrange(2)})"
            case _:
                return self.arithmetic(deeper)

    def arithmetic(self, depth: int) -> str:
        op = self.dice.choice(ARITHMETIC)
        left, right = self.integer(depth), self.integer(depth)
        if op in ("/", "%") and self.dice.chance(60):
            right = f"({self.leaf()} - {self.dice.choice((0, 1, 2, 3, 7))})"
        if op in ("<<", ">>") and self.dice.chance(60):
            right = f"(({right}) % {self.dice.choice((8, 31, 64, 70))})"
        return f"({left} {op} {right})"

    def leaf(self) -> str:
        found = self.variables("i")
        if found and self.dice.chance(40):
            return self.dice.choice(found)
        if self.dice.chance(55):
            return self.dice.choice(self.place.ints)
        number = self.dice.choice(NUMBERS)
        return f"{number}" if number < 2**63 or self.dice.chance(50) else f"(uint64){number}"

    def step(self) -> str | None:
        """`$x++` and its kin, `@x[k]++`."""
        op = self.dice.pick("++", "--")
        found = [name for scope in self.scopes for name, kind, type in scope if kind == "i" and type != "loop"]
        maps = [each for each in self.readable() if each.holds in ("int64", "uint64")]
        if maps and (self.dice.chance(40) or not found):
            target = self.reference(self.dice.choice(maps), 1)
        elif found:
            target = self.dice.choice(found)
        else:
            return None
        return f"{target}{op}" if self.dice.chance(50) else f"{op}{target}"

    def boolean(self, depth: int) -> str:
        """A condition."""
        if depth <= 0:
            return f"({self.leaf()} {self.dice.choice(COMPARISONS)} {self.leaf()})"
        deeper = depth - 1
        match self.dice.randrange(14):
            case 0 | 1 | 2 | 3:
                return f"({self.integer(deeper)} {self.dice.choice(COMPARISONS)} {self.integer(deeper)})"
            case 4 | 5 | 6:
                return f"({self.boolean(deeper)} {self.dice.pick('&&', '||')} {self.boolean(deeper)})"
            case 7:
                return f"(!{self.boolean(deeper)})"
            case 8:
                return f"(bool)({self.integer(deeper)})"
            case 9:
                return f"({self.text(deeper)} {self.dice.pick('==', '!=')} {self.text(deeper)})"
            case 10:
                return f"strcontains({self.text(deeper)}, {self.text(0)})"
            case 11 if self.readable():
                each = self.dice.choice(self.readable())
                if each.key:
                    return f"has_key({each.name}, {self.key(each, deeper)})"
                return f"({self.integer(deeper)} && {self.boolean(deeper)})"
            case 12:
                kind = self.tuple_kind(1)
                return f"({self.of(kind, deeper)} {self.dice.pick('==', '!=')} {self.of(kind, deeper)})"
            case _:
                found = self.variables("b")
                return self.dice.choice(found) if found else f"({self.leaf()} && {self.leaf()})"

    def text(self, depth: int) -> str:
        """A string of any size."""
        found = self.variables("s")
        match self.dice.randrange(9):
            case 0 | 1 | 2 if self.place.text:
                offset = self.dice.pick("", "", " + 1") if self.place.bytes else ""
                size = self.dice.choice(("", "", 0, 1, 2, 8, 9, 16, 33, 64, 65, 100, 128))
                if self.dice.chance(30):
                    size = self.dice.pick(f"({self.leaf()}) % 20", self.leaf(), self.integer(max(depth - 1, 0)))
                return f"str({self.place.text}{offset}{f', {size}' if size else ''})"
            case 3 | 4 if found:
                return self.dice.choice(found)
            case 5 if depth > 0:
                return f"({self.boolean(depth - 1)} ? {self.text(depth - 1)} : {self.text(depth - 1)})"
            case 6 if depth > 0:
                return self.map_value(depth, "s") or '"none"'
            case 7 if not self.place.user:
                # The replay does not tell the functions apart into which `move` was inlined.
                return self.dice.pick("comm", "probe", "probe" if "move" in self.place.probe else "func")
            case _:
                return f'"{self.dice.choice(TEXTS)}"'

    def tuple_kind(self, depth: int) -> Kind:
        kinds: list[Kind] = []
        for _ in range(self.dice.randrange(2, 4)):
            nested = depth > 0 and self.dice.chance(20)
            kinds.append(self.tuple_kind(depth - 1) if nested else self.dice.pick("i", "i", "s", "b"))
        return tuple(kinds)

    def of(self, kind: Kind, depth: int) -> str:
        """An expression of a kind; integers in int64, so that tuples of one kind agree."""
        if kind == "i":
            return f"(int64)({self.integer(depth)})"
        if kind == "s":
            return self.text(depth)
        if kind == "b":
            return f"(bool)({self.boolean(depth)})"
        found = self.variables(kind)
        if found and self.dice.chance(50):
            return self.dice.choice(found)
        if self.dice.chance(15):
            return f"({self.boolean(depth - 1)} ? {self.of(kind, depth - 1)} : {self.of(kind, depth - 1)})"
        found_map = self.map_value(depth, kind) if self.dice.chance(20) else None
        return found_map or f"({', '.join(self.of(item, depth - 1) for item in kind)})"

    # --- maps

    def readable(self) -> list[Map]:
        """The maps that may be read, or assigned, here."""
        return [each for each in self.maps if self.place.user or not each.quiet]

    def bounded(self, depth: int) -> str:
        """An integer of few values, for the eyes of `backends.bcc.maps.dense` or not."""
        small = self.dice.choice((1, 2, 3, 5, 7, 15, 100))
        if depth <= 0:
            return self.dice.pick(f"{small}", f"(-{small})", f"({self.leaf()} & {small})", f"({self.leaf()} % {small})")
        match self.dice.randrange(11):
            case 0 | 1:
                return f"(({self.integer(1)}) & {small})"
            case 2 | 3:
                return f"(({self.integer(1)}) % {small})"
            case 4:
                return f"(({self.bounded(depth - 1)}) {self.dice.pick(*ARITHMETIC)} ({self.bounded(depth - 1)}))"
            case 5:
                return f"(({self.bounded(depth - 1)}) {self.dice.pick('/', '>>', '%')} {small})"
            case 6:
                return f"(({self.bounded(depth - 1)}) {self.dice.pick('+', '-', '*', '|', '^', '&')} {small})"
            case 7:
                return f"({self.boolean(1)} ? {self.bounded(depth - 1)} : {self.bounded(depth - 1)})"
            case 8:
                return f"({self.dice.pick(*INTS)})({self.bounded(depth - 1)})"
            case 9:
                return f"(({self.dice.pick('int8', 'uint8')})({self.leaf()}))"
            case _:
                return f"{self.dice.choice(NUMBERS[:12])}"

    def choice_of_texts(self, depth: int) -> str:
        """One of a few texts that stand in the program."""
        if depth > 0 and self.dice.chance(40):
            then, otherwise = self.choice_of_texts(depth - 1), self.choice_of_texts(depth - 1)
            return f"({self.boolean(1)} ? {then} : {otherwise})"
        return f'"{self.dice.choice(TEXTS)}"'

    def key(self, each: Map, depth: int) -> str:
        parts = []
        for kind, type in zip(each.key, each.key_types, strict=True):
            if each.quiet and kind == "i" and self.dice.chance(97):
                parts.append(f"({type})({self.bounded(2)})")
            elif each.quiet and kind == "s" and each.size % 3:
                parts.append(self.choice_of_texts(2))
            elif kind == "i":
                small = f"({self.integer(depth)}) % {self.dice.choice((2, 3, 5, 10))}"
                parts.append(f"({type})({small})" if self.dice.chance(80) else f"({type})({self.integer(depth)})")
            else:
                parts.append(self.of(kind, depth))
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def reference(self, each: Map, depth: int) -> str:
        return f"{each.name}[{self.key(each, depth)}]" if each.key else each.name

    def map_value(self, depth: int, kind: Kind) -> str | None:
        holds = {"i": ("int64", "uint64", "count", "sum", "min", "max", "avg", "stats"), "s": ("s",)}
        maps = [
            each
            for each in self.readable()
            if (each.holds in holds[kind] if isinstance(kind, str) else each.holds == "t" and each.tuple == kind)
        ]
        return self.reference(self.dice.choice(maps), depth - 1) if maps else None
