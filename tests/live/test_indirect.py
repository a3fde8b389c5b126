"""Functions that libc implements for each kind of processor: the name means what programs call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tell, tracer, tracing
from tests.live.answers import maps

pytestmark = pytest.mark.live

CALLS = 300
LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
# Of some processors the kernel can probe no implementation of strcmp; each can run these.
PLAIN = "glibc.cpu.hwcaps=-AVX2,-AVX512VL,-AVX512BW,-AVX2_Usable,-AVX512VL_Usable,-RTM,-ERMS,-SSE4_2"
# libc calls them too; what tells the program's calls is what they are given.
LENGTHS = (
    'uprobe:libc:strlen /str(arg0) == "zebra crossing"/ { @[func] = count(); }'
    " uprobe:libc:memcpy /arg2 == 4321/ { @[func] = count(); @probes[probe] = count(); }"
)
COMPARISONS = ' uprobe:libc:strcmp /str(arg0) == "zebra crossing"/ { @[func] = count(); }'


def addresses(*arguments: str, env: dict[str, str] | None = None) -> list[str]:
    """Where what is listed lies."""
    return [line for line in tracer("list", "-v", *arguments, env=env).text.splitlines() if line[0] == " "]


def test_every_call_of_a_program_is_counted(backend: str, place: Callable[[str], Path], clean: None) -> None:
    options = ("--backend", backend, "-f", "json", "-c", f"{place('texts')} {CALLS}", "-e")
    done = tracer(*options, LENGTHS)
    assert (done.status, maps(done), done.err) == (
        0,
        {"@": {"strlen": CALLS, "memcpy": CALLS}, "@probes": {f"uprobe:{LIBC}:memcpy": CALLS}},
        "Attached 2 probes\n",
    )
    done = tracer(*options, LENGTHS + COMPARISONS, env={"GLIBC_TUNABLES": PLAIN})
    assert (done.status, maps(done)["@"]) == (0, dict.fromkeys(("strlen", "memcpy", "strcmp"), CALLS)), done.err


def test_every_return_is_counted(backend: str, place: Callable[[str], Path], clean: None) -> None:
    program = "uprobe:libc:strlen /str(arg0) == \"zebra crossing\"/ { @in[tid] = 1; }"
    program += " uretprobe:libc:strlen /@in[tid]/ { @[retval] = count(); delete(@in, tid); }"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{place('texts')} {CALLS}")
    assert (done.status, maps(done)["@"]) == (0, {"14": CALLS}), done.err


def test_of_a_process_its_own_choice_is_traced(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    with target(place("texts"), CALLS, "wait", env={"GLIBC_TUNABLES": PLAIN}) as process:
        assert read_line(process) == "ready"
        its_own = addresses("-p", str(process.pid), "uprobe:libc:strcmp")
        assert its_own == addresses("uprobe:libc:strcmp", env={"GLIBC_TUNABLES": PLAIN}) != []
        options = ("--backend", backend, "-f", "json", "-e", LENGTHS + COMPARISONS, "-p", str(process.pid))
        with tracing(tmp_path, *options) as running:
            tell(process)
            done = running.wait()
    assert (done.status, maps(done)["@"]) == (0, dict.fromkeys(("strlen", "memcpy", "strcmp"), CALLS)), done.err


@pytest.mark.parametrize(("name", "way"), [("texts", "one_way"), ("texts-other", "other_way")])
def test_a_program_s_own_choice_is_read_from_its_memory(
    name: str, way: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place(name)
    program = f"uprobe:{path}:chosen, uretprobe:{path}:chosen {{ @[func, probe] = count(); }}"
    refused = tracer("--backend", backend, "-e", program, "-c", f"{path} 1")
    assert refused.status == 2 and "chosen is an indirect function" in refused.err
    with target(path, CALLS, "wait") as process:
        assert read_line(process) == "ready"
        options = ("--backend", backend, "-f", "json", "-e", program, "-p", str(process.pid))
        chosen = addresses("-p", str(process.pid), f"uprobe:{path}:chosen")
        assert [line.replace("  chosen  ", f"  {way}  ") for line in chosen] == addresses(f"uprobe:{path}:{way}") != []
        with tracing(tmp_path, *options) as running:
            tell(process)
            done = running.wait()
        assert done.status == 0, done.err
        assert maps(done)["@"] == {f"chosen,{kind}:{path}:chosen": CALLS for kind in ("uprobe", "uretprobe")}


def test_a_wildcard_takes_the_implementations_and_says_what_it_leaves_out(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    options = ("--backend", backend, "-f", "json", "-c", f"{place('texts')} {CALLS}", "-e")
    program = 'uprobe:libc:str* /str(arg0) == "zebra crossing"/ { @[func] = count(); }'
    done = tracer(*options, program, env={"GLIBC_TUNABLES": PLAIN})
    assert (done.status, maps(done)["@"]) == (0, {"strlen": CALLS, "strcmp": CALLS}), done.err
    done = tracer(*options, "uprobe:libc:mem*, uprobe:libc:*time* /arg2 == 4321/ { @[func] = count(); }")
    assert (done.status, maps(done)["@"]) == (0, {"memcpy": CALLS})
    said = "functions left out: it is not known which code runs for the indirect functions "
    assert said in done.err and "time" in done.err.partition(said)[2]
    listed = tracer("list", "uprobe:libc:*time*")
    assert said in listed.err and f"uprobe:{LIBC}:time" not in listed.text.splitlines()


def test_an_older_version_is_traced_where_it_is_named(backend: str, clean: None) -> None:
    older, current = addresses("uprobe:libc:memcpy@GLIBC_2.2.5"), addresses("uprobe:libc:memcpy")
    assert len(older) == len(current) == 1 and older != current == addresses("uprobe:libc:memcpy@@GLIBC_2.14")
    assert {*older} <= {*addresses("uprobe:libc:mem*")}
    refused = tracer("--backend", backend, "-e", "uprobe:libc:time { @ = count(); }")
    assert refused.status == 2 and "lies in the kernel's vDSO, where no probe can be" in refused.err
