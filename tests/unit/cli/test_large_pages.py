"""Whether a command would copy its code to large pages, by its words, its environment and its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.target import large_pages
from tracer.target.large_pages import copying_always, copying_command

ELF = b"\x7fELF"


@pytest.fixture
def php(tmp_path: Path) -> Path:
    """A file that holds what the program does: where it looks for its configuration."""
    (tmp_path / "conf.d").mkdir()
    path = tmp_path / "php8.2"
    path.write_bytes(ELF + b"\0" + bytes(tmp_path / "conf.d") + b"\0")
    (tmp_path / "php.ini").write_text("; opcache.huge_code_pages=1\n[PHP]\nengine = On\n")
    (tmp_path / "conf.d/10-opcache.ini").write_text("zend_extension=opcache.so\n")
    return path


def why(path: Path, *words: str, **environment: str) -> str | None:
    found = copying_command((path.name, *words), str(path), environment)
    return None if found is None else found.why


ONE = "opcache.huge_code_pages=1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.php",), None),
        (("-d", ONE, "a.php"), ONE),
        ((f"-d{ONE}",), ONE),
        (("-d", "opcache.huge_code_pages"), ONE),
        (("-d", "opcache.huge_code_pages=on"), "opcache.huge_code_pages=on"),
        (("-d", "opcache.huge_code_pages=off"), None),
        (("-d", ONE, "-d", "opcache.huge_code_pages=0"), None),
        (("-d", "opcache.huge_code_pages=0", "-d", ONE), ONE),
        (("a.php", "-d", ONE), None),
        (("-r", "1;", "-d", ONE), ONE),
        (("-n", "-d", ONE), None),
        (("-n", "-d", "zend_extension=opcache", "-d", ONE), ONE),
    ],
)
def test_the_words_of_php(php: Path, words: tuple[str, ...], said: str | None) -> None:
    assert why(php, *words) == said


def test_the_configuration_of_php(php: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    one, on = other / "z.ini", "opcache.huge_code_pages = On ; large\n"
    one.write_text(on)
    said = f"opcache.huge_code_pages=On in {one}"
    assert why(php, PHP_INI_SCAN_DIR=f":{other}") == said
    assert why(php, PHP_INI_SCAN_DIR=str(other)) is None  # nothing loads opcache there
    assert why(php, PHPRC=str(one)) == why(php, "-c", str(one)) == said
    assert why(php, "-d", "opcache.huge_code_pages=0", PHPRC=str(one)) is None
    assert why(php, "-n", PHPRC=str(one)) is None
    one.write_text(f"[PATH=/srv]\n{on}")
    assert why(php, PHPRC=str(one)) is None
    (tmp_path / "php.ini").write_text(on)
    assert why(php) == f"opcache.huge_code_pages=On in {tmp_path / 'php.ini'}"
    found = copying_always(str(php), {})
    assert found is not None and (found.path, found.remedy) == (str(php), "run it with -d opcache.huge_code_pages=0")
    (tmp_path / "php-cli.ini").write_text("")
    assert why(php) is None
    (tmp_path / "conf.d/20-large.ini").write_text(on)
    assert why(php) == f"opcache.huge_code_pages=On in {tmp_path / 'conf.d/20-large.ini'}"


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        ((), "", None),
        (("--use-largepages=on", "a.js"), "", "--use-largepages=on"),
        (("--use_largepages", "silent"), "", "--use-largepages=silent"),
        (("a.js", "--use-largepages=on"), "", None),
        (("-e", "1", "--use-largepages=on"), "", "--use-largepages=on"),
        ((), "--use-largepages=on", "NODE_OPTIONS: --use-largepages=on"),
        (("--use-largepages=off",), "--use-largepages=on", None),
        ((), "--max-old-space-size=100 --use-largepages=silent", "NODE_OPTIONS: --use-largepages=silent"),
    ],
)
def test_the_words_of_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], options: str, said: str | None
) -> None:
    path, pages = tmp_path / "node", tmp_path / "enabled"
    path.write_bytes(ELF)
    monkeypatch.setattr(large_pages, "_PAGES", str(pages))
    pages.write_text("always [madvise] never\n")
    assert why(path, *words, NODE_OPTIONS=options) == said
    pages.write_text("always madvise [never]\n")
    assert why(path, *words, NODE_OPTIONS=options) is None


def test_what_is_run_through_env_or_a_script(php: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{php} -d{ONE}\n")
    assert why(script) == ONE
    env = tmp_path / "env"
    env.write_bytes(ELF)
    assert why(env, "-i", "A=1", str(php), "-d", ONE) == ONE
    (tmp_path / "z.ini").write_text(f"{ONE}\n")
    assert why(env, f"PHPRC={tmp_path}/z.ini", str(php)) == f"{ONE} in {tmp_path}/z.ini"
    assert why(env, "A=1") is None


def test_other_programs_do_not() -> None:
    assert why(Path("/bin/true"), "-d", ONE) is None
    assert copying_always("/bin/true", {}) is None
