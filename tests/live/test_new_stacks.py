"""A map that is printed while probes run has keys that are newer than what asks for it: their stacks are whole too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.ftrace import compiled_c

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

WAYS = 150
CODE = (
    "#include <unistd.h>\n"
    '__attribute__((noinline)) void hit(long n) { asm volatile("" : : "r"(n)); }\n'
    + "".join(f"__attribute__((noinline)) void way{n}(void) {{ hit({n}); asm(\"\"); }}\n" for n in range(WAYS))
    + "int main(void) { usleep(100000);"
    + "".join(f" way{n}(); usleep(8000);" for n in range(WAYS))
    + " return 0; }\n"
)
"""Each hit is the first one of its stack, and has an address that no rule is known of."""


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_keys_that_come_while_a_handler_runs_have_their_stacks(backend: str, tmp_path: Path) -> None:
    built = compiled_c(tmp_path / "ways", CODE)
    program = f"uprobe:{built}:hit {{ @[ustack] = count(); }} interval:ms:50 {{ system(\"sleep 0.3\"); print(@); }}"
    done = tracer("--backend", backend, "--unsafe", "-e", program, "-c", str(built))
    assert done.status == 0, done.said
    found = re.findall(r"^@\[\n(.*?)\]: (\d+)$", done.printed.decode(), re.M | re.S)
    assert len(found) > WAYS
    strange = [text for text, _ in found if not re.match(r"\s+hit\+0\n\s+way\d+\+\d+\n\s+main\+\d+\n", text)]
    assert strange == []
    assert len({text for text, _ in found}) == WAYS
