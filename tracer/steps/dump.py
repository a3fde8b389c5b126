"""Steps as text, for `-d steps` and tests: one line a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracer.lang.types import operations
from tracer.steps import model, values
from tracer.steps.model import Block, Step
from tracer.steps.values import Const, Name, Op, SiteText, Value
from tracer.steps.walk import walk


def dump(steps: model.Steps) -> Iterator[str]:
    """The lines of a clause."""
    read = {step.slot for step in walk(steps.body) if isinstance(step, model.GetSlot)}
    yield from (f"slot{number}: {steps.slots[number]}" for number in sorted(read))
    yield from _block(steps.body, "")


def text(value: Value) -> str:
    """A value as an operand."""
    match value:
        case Name(id=number):
            return f"t{number}"
        case SiteText(name=name):
            return name
        case Const(value=bytes() as constant):
            return '"' + constant.decode("ascii", "backslashreplace").replace('"', '\\"') + '"'
        case Const(value=constant):
            return str(constant).lower()
        case Op(op=op, args=(left, right)) if op.sign:
            return f"({text(left)} {op.sign} {text(right)})"
        case Op(op=op, args=(operand,)) if op.sign:
            return f"{op.sign}{text(operand)}"
        case Op(op=operations.SELECT, args=(condition, then, otherwise)):
            return f"({text(condition)} ? {text(then)} : {text(otherwise)})"
        case Op(op=operations.WRAP | operations.INT | operations.AS, type=type, args=args):
            return f"{type}{_list(args)}"
        case Op(op=operations.TUPLE, args=args):
            return _list(args)
        case Op(op=op, args=args):
            return f"{op.name}{_list(args)}"


def _list(items: tuple[Value, ...]) -> str:
    return f"({', '.join(map(text, items))})"


def _entry(step: Any) -> str:
    return str(step.map) + (f"[{', '.join(map(text, step.key))}]" if step.key else "")


def _block(block: Block, indent: str) -> Iterator[str]:
    inner = indent + "  "
    for step in block:
        match step:
            case model.If(condition=condition, then=then, otherwise=otherwise, result=result, results=results):
                yield f"{indent}if {text(condition)}"
                yield from _block(then, inner)
                if result is not None and results is not None:
                    yield f"{inner}{text(result)} = {text(results[0])}"
                if otherwise or result is not None:
                    yield f"{indent}else"
                    yield from _block(otherwise, inner)
                if result is not None and results is not None:
                    yield f"{inner}{text(result)} = {text(results[1])}"
            case model.While(head=head, condition=condition, body=body):
                yield f"{indent}loop"
                yield from _block(head, inner)
                yield f"{inner}break unless {text(condition)}"
                yield from _block(body, inner)
            case model.Range(name=name, start=start, stop=stop, body=body):
                yield f"{indent}for {text(name)} from {text(start)} below {text(stop)}"
                yield from _block(body, inner)
            case model.Each(name=name, map=map, body=body):
                yield f"{indent}for {text(name)} in {map}"
                yield from _block(body, inner)
            case model.Attempt(body=body):
                yield f"{indent}attempt"
                yield from _block(body, inner)
            case _:
                yield indent + _LINES[type(step)](step)


def _fetch(step: model.Fetch) -> str:
    source, place = step.source, "" if step.address is None else text(step.address)
    match source:
        case values.Argument(index=index):
            read = f"arg{index}"
        case values.ReturnValue():
            read = "retval"
        case values.Register(name=name):
            read = f"%{name}"
        case values.BuiltIn(name=name):
            read = name
        case values.UserStack(frames=frames, interpreted=interpreted):
            read = f"ustack({'python, ' * interpreted}{frames})"
        case values.KernelStack(frames=frames):
            read = f"kstack({frames})"
        case values.Memory(type=type):
            read = f"*({type} *){place}"
        case values.Bytes(size=size):
            read = f"{size} bytes at {place}"
        case values.Text(size=size, sized=sized, measured=measured):
            size_text = f", {size}" if sized else f", {text(step.length)}" if measured and step.length else ""
            read = f"str({place}{size_text})"
            read += "" if sized or step.once is None else f", cut counted once ({step.once})"
    if isinstance(source, values.InMemory) and source.base is None:
        read += ", computed"
    return f"{text(step.name)} = {read}" + (", as a base" if step.unused else "")


def _add(step: model.MapAdd) -> str:
    return ("" if step.before is None else f"{text(step.before)} = ") + f"add {text(step.value)} to {_entry(step)}"


def _print(step: model.PrintMap) -> str:
    limits = f", {step.top}, {step.div}" if step.top or step.div else ""
    return f"print {step.map}{limits}" + ("" if step.moment is None else f" until {text(step.moment)}")


_LINES: dict[type[Step], Callable[[Any], str]] = {
    model.Let: lambda step: f"{text(step.name)} = {text(step.value)}",
    model.Fetch: _fetch,
    model.Random: lambda step: f"{text(step.name)} = random",
    model.Signal: lambda step: f"{text(step.name)} = signal {text(step.number)}" + (" to the thread" * step.thread),
    model.GetSlot: lambda step: f"{text(step.name)} = slot{step.slot}",
    model.SetSlot: lambda step: f"slot{step.slot} = {text(step.value)}",
    model.MapGet: lambda step: f"{text(step.name)} = {_entry(step)}",
    model.MapHas: lambda step: f"{text(step.name)} = has {_entry(step)}",
    model.MapLength: lambda step: f"{text(step.name)} = length {step.map}",
    model.MapSet: lambda step: f"{_entry(step)} = {text(step.value)}",
    model.MapAdd: _add,
    model.Update: lambda step: f"update {_entry(step)}" + ("" if step.value is None else f" with {text(step.value)}"),
    model.Sample: lambda step: f"update {_entry(step)} with {text(step.value)} at {text(step.when)}",
    model.MapDelete: lambda step: ("" if step.result is None else f"{text(step.result)} = ") + f"delete {_entry(step)}",
    model.Moment: lambda step: f"{text(step.name)} = moment to {'zero' if step.zero else 'clear'} {step.map}",
    model.Empty: lambda step: f"{'zero' if step.zero else 'clear'} {step.map} as of {text(step.moment)}",
    model.PrintMap: _print,
    model.Printf: lambda step: f"printf {step.format}{_list(step.args)}",
    model.PrintValue: lambda step: f"print {text(step.value)}",
    model.Time: lambda step: f"time {step.format}",
    model.Exit: lambda step: f"exit {text(step.code)}",
    model.Require: lambda step: f"leave unless {text(step.condition)}",
    model.Within: lambda step: f"unreadable unless {text(step.condition)}",
    model.Round: lambda step: f"take {step.rounds} of {step.limit} rounds",
    model.Break: lambda step: "break",
    model.Continue: lambda step: "continue",
    model.DividedByZero: lambda step: "count a division by zero",
    model.Leave: lambda step: "leave",
}
