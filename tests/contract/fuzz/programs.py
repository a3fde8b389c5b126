"""Random programs of random clauses."""

from __future__ import annotations

from tests.contract.fuzz.expressions import Expressions
from tests.contract.fuzz.statements import Statements
from tests.contract.fuzz.vocabulary import PLACES, POINTERS, SIZES, USER_PLACES, Dice, Map, Place
from tests.targets.build import build
from tracer.errors import ProgramError, Source
from tracer.pipeline import plan as plan_of


def program(seed: int, clauses: int = 5, size: int = 7) -> str:
    """The program of a seed, of so many clauses of about so many statements; `T` stands for the path of the target."""
    dice = Dice(seed)
    values = Expressions(dice, _maps(dice))
    statements = Statements(values)
    parts = [_clause(statements, size) for _ in range(clauses)]
    parts += [_user_clause(statements, place) for place in USER_PLACES if dice.chance(50)]
    if dice.chance(30):
        parts.insert(0, f"config = {{ max_strlen = {dice.choice(SIZES)} }}")
    values.place = PLACES[0]
    sets = assignments(statements)
    if dice.chance(25):
        sets.append(f"if (arg0 == {dice.randrange(5, 40)}) {{ exit({dice.randrange(4)}); }}")
    return " ".join([*parts, f"usdt:T:depot:parcel {{ {' '.join(sets)} }}"])


def _maps(dice: Dice) -> list[Map]:
    made = []
    values = Expressions(dice)
    for number in range(dice.randrange(4, 9)):
        holds = dice.pick(
            "int64", "int64", "uint64", dice.choice(POINTERS), "s", "t", "count", "sum", "avg", "min", "max", "stats",
            "hist", "lhist",
        )
        key = tuple(
            values.tuple_kind(0) if dice.chance(12) else dice.pick("i", "i", "i", "s", "b")
            for _ in range(dice.choice((0, 1, 1, 1, 2, 3)))
        )
        if len(key) == 1 and not isinstance(key[0], str):
            key = (*key, "i")
        types = tuple(dice.pick("int64", "uint64") if kind == "i" else "" for kind in key)
        size = dice.randrange(0, 6) if holds == "hist" else dice.randrange(1, 40)
        quiet = holds not in ("s", "t", *POINTERS) and dice.chance(50)
        made.append(Map(f"@{holds[0]}{number}", key, types, holds, size, values.tuple_kind(1), quiet))
    return made


def _clause(statements: Statements, size: int) -> str:
    values, dice = statements.values, statements.dice
    values.place = dice.choice(PLACES)
    guard = values.place.guard
    if dice.chance(45):
        condition = values.boolean(3)
        guard = f"{guard} && {condition}" if guard else condition
    statements.budget = 3 * size
    body = statements.block(3, size)
    return f"{values.place.probe}{f' /{guard}/' if guard else ''} {{ {body} }}"


def _user_clause(statements: Statements, place: Place) -> str:
    """A BEGIN or END that uses the maps."""
    values, dice = statements.values, statements.dice
    values.place = place
    parts = []
    every = values.maps
    if place.probe == "BEGIN":
        # On bcc, probes cannot read what user space aggregates.
        values.maps = [each for each in every if each.quiet or each.holds in ("int64", "uint64", "s", "t", *POINTERS)]
    for _ in range(dice.randrange(1, 8) if values.maps else 0):
        each = dice.choice(values.maps)
        keyed = f"[{values.key(each, 1)}]" if each.key else ""
        match dice.randrange(9):
            case 0:
                parts.append(f"delete({each.name}{keyed});")
            case 1:
                parts.append(f"{dice.pick('clear', 'zero')}({each.name});")
            case 2:
                parts.append(f"print({each.name}{dice.pick('', ', 2', ', 3, 2')});")
            case 3:
                parts.append(f"print(len({each.name}));")
            case 4 if each.key and each.holds not in ("hist", "lhist", "stats"):
                parts.append(f"for ($kv : {each.name}) {{ print($kv); }}")
            case 5 if each.key:
                parts.append(f"print(has_key({each.name}, {keyed[1:-1]}));")
            case _:
                parts.append(statements.update())
    values.maps = every
    return f"{place.probe} {{ {' '.join(parts)} }}"


def assignments(statements: Statements) -> list[str]:
    """A statement for every map: one that is assigned nowhere cannot be read."""
    values = statements.values
    every = values.maps
    sets = []
    for each in every:
        values.maps = [each]
        statement = statements.update()
        while statement.startswith("delete"):
            statement = statements.update()
        sets.append(statement)
    values.maps = every
    return sets


def valid_program(seed: int, clauses: int) -> str:
    """The first program from a seed on that passes the analysis."""
    for attempt in range(50):
        text = program(100 * seed + attempt, clauses)
        try:
            plan_of(Source(located(text)))
        except ProgramError:
            continue
        return text
    raise AssertionError("the generator makes no valid programs")


def located(text: str) -> str:
    """A program with the target's path in place."""
    return text.replace(":T:", f":{build('depot')}:")
