"""Declarations of types in C: what gcc says of sizes and places is what they must have."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tracer.errors import Fault, ProgramError, Source
from tracer.lang.syntax.c.declarations import Declarations
from tracer.lang.syntax.c.directives import preprocess
from tracer.lang.syntax.parser import parse
from tracer.lang.types import (
    ArrayType,
    CharType,
    Field,
    IntType,
    NamedType,
    PointerType,
    StructType,
    Type,
    memory_size,
)

_SCALARS = (
    "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long",
    "long long", "unsigned long long int", "_Bool", "float", "double", "long double", "void *", "enum Plain",
)  # fmt: skip
_BITS = {
    "char": 8, "unsigned char": 8, "short": 16, "unsigned short": 16, "int": 32, "unsigned": 32, "long": 64,
    "unsigned long": 64, "_Bool": 1, "enum Plain": 32,
}  # fmt: skip
_PLAIN = "enum Plain { ZERO, ONE, TWO };"
_NAMES = itertools.count()
"""Members of unnamed structs are those of the struct around them: no two have one name."""


@st.composite
def structs(draw: st.DrawFn, depth: int = 2) -> str:
    """The body of a struct or union, without its name: members are a0, a1, …"""
    lines = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(("scalar", "scalar", "array", "bits", "bits", "gap", "inner", "nameless")))
        attribute = draw(st.sampled_from(("", "", "", "", " __attribute__((packed))", " __attribute__((aligned(8)))")))
        name = f"a{number}_{depth}_{next(_NAMES)}"
        if kind in ("inner", "nameless") and depth:
            inner = draw(structs(depth=depth - 1))
            lines.append(f"{inner};" if kind == "nameless" else f"{inner} {name}[{draw(st.integers(1, 3))}];")
        elif kind == "bits":
            of = draw(st.sampled_from(sorted(_BITS)))
            attribute = "" if "aligned" in attribute else attribute
            lines.append(f"{of} {name} : {draw(st.integers(1, min(_BITS[of], 56)))}{attribute};")
        elif kind == "gap":
            of = draw(st.sampled_from(sorted(_BITS)))
            lines.append(f"{of} : {draw(st.integers(0, _BITS[of]))};")
        else:
            of = draw(st.sampled_from(_SCALARS))
            more = f"[{draw(st.integers(1, 4))}][2]" if kind == "array" else ""
            lines.append(f"{of} {name}{more}{attribute};")
    lines.append(f"char last_{depth}_{next(_NAMES)};")
    attribute = draw(st.sampled_from(("", "", "", " __attribute__((packed))", " __attribute__((packed, aligned(4)))")))
    return f"{draw(st.sampled_from(('struct', 'struct', 'union')))} {{ {' '.join(lines)} }}{attribute}"


def parsed(text: str, macros: dict[str, str] | None = None) -> Declarations:
    """All declarations of a text."""
    found, at = Declarations(), 0
    while text[at:].strip():
        at = found.declaration(text, at + len(text[at:]) - len(text[at:].lstrip()), macros or {})
    return found


def struct(found: Declarations, name: str) -> StructType:
    """One of them."""
    type = found.types[name].type
    assert isinstance(type, StructType)
    return type


def members(type: StructType) -> list[tuple[str, Field]]:
    """The named members, those of unnamed structs among them."""
    found: list[tuple[str, Field]] = []
    for field in type.fields:
        if field.name:
            found.append((field.name, field))
        else:
            assert isinstance(field.type, StructType)
            found += [(name, each) for name, _ in members(field.type) if (each := type.field(name)) is not None]
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(structs(), min_size=20, max_size=20))
def test_sizes_and_places_are_gccs(bodies: list[str]) -> None:
    text = _PLAIN + "\n" + "\n".join(f"typedef {body} T{number};" for number, body in enumerate(bodies))
    found = parsed(text)
    code = ["#include <stdio.h>", "#include <stddef.h>", "#include <string.h>", text, "static unsigned char *p;"]
    code.append("static void show(size_t n) { for (size_t i = 0; i < n; i++) printf(\"%02x\", p[i]); puts(\"\"); }")
    code.append("int main(void) {")
    expected = []
    for number in range(len(bodies)):
        type = struct(found, f"T{number}")
        code.append(f'{{ static T{number} x; p = (void *)&x; printf("%zu %zu\\n", sizeof x, _Alignof(T{number}));')
        expected.append(f"{type.size} {found.types[f'T{number}'].align}")
        for name, field in members(type):
            if field.width:
                code.append(f"memset(&x, 0, sizeof x); x.{name} = -1; show(sizeof x);")
                mask = ((1 << field.width) - 1) << field.shift << 8 * field.offset
                expected.append(mask.to_bytes(type.size, "little").hex())
            else:
                code.append(f'printf("{name} %zu %zu\\n", offsetof(T{number}, {name}), sizeof x.{name});')
                expected.append(f"{name} {field.offset} {memory_size(field.type)}")
        code.append("}")
    code.append("return 0; }")
    assert _run("\n".join(code)) == expected, text


def _run(code: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "layout")
        subprocess.run(["gcc", "-w", "-x", "c", "-o", program, "-"], input=code, text=True, check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("declared", "type"),
    [
        ("int a", IntType(32)),
        ("unsigned a", IntType(32, False)),
        ("long unsigned int a", IntType(64, False)),
        ("const volatile char a", CharType()),
        ("signed char a", IntType(8)),
        ("uint8_t a", IntType(8, False)),
        ("__u16 a", IntType(16, False)),
        ("_Bool a", IntType(8, False)),
        ("int a[2][3]", ArrayType(ArrayType(IntType(32), 3), 2)),
        ("char *a[N]", ArrayType(PointerType(target=CharType()), 4)),
        ("char (*a)[4]", PointerType(target=ArrayType(CharType(), 4))),
        ("int (*a)(int, char *)", PointerType()),
        ("int (*a[2])(void)", ArrayType(PointerType(), 2)),
        ("void **a", PointerType(target=PointerType())),
        ("struct S *a", PointerType(target=NamedType("struct S"))),
        ("struct Other *const a", PointerType(target=NamedType("struct Other"))),
        ("char a[sizeof(long) * 2 - (1 << 1)]", ArrayType(CharType(), 14)),
        ("char a[(~0U >> 30) == 3 && 'A' == 0x41 ? 010 : 1]", ArrayType(CharType(), 8)),
    ],
)  # fmt: skip
def test_the_type_of_a_member(declared: str, type: Type) -> None:
    assert struct(parsed(f"struct S {{ {declared}; }};", {"N": "(3 + 1)"}), "struct S").fields[0].type == type


def test_several_names_share_a_type() -> None:
    found = struct(parsed("struct S { int a, *b, c[2]; };"), "struct S")
    assert [str(field.type) for field in found.fields] == ["int32", "int32 *", "int32[2]"]


def test_an_enum_counts_on_and_has_the_sign_it_needs() -> None:
    found = parsed("enum E { A = 1 << 3, B, C = B * 2, D = -1 }; enum { BIG = 0x100000000 }; enum F { ONLY };")
    constants = found.declared().constants
    assert {name: value for name, (value, _) in constants.items()} == {
        "A": 8, "B": 9, "C": 18, "D": -1, "BIG": 1 << 32, "ONLY": 0,
    }  # fmt: skip
    own = [constants[name][1] for name in ("A", "BIG", "ONLY")]
    assert [(type.bits, type.signed) for type in own if isinstance(type, IntType)] == [
        (32, True), (64, False), (32, False),
    ]  # fmt: skip


def test_the_last_member_may_go_without_its_semicolon() -> None:
    whole, without = (parsed(f"struct s {{ int a; long b{end} }};").declared().types for end in (";", ""))
    assert without["struct s"] == whole["struct s"]


def test_a_typedef_of_what_is_declared_later_is_completed() -> None:
    types = parsed("typedef struct s s_t; struct s { s_t *next; int a; };").declared().types
    assert types["s_t"] is types["struct s"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("struct A { int a int b; }", "expected ';' after the member, found 'int'"),
        ("struct A { struct A a; };", "'struct A' cannot hold itself"),
        ("struct A { struct B b; };", "'b' has the incomplete type 'struct B'"),
        ("struct A { void a; };", "'a' has the incomplete type 'void'"),
        ("struct A { size a; };", "unknown type 'size'"),
        ("struct A { int a; char a; };", "struct A has two members 'a'"),
        ("struct A { int a : 33; };", "a bit field of int32 cannot have 33 bits"),
        ("struct A { float a : 3; };", "a bit field must be an integer, not float32"),
        ("struct A { int a[-1]; };", "an array cannot have -1 elements"),
        ("struct A { int a[1 / 0]; };", "division by zero"),
        ("struct A { int a[n]; };", "expected a constant, found 'n'"),
        ("struct A { int a; }; struct A { int b; };", "'struct A' is declared already"),
        ("struct A { int a;", "expected a type, found the end of the program"),
        ("struct A", "expected '{' or ';', found the end of the program"),
        ("enum E { A, A };", "'A' is declared already"),
        ("enum E { 1 };", "expected the name of a constant, found '1'"),
        ("typedef int;", "expected a name for the type, found ';'"),
        ("struct A { int a; } __attribute__((aligned(3)));", "the alignment 3 is not a power of two"),
        ("struct A { int a; } __attribute__((packed", "the attribute is not closed"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(Fault) as raised:
        parsed(text)
    assert raised.value.diagnostic.message == message


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("sys/stat.h", "struct stat"), ("netinet/in.h", "struct sockaddr_in6"), ("stdio.h", "FILE"),
        ("netdb.h", "struct addrinfo"), ("signal.h", "siginfo_t"), ("pthread.h", "pthread_mutex_t"),
        ("linux/perf_event.h", "struct perf_event_attr"), ("time.h", "struct tm"), ("elf.h", "Elf64_Sym"),
        ("sys/epoll.h", "struct epoll_event"), ("ucontext.h", "ucontext_t"), ("net/if.h", "struct ifreq"),
    ],
)  # fmt: skip
def test_a_header_has_the_layout_that_gcc_gives_it(header: str, name: str) -> None:
    found = Declarations()
    found.header(preprocess(f"#include <{header}>\n").headers)
    type = found.declared().types[name]
    assert isinstance(type, StructType)
    wanted = [each for each, field in members(type) if not field.width]
    places = "".join(f'printf(" %zu", offsetof({name}, {each}));' for each in wanted)
    code = f"#include <stdio.h>\n#include <stddef.h>\n#include <{header}>\nint main(void) {{"
    told = _run(f'{code} printf("%zu", sizeof({name})); {places} return 0; }}')[0].split()
    assert told == [str(type.size), *(str(field.offset) for _, field in members(type) if not field.width)]


def test_the_places_of_a_program_stay_and_what_a_condition_leaves_out_is_blank() -> None:
    text = "#define N 3 // three\n/*\n#define N 4\n*/\n#if N > 2\nstruct A { int a; };\n#else\nnonsense {\n#endif\n"
    done = preprocess(text)
    assert done.macros["N"] == "3"
    assert len(done.text) == len(text)
    assert done.text.split() == ["/*", "#define", "N", "4", "*/", "struct", "A", "{", "int", "a;", "};"]


def test_a_macro_tells_whether_the_kernel_describes_its_types() -> None:
    word = "BPFTRACE_HAVE_BTF"
    told = {word: "1"} if Path("/sys/kernel/btf/vmlinux").exists() else {}
    assert preprocess(f"BEGIN {{ print({word}); }}").macros == told
    assert preprocess(f"#undef {word}\n").macros == {}
    kept = preprocess(f"#ifdef {word}\nwith\n#else\nwithout\n#endif\n").text.split()
    assert kept == (["with"] if told else ["without"])


def test_definitions_alone_start_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert preprocess("#define A 1\n#define B (A + \\\n 1)\n#define F(x) x\n#undef A\n").macros == {"B": "(A +   1)"}
    with pytest.raises(Fault) as raised:
        preprocess("#define A 1\n#include <errno.h>\n")
    assert raised.value.diagnostic.message == "headers and conditions need a C compiler, and there is none"
    assert raised.value.diagnostic.span.start == 12




def test_where_a_header_is_missing_probes_on_the_kernel_are_what_is_refused() -> None:
    text = "#include <net/no-such-header.h>\nkprobe:tcp_connect { print(1); }\nBEGIN { }\n"
    with pytest.raises(ProgramError) as caught:
        parse(Source(text))
    (fault,) = caught.value.diagnostics
    said = "of the kernel tracer traces events and samples, no functions"
    assert fault.message == f"kprobe probes are not supported: {said}"
    assert text[fault.span.start : fault.span.end] == "kprobe:tcp_connect"
    with pytest.raises(ProgramError) as caught:
        parse(Source("#include <net/no-such-header.h>\nBEGIN { }\n"))
    assert "no-such-header.h" in caught.value.diagnostics[0].message
