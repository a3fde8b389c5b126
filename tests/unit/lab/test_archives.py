from __future__ import annotations

from pathlib import Path

import pytest

from scripts.lab import NotAvailable
from scripts.lab.archives import debian, sources

WANTED = ("bookworm", "sid", "bookworm-security")


def written(folder: Path, **files: str) -> Path:
    (folder / "sources.list.d").mkdir()
    for name, text in files.items():
        path = folder / "sources.list" if name == "list" else folder / "sources.list.d" / name.replace("_", ".")
        path.write_text(text)
    return folder


def test_the_archives_of_a_sources_file_are_taken_with_their_keys_and_other_suites(tmp_path: Path) -> None:
    text = (
        "# mine\nTypes: deb deb-src\n# URIs: http://old.test/debian\nURIs: http://near.test/debian\n"
        "Suites: trixie trixie-updates\nComponents: main contrib\nSigned-By: /keys/near.gpg\n\n"
        "types: deb\nURIs: http://near.test/debian-security\nSuites: trixie-security\nComponents: main\n"
    )
    folder = written(tmp_path, debian_sources=text)
    assert sources(WANTED, folder) == (
        "Types: deb\nURIs: http://near.test/debian\nSuites: bookworm sid\nComponents: main\n"
        "Signed-By: /keys/near.gpg\n\n"
        "Types: deb\nURIs: http://near.test/debian-security\nSuites: bookworm-security\nComponents: main\n"
    )
    assert debian(folder).keyring == Path("/keys/near.gpg")


def test_lines_and_their_options_are_read_too_and_suites_that_no_archive_has_are_left_out(tmp_path: Path) -> None:
    line = (
        "deb [arch=amd64 signed-by=/a.gpg,/b.gpg trusted=yes] https://near.test/debian/ bookworm main non-free # near"
    )
    folder = written(tmp_path, list=f"# deb http://old.test/debian buster main\n{line}\n")
    assert sources(WANTED, folder) == (
        "Types: deb\nURIs: https://near.test/debian/\nSuites: bookworm sid\nComponents: main\n"
        "Signed-By: /a.gpg /b.gpg\nTrusted: yes\n"
    )
    assert debian(folder).keyring is None


def test_a_key_that_stands_in_the_file_stays_whole(tmp_path: Path) -> None:
    key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQIN/x\n -----END PGP PUBLIC KEY BLOCK-----\n"
    text = f"Types: deb\nURIs: http://near.test/debian\nSuites: sid\nComponents: main\n{key}"
    folder = written(tmp_path, debian_sources=text)
    assert sources(["sid"], folder) == text
    assert debian(folder).keyring is None


def test_what_is_switched_off_or_not_debians_is_passed_over(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        debian_sources="Types: deb\nURIs: http://near.test/debian\nSuites: sid\nComponents: main\nEnabled: no\n",
        other_list="deb http://other.test/linux/debian bookworm stable\ndeb http://other.test/apt bookworm main\n",
        old_save="deb http://old.test/debian bookworm main\n",
    )
    with pytest.raises(NotAvailable, match=r"names no archive of Debian's packages; add one to .*sources.list.d"):
        sources(WANTED, folder)
