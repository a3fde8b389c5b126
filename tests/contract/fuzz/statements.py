"""Random statements around random expressions."""

from __future__ import annotations

from tests.contract.fuzz.expressions import Expressions
from tests.contract.fuzz.vocabulary import ARITHMETIC, INTS, POINTERS, Kind


class Statements:
    """Makes statements for the probe that `values` has."""

    def __init__(self, values: Expressions) -> None:
        self.values = values
        self.dice = values.dice
        self.names = 0
        self.loops = 0
        self.budget = 0

    def update(self) -> str:
        """A statement that changes a map."""
        each = self.dice.choice(self.values.maps)
        target = self.values.reference(each, 2)
        if each.key and self.dice.chance(6) and each in self.values.readable():
            return f"delete({each.name}, {self.values.key(each, 2)});"
        match each.holds:
            case "int64" | "uint64" if each not in self.values.readable():
                if self.dice.chance(60):
                    return f"{target}{self.dice.pick('++', '++', '--')};"
                value = f"({each.holds})({self.values.integer(3)})"
                return self.changed(self.values.reference(each, 0), self.dice.pick("+", "-"), value)
            case "int64" | "uint64":
                match self.dice.randrange(4):
                    case 0:
                        return f"{target}{self.dice.pick('++', '--')};"
                    case 1:
                        value = f"({each.holds})({self.values.leaf()} + {self.values.integer(2)})"
                        return self.changed(self.values.reference(each, 0), self.dice.choice(ARITHMETIC), value)
                    case _:
                        return f"{target} = ({each.holds})({self.values.integer(3)});"
            case pointer if pointer in POINTERS and self.dice.chance(60):
                if self.dice.chance(30):
                    return f"{target}{self.dice.pick('++', '--')};"
                value = f"({self.dice.choice(INTS)})({self.values.integer(2)})"
                return self.changed(self.values.reference(each, 0), self.dice.pick("+", "-"), value)
            case pointer if pointer in POINTERS:
                return f"{target} = ({pointer})({self.values.integer(3)});"
            case "s":
                return f"{target} = {self.values.text(2)};"
            case "t":
                return f"{target} = {self.values.of(each.tuple, 2)};"
            case "count":
                return f"{target} = count();"
            case "hist":
                return f"{target} = hist((int64)({self.values.integer(3)}), {each.size});"
            case "lhist":
                value = f"(int64)({self.values.integer(3)})"
                return f"{target} = lhist({value}, {-each.size}, {each.size * 3}, {each.size});"
            case function:
                sign = "int64" if each.size % 2 else "uint64"
                return f"{target} = {function}(({sign})({self.values.integer(3)}));"

    def changed(self, target: str, op: str, value: str) -> str:
        """A compound assignment."""
        return f"{target} {op}= {value};"

    def block(self, depth: int, count: int) -> str:
        self.values.scopes.append([])
        text = " ".join(self.statement(depth) for _ in range(count))
        self.values.scopes.pop()
        return text

    def statement(self, depth: int) -> str:
        self.budget -= 1
        match self.dice.randrange(24):
            case 0 | 1 | 2 | 3:
                return self.declare()
            case 4 | 5 | 6:
                return self.set_variable()
            case 7 if depth > 0 and self.budget > 0:
                return f"if ({self.values.boolean(3)}) {{ {self.block(depth - 1, self.dice.randrange(1, 4))} }}"
            case 8 if depth > 0 and self.budget > 0:
                then = self.block(depth - 1, self.dice.randrange(1, 3))
                return f"if ({self.values.boolean(3)}) {{ {then} }} else {{ {self.block(depth - 1, 2)} }}"
            case 9 if depth > 0 and self.budget > 0 and self.loops < 2:
                return self.loop(depth)
            case 10 if depth > 0 and self.budget > 0:
                loops, self.loops = self.loops, 9
                text = f"unroll({self.dice.randrange(1, 4)}) {{ {self.block(0, 2)} }}"
                self.loops = loops
                return text
            case 11 | 12 | 13 if self.loops == 0:
                return self.show()
            case 14:
                step = self.values.step()
                return f"{step};" if step else self.update()
            case 15 if self.dice.chance(10):
                return "return;"
            case 16 if self.dice.chance(60) and self.loops in (1, 2):
                return f"if ({self.values.boolean(2)}) {{ {self.dice.pick('break', 'continue')}; }}"
            case _:
                return self.update()

    def name(self) -> str:
        self.names += 1
        return f"$v{self.names}"

    def declare(self) -> str:
        name = self.name()
        match self.dice.randrange(9):
            case 8:
                text = f"{name} = ({self.dice.choice(POINTERS)})({self.values.integer(2)});"
                self.values.scopes[-1].append((name, "p", ""))
            case 0 | 1:
                text = f"{name} = {self.values.text(2)};"
                self.values.scopes[-1].append((name, "s", ""))
            case 2:
                kind = self.values.tuple_kind(1)
                text = f"{name} = {self.values.of(kind, 3)};"
                self.values.scopes[-1].append((name, kind, ""))
                self.items(name, kind)
            case 3:
                text = f"{name} = {self.values.of('b', 3)};"
                self.values.scopes[-1].append((name, "b", ""))
            case _:
                type = self.dice.pick(*INTS, "int64", "uint64")
                text = f"{name} = ({type})({self.values.integer(3)});"
                self.values.scopes[-1].append((name, "i", type))
        return text

    def items(self, name: str, kind: Kind) -> None:
        for index, item in enumerate(kind):
            if isinstance(item, str):
                self.values.scopes[-1].append((f"{name}.{index}", item, "loop"))
            else:
                self.items(f"{name}.{index}", item)

    def set_variable(self) -> str:
        found = [each for scope in self.values.scopes for each in scope if each[2] != "loop"]
        if not found:
            return self.declare()
        name, kind, type = self.dice.choice(found)
        if kind == "i":
            if self.dice.chance(30):
                op = self.dice.choice(ARITHMETIC)
                return self.changed(name, op, f"({type})({self.values.leaf()} * {self.values.integer(2)})")
            return f"{name} = ({type})({self.values.integer(3)});"
        if kind == "p":
            return self.changed(name, self.dice.pick("+", "-"), f"(int64)({self.values.integer(2)})")
        return f"{name} = {self.values.of(kind, 3)};"

    def loop(self, depth: int) -> str:
        name = self.name()
        self.loops += 1
        self.values.scopes.append([(name, "i", "loop")])
        body = self.block(min(depth - 1, 1), self.dice.randrange(1, 4))
        self.values.scopes.pop()
        self.loops -= 1
        count = self.dice.randrange(0, 6)
        if self.dice.chance(50):
            start = self.dice.pick("0", "1", "-2", "(int64)(int8)arg0" if "arg0" in self.values.place.ints else "2")
            return f"for ({name} : {start}..{start} + {count}) {{ {body} }}"
        return f"{name} = (int64)0; while ({name} < {count}) {{ {name}++; {body} }}"

    def show(self) -> str:
        """print or printf."""
        match self.dice.randrange(5):
            case 0:
                # Not print(@x): that would be a snapshot, of some later moment.
                return f"print((int64)({self.values.integer(3)}));"
            case 1:
                return f"print((1, {self.values.of(self.values.tuple_kind(1), 3)}));"
            case 2:
                return f"print((2, {self.values.text(2)}));"
            case _:
                parts, printed = [], []
                for _ in range(self.dice.randrange(1, 6)):
                    flags = self.dice.pick("", "", "-", "0", "+", " ", "#")
                    width = self.dice.pick("", "", "1", "5", "20")
                    if self.dice.chance(35):
                        parts.append(f"%{flags if flags == '-' else ''}{width}{self.dice.pick('', '', '.3', '.0')}s")
                        printed.append(self.values.text(2) if self.dice.chance(80) else self.values.boolean(2))
                    elif self.dice.chance(8):
                        parts.append("%%")
                    else:
                        length = self.dice.pick("", "", "l", "ll", "h", "hh")
                        letter = self.dice.pick("d", "d", "u", "x", "X", "o", "i", "p")
                        if letter == "p":
                            length = ""
                        parts.append(f"%{flags}{width}{length}{letter}")
                        printed.append(self.values.integer(3) if self.dice.chance(85) else self.values.boolean(2))
                return f'printf("{" ".join(parts)}\\n"{"".join(f", {value}" for value in printed)});'
