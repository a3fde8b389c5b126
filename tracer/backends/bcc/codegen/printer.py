"""Steps → C: a table from step to C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.backends.bcc.codegen import records
from tracer.backends.bcc.codegen.c import C, binary, c_type, unary
from tracer.backends.bcc.codegen.callbacks import callback, given_to, taken_from
from tracer.backends.bcc.codegen.fetches import fetch
from tracer.backends.bcc.codegen.function import ROUNDS, CFunction
from tracer.backends.bcc.codegen.maps import steps as maps
from tracer.backends.bcc.codegen.placement import scalar
from tracer.backends.bcc.codegen.wide import clear, computed, copy_words, into, zero
from tracer.backends.bcc.events.records import Record
from tracer.lang.aggregations.registry import kept_of
from tracer.lang.types import StringType, TupleType
from tracer.steps import model
from tracer.steps.model import Block
from tracer.steps.rounds import NO_ROUNDS
from tracer.steps.values import Const, Name, Value
from tracer.steps.walk import parts, walk

VERIFIABLE_ROUNDS = 1024
"""Rounds of one loop at most where the verifier goes through each. It takes a million instructions in all."""
_MOST_ROUNDS = 1 << 23
"""Rounds of one loop at most where the kernel runs them (`BPF_MAX_LOOPS`)."""


def run(function: CFunction, block: Block) -> None:
    """Writes a list of steps."""
    for step in block:
        _STEPS[type(step)](function, step)


def declare_slots(function: CFunction, block: Block) -> None:
    """The scratch variables of some steps, 0 or empty at each hit; those that are there already are left alone."""
    used = {step.slot for step in walk(block) if isinstance(step, (model.GetSlot, model.SetSlot))}
    for slot in sorted(used - set(function.slots)):
        kind = function.kinds[slot]
        if scalar(kind):
            function.declare_changing(f"v{slot}", c_type(kind))
            function.slots[slot] = C(f"v{slot}", c_type(kind))
        else:
            held = function.slots[slot] = function.buffer_for(kind, "held")
            (clear if isinstance(kind, StringType) else zero)(function, held)


def _let(function: CFunction, step: model.Let) -> None:
    if scalar(step.name.type):
        function.declare(step.name.id, step.name.type, computed(function, step.value))
    else:
        into(function, step.value, function.home(step.name), step.name.type)


def _fetch(function: CFunction, step: model.Fetch) -> None:
    if not step.unused or step.name.id in function.placement.used:
        fetch(function, step)


def _random(function: CFunction, step: model.Random) -> None:
    function.declare(step.name.id, step.name.type, C("random_number()"))


def _signal(function: CFunction, step: model.Signal) -> None:
    helper = "signal_thread" if step.thread else "signal_process"
    number = function.once("signal", computed(function, step.number))
    function.declare(step.name.id, step.name.type, C(f"{helper}({number})", "s64"))


def _get_slot(function: CFunction, step: model.GetSlot) -> None:
    held = function.slots[step.slot]
    if isinstance(held, C):
        function.declare(step.name.id, step.name.type, held)
    elif step.name.id in function.placement.aliases:
        function.buffers[step.name.id] = held
    else:
        copy_words(function, held, function.home(step.name))


def _set_slot(function: CFunction, step: model.SetSlot) -> None:
    held = function.slots[step.slot]
    if isinstance(held, C):
        function.line(f"{held} = {computed(function, step.value)};")
        return
    kind = function.kinds[step.slot]
    aliases = {part.id for part in parts(step.value) if isinstance(part, Name)} & function.placement.aliases.keys()
    if isinstance(kind, TupleType) and any(function.placement.aliases[id] == step.slot for id in aliases):
        # Through another buffer: the tuple is made of the variable itself.
        other = function.buffer_for(kind)
        into(function, step.value, other, kind)
        copy_words(function, other, held)
    else:
        into(function, step.value, held, kind)


def _moment(function: CFunction, step: model.Moment) -> None:
    mark = f"&control->mark[{function.shared.marks[step.map]}]"
    function.declare(step.name.id, step.name.type, f"raise_mark({mark}, {'ZEROED' if step.zero else 'CLEARED'})")
    if _in_user_space(function, step.map):
        records.emptied(function, step)


def _empty(function: CFunction, step: model.Empty) -> None:
    if not _in_user_space(function, step.map):
        number = records.number_of(function, Record("zero" if step.zero else "clear", map=step.map))
        function.line(f"emit_raised({number}, {function.numbers[step.moment.id]}, control->wakeup);")


def _in_user_space(function: CFunction, map: str) -> bool:
    """Whether user space has emptied a map as soon as it knew of the moment."""
    return kept_of(function.shared.program.maps[map]).in_user_space


def _exit(function: CFunction, step: model.Exit) -> None:
    if isinstance(step.code, Const):
        function.line(f"control->exiting = {int(step.code.value) + 1:d}ULL;")
        records.control(function, Record("exit", int(step.code.value)))
    else:
        code = function.temporary("code", computed(function, step.code))
        function.line(f"control->exiting = {code} + 1;")
        records.exited(function, code)
    function.leave()


def _require(function: CFunction, step: model.Require) -> None:
    function.leave(unary("!", computed(function, step.condition), "bool"))


def _within(function: CFunction, step: model.Within) -> None:
    function.leave_unreadable(unary("!", computed(function, step.condition), "bool"))


def _if(function: CFunction, step: model.If) -> None:
    result = step.result
    if result is not None and scalar(result.type):
        function.declare(result.id, result.type, "")
    elif result is not None:
        function.home(result)
    values = step.results or (None, None)
    with function.block(f"if ({computed(function, step.condition)})"):
        run(function, step.then)
        _give(function, result, values[0])
    if step.otherwise or result is not None:
        with function.block("else"):
            run(function, step.otherwise)
            _give(function, result, values[1])


def _give(function: CFunction, result: Name | None, value: Value | None) -> None:
    if result is None or value is None:
        return
    if scalar(result.type):
        function.line(f"{function.numbers[result.id]} = {computed(function, value)};")
    else:
        into(function, value, function.buffers[result.id], result.type)


def _while(function: CFunction, step: model.While) -> None:
    if function.shared.repeats:

        def head(rounds: str) -> None:
            run(function, step.head)
            _end_unless(function, computed(function, step.condition))

        _repeated(function, head, step.body)
        return
    rounds = function.name("round")
    function.line("#pragma clang loop unroll(disable)")
    with function.loop(f"for (u32 {rounds} = 0;; {rounds}++)"):
        run(function, step.head)
        function.line(f"if ({unary('!', computed(function, step.condition), 'bool')})")
        function.line("\tbreak;")
        _verifiable(function, rounds)
        run(function, step.body)


def _range(function: CFunction, step: model.Range) -> None:
    if function.shared.repeats:
        start = function.temporary("start", computed(function, step.start), c_type(step.name.type))
        stop = function.temporary("stop", computed(function, step.stop), c_type(step.stop.type))

        def head(rounds: str) -> None:
            counter = function.declare(step.name.id, step.name.type, f"{start} + {rounds}")
            _end_unless(function, binary("<", counter, stop, "bool"))

        _repeated(function, head, step.body)
        return
    counter = function.declare(step.name.id, step.name.type, computed(function, step.start))
    stop = function.once("stop", computed(function, step.stop), c_type(step.stop.type))
    function.line("#pragma clang loop unroll(disable)")
    if not (step.body and isinstance(step.body[0], model.Round)):
        with function.loop(f"for (; {counter} < {stop}; {counter}++)"):
            run(function, step.body)
        return
    rounds = function.name("round")
    with function.loop(f"for (u32 {rounds} = 0; {counter} < {stop}; {rounds}++, {counter}++)"):
        _verifiable(function, rounds)
        run(function, step.body)


def _repeated(function: CFunction, head: Callable[[str], None], body: Block) -> None:
    """A loop whose rounds are a function that the kernel calls. `head` tests whether there is another round."""

    def round() -> None:
        head("each->round")
        run(function, body)

    called = callback(function, round, False)
    given = given_to(function, called)
    function.line(f"repeat({_MOST_ROUNDS}, EACH({called.name}, {called.number}), &{given}, 0);")
    taken_from(function, called, given)


def _end_unless(function: CFunction, condition: C) -> None:
    with function.block(f"if ({unary('!', condition, 'bool')})"):
        function.end_round("break")


def _round(function: CFunction, step: model.Round) -> None:
    with function.block(f"if ({ROUNDS} > {step.limit - step.rounds})"):
        # Counted when the clause ends: to count here, in loops inside each other, is too much for the verifier.
        function.line(f"{ROUNDS} = {NO_ROUNDS};")
        function.end_round("break")
    function.line(f"{ROUNDS} += {step.rounds};")


def _verifiable(function: CFunction, rounds: str) -> None:
    with function.block(f"if ({rounds} >= {VERIFIABLE_ROUNDS})"):
        function.line("lose(LOST_LOOPS);")
        function.line("break;")


_STEPS: dict[type, Callable[[CFunction, Any], None]] = {
    model.Let: _let,
    model.Fetch: _fetch,
    model.Random: _random,
    model.Signal: _signal,
    model.GetSlot: _get_slot,
    model.SetSlot: _set_slot,
    model.MapGet: maps.get,
    model.MapHas: maps.has,
    model.MapLength: maps.length,
    model.MapSet: maps.assign,
    model.MapAdd: maps.add,
    model.Update: maps.update,
    model.Sample: records.send,
    model.MapDelete: maps.delete,
    model.Moment: _moment,
    model.Empty: _empty,
    model.PrintMap: records.print_map,
    model.Printf: records.send,
    model.PrintValue: records.send,
    model.Time: records.time,
    model.Exit: _exit,
    model.Require: _require,
    model.Within: _within,
    model.If: _if,
    model.While: _while,
    model.Range: _range,
    model.Each: lambda function, step: maps.for_each(function, step, lambda: run(function, step.body)),
    model.Round: _round,
    model.Break: lambda function, _: function.end_round("break"),
    model.Continue: lambda function, _: function.end_round("continue"),
    model.DividedByZero: lambda function, _: function.line("lose(LOST_DIVISIONS);"),
    model.Leave: lambda function, _: function.leave(),
}
