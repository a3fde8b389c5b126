"""The Java virtual machine: a library with hundreds of probes, loaded after the start of the process."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.live.conftest import need
from tests.targets.build import build_java

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def libjvm() -> Path:
    java, javac = shutil.which("java"), shutil.which("javac")
    need(java and javac, "a JDK")
    home = Path(os.path.realpath(str(java))).parents[1]
    return home / "lib" / "server" / "libjvm.so"


def test_all_probes_of_the_machine_are_listed(libjvm: Path) -> None:
    done = tracer("list", "--json", f"usdt:{libjvm}:*:*")
    assert (done.status, done.err) == (0, "")
    probes = [json.loads(line) for line in done.text.splitlines()]
    sites = [site for probe in probes for site in probe["sites"]]
    assert len(sites) > 500
    assert max(len(site["args"]) for site in sites) == 9
    names = {(probe["provider"], probe["name"]) for probe in probes}
    assert {("hotspot", "gc__begin"), ("hotspot", "gc__end"), ("hotspot", "thread__start")} <= names
    assert all(arg["readable"] for site in sites for arg in site["args"])


def test_every_collection_is_counted(libjvm: Path, backend: str, clean: None) -> None:
    # A serial collector, and a heap that 50 empty collections never fill: nothing but System.gc() collects.
    classes = build_java("Collect")
    command = f"java -XX:+UseSerialGC -Xms64m -Xmx64m -cp {classes} Collect 50"
    program = (
        f"usdt:{libjvm}:hotspot:gc__begin {{ @begin[arg0] = count(); }}"
        f" usdt:{libjvm}:hotspot:gc__end {{ @end = count(); }}"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", command)
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    assert maps(done) == {"@begin": {"1": 50}, "@end": 50}


def test_hundreds_of_probes_attach_at_once(libjvm: Path, backend: str, clean: None) -> None:
    classes = build_java("Collect")
    program = f"usdt:{libjvm}:hotspot_jni:* {{ @[probe] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"java -cp {classes} Collect 1")
    assert done.status == 0
    attached = json.loads(done.out.splitlines()[0])["count"]
    assert attached > 400
    found = {name.rsplit(":")[-1]: count for name, count in maps(done)["@"].items()}
    assert (found["CreateJavaVM__entry"], found["CreateJavaVM__return"], found["DestroyJavaVM__entry"]) == (1, 1, 1)
    assert found["FindClass__entry"] == found["FindClass__return"]
