"""32-bit programs on x86-64: what `narrow.c` passes, returns and calls, as it says itself, on both backends."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.harness.cli import Done, tracer
from tests.live.answers import maps
from tests.targets.build import build

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("clean"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="i386 runs on x86-64"),
]

ROUNDS = range(5)
ID = 0x123456789ABCDEF


@pytest.fixture
def narrow() -> Path:
    return build("narrow")


def run(backend: str, path: Path, text: str, *options: str) -> Done:
    return tracer("-q", "--backend", backend, *options, "-e", text.replace("T:", f"{path}:"), "-c", str(path))


def lines(done: Done) -> list[str]:
    assert done.err == ""
    return [line for line in done.text.splitlines() if line]


ARGUMENTS = {
    "add": [f"{{ .a = {-i}, .b = {3000000000 + i} }}" for i in ROUNDS],
    "wide": [f"{{ .before = {i}, .whole = {-(1 << 40) - i}, .small = -7 }}" for i in ROUNDS],
    "half": [f"{{ .d = 1.5, .f = 2.25, .after = {i} }}" for i in ROUNDS],
    "swapped": [f"{{ .a = {i}, .b = {2 * i} }}" for i in ROUNDS],
    "by_value": [f"{{ .p = {{ .a = {i}, .b = {10 * i} }}, .c = 99, .after = 7 }}" for i in ROUNDS],
}


@pytest.mark.parametrize("built", ["narrow", "narrow-O0"])
def test_parameters_are_read_where_the_compiler_passes_them(backend: str, built: str) -> None:
    """64 bits, floats and structs on the stack; behind the address for a struct that is returned; what is narrow."""
    text = " ".join(f"uprobe:T:{name} {{ print(args); }}" for name in ARGUMENTS)
    done = run(backend, build(built), text)
    assert lines(done) == [line for each in zip(*ARGUMENTS.values(), strict=True) for line in each]


def test_parameters_in_registers_are_read_there(backend: str, narrow: Path) -> None:
    """By regparm, and since only its own file calls a function."""
    text = (
        "uprobe:T:in_registers { print((args.a, args.b, args.c, args.d, arg0, arg1, arg4)); }"
        " uprobe:T:own { print((args.a, args.c, arg0, arg2)); }"
    )
    assert lines(run(backend, narrow, text)) == [
        line for i in ROUNDS for line in (f"(1, 2, {(3 << 32) + i}, 4, 1, 2, 4)", f"({i}, 9, {i}, 9)")
    ]


def test_what_only_its_own_file_calls_has_no_known_arguments_without_debug_information() -> None:
    path = build("narrow-plain")
    done = tracer("--dry-run", "-e", f"uprobe:{path}:own {{ print(arg0); }}")
    why = "only its own file calls the function, so it may be in a register; no debug information says which"
    assert (done.status, why in done.err) == (2, True), done.err
    assert tracer("--dry-run", "-e", f"uprobe:{path}:add {{ print(arg0); }}").status == 0


def test_how_a_function_keeps_a_parameter_is_not_how_it_is_passed() -> None:
    path = build("narrow-O0")
    done = tracer("--dry-run", "-e", f"uprobe:{path}:in_registers {{ print(args.a); }}")
    why = "args.a (int) cannot be read: debug information says where the function keeps it, and not how it is passed"
    assert (done.status, why in done.err) == (2, True), done.err


def test_results_have_32_bits_or_64(backend: str, narrow: Path) -> None:
    text = "uretprobe:T:add { @add[(int32)retval] = count(); } uretprobe:T:wide { @wide[(int64)retval] = count(); }"
    done = run(backend, narrow, text, "-f", "json")
    assert maps(done) == {
        "@add": {str((-2 * i - 3000000000) % (1 << 32)): 1 for i in ROUNDS},
        "@wide": {str(-(1 << 40)): len(ROUNDS)},
    }


def test_a_result_in_a_floating_point_register_is_refused(narrow: Path) -> None:
    done = tracer("--dry-run", "-e", f"uretprobe:{narrow}:half {{ print(retval); }}")
    why = f"there is no retval of uretprobe:{narrow}:half: it is in a floating-point register, which no probe can read"
    assert done.status == 2
    assert done.err.endswith(f"error: {why}\n")


def test_usdt_probes_with_operands_of_32_bits_and_semaphores(backend: str, narrow: Path) -> None:
    """`-8@4(%eax)`, `-4@%edx`, `-4@counter`, `-2@%ecx`; the guarded one is hit only where its semaphore is raised."""
    text = (
        "usdt:T:narrow:item { @id[arg1] = count(); @[arg2, arg3] = count(); }"
        " usdt:T:narrow:guarded { @guarded[arg0] = count(); }"
    )
    assert maps(run(backend, narrow, text, "-f", "json")) == {
        "@id": {str(ID): 5},
        "@": {f"{i},100": 1 for i in ROUNDS},
        "@guarded": {str(-i): 1 for i in ROUNDS},
    }


def test_structs_have_the_layout_of_the_file(narrow: Path) -> None:
    """Pointers of 4 bytes, and 64 bits at a multiple of 4."""
    text = (
        "uprobe:T:seen /args.round == 0/ { print((sizeof(*args.item), sizeof(args.item->next), args.item->kind,"
        " args.item->id, str(args.item->name), args.item->weight, args.item->low, args.item->high));"
        " print((str(arg0 + 24, 1), args.item->next->id, str(args.item->next->name), args.item->next->next)); }"
    )
    assert lines(run("bcc", narrow, text)) == [f"(32, 4, 97, {ID}, first, 2.5, 5, 400)", "(, -2, second, 0x0)"]


def test_a_string_behind_a_pointer_in_memory_is_left_to_bcc(narrow: Path) -> None:
    """The kernel's fetch arguments read 8 bytes of memory for a pointer."""
    done = tracer("--backend", "ftrace", "-e", f"usdt:{narrow}:narrow:item {{ print(str(arg0)); }}", "-c", str(narrow))
    assert done.status == 1
    assert "arg0 has 4 bytes at 4@" in done.err
    assert "and the kernel takes 8 for a pointer; --backend bcc can read it" in done.err
    done = tracer("--backend", "ftrace", "-e", f"uprobe:{narrow}:seen {{ print(args.item->id); }}", "-c", str(narrow))
    why = "a fetch argument takes 8 bytes of memory for a pointer; --backend bcc can"
    assert (done.status, why in done.err) == (1, True), done.err
    done = run("bcc", narrow, "usdt:T:narrow:item { print(str(arg0)); } uprobe:T:own { print(str(args.text)); }")
    assert lines(done) == ["first", "first"] * 5


def test_a_string_behind_a_pointer_in_a_register(backend: str, narrow: Path) -> None:
    assert lines(run(backend, narrow, "uprobe:T:own { print(str(arg1)); }")) == ["first"] * 5


def test_stacks_go_back_to_the_programs_start(backend: str, narrow: Path) -> None:
    done = run(backend, narrow, "uprobe:T:leaf { @[ustack] = count(); }", "-f", "json")
    ((stack, count),) = maps(done)["@"].items()
    assert count == 5
    assert [line.partition("+")[0] for line in stack.split()] == ["leaf", "middle", "outer", "main", "_start"]


def test_one_line_may_mean_files_of_32_and_of_64_bits(backend: str, narrow: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide"
    wide.symlink_to(build("lines-O2"))
    (tmp_path / "small").symlink_to(narrow)
    text = f"uprobe:{tmp_path}/*:main {{ @[probe] = count(); @stacks[ustack(1)] = count(); }}"
    command = f"sh -c '{narrow}; {wide} > /dev/null'"
    done = tracer("-q", "--backend", backend, "--follow", "-f", "json", "-e", text, "-c", command)
    assert maps(done)["@"] == {f"uprobe:{tmp_path}/small:main": 1, f"uprobe:{tmp_path}/wide:main": 1}


def test_registers_have_the_names_of_the_machine(backend: str, narrow: Path) -> None:
    text = 'uprobe:T:leaf { @[reg("sp") < 0x100000000, *(uint32 *)(reg("sp") + 4)] = count(); }'
    assert maps(run(backend, narrow, text, "-f", "json")) == {"@": {f"true,{i}": 1 for i in ROUNDS}}


@pytest.mark.parametrize("built", ["narrow", "narrow-O0"])
def test_variables_are_read_inside_a_function(backend: str, built: str) -> None:
    """In registers, in the frame, and where the caller has put them."""
    source = Path(__file__).parents[1] / "targets/narrow.c"
    (number,) = [at for at, line in enumerate(source.read_text().split("\n"), 1) if "return item->high" in line]
    # Three bytes are `sub $64,%esp`, or `push %ebp; mov %esp,%ebp`.
    text = f"uprobe:T:narrow.c:{number} {{ @[vars.round] = count(); }} uprobe:T:middle+3 {{ @n[args.n] = count(); }}"
    each = {str(i): 1 for i in ROUNDS}
    assert maps(run(backend, build(built), text, "-f", "json")) == {"@": each, "@n": each}


def test_a_type_by_its_name_is_that_of_the_program(narrow: Path) -> None:
    """`char *` and `long` have 4 bytes there; what the program declares itself is laid out for 64 bits."""
    text = (
        "uprobe:T:seen /arg1 == 0/ { print((str(*(char **)(arg0 + 12)), *(long long *)(arg0 + 4), (long)arg1));"
        " print((sizeof(long), sizeof(char *), sizeof(size_t), sizeof(long long), sizeof(struct item))); }"
    )
    assert lines(run("bcc", narrow, text)) == [f"(first, {ID}, 0)", "(4, 4, 4, 8, 32)"]
    declared = f"struct own {{ char *a; }}; uprobe:{narrow}:seen {{ print(((struct own *)arg0)->a); }}"
    done = tracer("--dry-run", "-e", declared)
    what = "the program declares struct own with pointers of 8 bytes, and those of a 32-bit program have 4"
    assert (done.status, what in done.err) == (2, True), done.err
    one = f"uprobe:{narrow}:main, uprobe:{build('lines-O2')}:main {{ print(*(long *)arg0); }}"
    done = tracer("--dry-run", "-e", one)
    what = "long has 4 bytes in some of the clause's files and 8 in others; write a clause for each of them"
    assert (done.status, what in done.err) == (2, True), done.err


def test_frame_pointers_are_refused(narrow: Path) -> None:
    """Of a function that is just entered the kernel takes the caller's caller for the caller."""
    done = tracer("--dry-run", "-e", f"config = {{ stack_unwind = fp }} uprobe:{narrow}:leaf {{ print(ustack); }}")
    what = "frame pointers do not give the ustack of a 32-bit program: the kernel passes over a caller"
    assert (done.status, done.err.splitlines()[-1].partition(" error: ")[2]) == (
        2, f"{what} ({narrow}); leave out stack_unwind = fp"
    )  # fmt: skip
