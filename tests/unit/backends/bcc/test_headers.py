"""What is left of the headers for a program: less text, the same bytecode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.bcc.compile import headers
from tracer.backends.bcc.compile.compiler import bpf_programs, compile_text
from tracer.backends.bcc.compile.headers import with_headers

HEADER = """
/* three() is what a comment says. */
static __always_inline int one(void)
{
	return 1;
}

#if SWITCH
static __always_inline int two(int a,
	int b)
{
	return a + one();
}
#else
static __always_inline int two(int a, int b)
{
	return b;
}
#endif

static __always_inline int three(void)
{
	return 3;
}

static __always_inline int four(void)
{
	return 4;
}

#define TWICE(x) \\
	(2 * two(x, x))
#define AGAIN(x) three()
"""


@pytest.mark.parametrize(
    ("body", "kept", "dropped"),
    [
        ("return 0;", "", "one two three four"),
        ("return one();", "one", "two three four"),
        ("return TWICE(1);", "one two", "three four"),
        ("return AGAIN(1);", "three", "one two four"),
        ("int (*f)(void) = four; return f();", "four", "one two three"),
    ],
)
def test_what_can_be_called_is_kept(body: str, kept: str, dropped: str, tmp_path: Path) -> None:
    (tmp_path / "all.h").write_text('#include "some.h"\n')
    (tmp_path / "some.h").write_text(HEADER)
    text = with_headers(f'#include <linux/types.h>\n#include "all.h"\nint main(void)\n{{\n\t{body}\n}}\n', tmp_path)
    assert text.startswith("#include <linux/types.h>\n") and '"' not in text and "comment" not in text
    for name in kept.split():
        assert f"int {name}(" in text
    for name in dropped.split():
        assert f"int {name}(" not in text
    assert text.count("int two(") == (2 if "two" in kept else 0)


@pytest.mark.parametrize(
    "body",
    [
        "{ @ = count(); }",
        "{ @h[arg0] = hist(arg1); @l = lhist(arg1, -10, 10, 2); @hi[tid] = max(arg1); @a = avg(arg1); }",
        '{ $s = str(arg1, 16); @[str(arg1), comm, $s == "tea"] = count(); printf("%s %d\\n", $s, arg0 / arg2); }',
        "{ @[ustack(5), pid] = count(); @k = (arg0, (str(arg1), 3)); clear(@k); if (arg0 == 7) { exit(); } }",
        "{ @[ustack(python)] = count(); @t = tseries(arg0, 1s, 5); }",
        "{ @[arg0] = arg0; for ($kv : @) { @n[$kv.0]++; } }",
    ],
)
@pytest.mark.parametrize("switches", [{"sleepable": True, "cookies": True}, {"sleepable": False, "namespaced": True}])
def test_the_bytecode_is_that_with_whole_headers(
    body: str, switches: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = generate(plan_of(probe(body))).text
    shaken = with_headers(text, bpf_programs())
    compiled = compile_text(text, cached=False, **switches)
    monkeypatch.setattr(headers, "with_headers", lambda text, folder: text)
    assert compile_text(text, cached=False, **switches) == compiled
    whole = sum(path.stat().st_size for path in bpf_programs().glob("*.h"))
    assert len(shaken) < whole
