from __future__ import annotations

import re

import pytest

from scripts.lab import LabError
from scripts.lab.build import FRAGMENT, not_taken
from scripts.lab.fetch import newest
from scripts.lab.kernels import KERNELS, kernel

OFFERED = [
    "linux-image-5.10.0-9-amd64",
    "linux-image-5.10.0-46-amd64-unsigned",
    "linux-image-5.10.0-46-amd64",
    "linux-image-5.10.0-46-amd64-dbg",
    "linux-image-6.1.0-0.deb11.50-amd64",
    "linux-image-6.1.0-9-amd64",
    "linux-image-6.1.0-56-amd64-unsigned",
    "linux-image-6.1.0-56-cloud-amd64",
    "linux-image-6.1.0-56-rt-amd64",
    "linux-image-6.12.9+deb12-amd64",
    "linux-image-6.12.117+deb12-amd64-unsigned",
    "linux-image-6.12.117+deb12-cloud-amd64-unsigned",
    "linux-image-7.2.9+deb14-amd64",
    "linux-image-7.2.13+deb14-amd64",
    "linux-image-7.2.13+deb14-rt-amd64",
    "linux-image-amd64",
]


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("5.10", "linux-image-5.10.0-46-amd64"),
        ("6.1", "linux-image-6.1.0-56-amd64-unsigned"),
        ("6.1-lockdown", "linux-image-6.1.0-56-amd64-unsigned"),
        ("7.2", "linux-image-7.2.13+deb14-amd64"),
        ("6.12", "linux-image-6.12.117+deb12-amd64-unsigned"),
    ],
)
def test_the_newest_image_by_number_is_chosen_and_no_variant_of_it(name: str, package: str) -> None:
    pattern = kernel(name).package
    assert pattern is not None
    assert newest(pattern, OFFERED) == package
    assert newest(pattern, ["linux-image-amd64"]) is None


def test_kernels_have_names_of_their_own_and_each_a_backend() -> None:
    assert len({each.name for each in KERNELS}) == len(KERNELS)
    assert all(each.backends for each in KERNELS)
    with pytest.raises(LabError, match=re.escape("no kernel 6.2; there are nobpf, 6.1, ")):
        kernel("6.2")


def test_a_line_that_the_configuration_did_not_take_is_found() -> None:
    fragment = '# a comment\nCONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_C is not set\nCONFIG_D="-x"\n'
    assert not_taken(fragment, 'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_D="-x"\n') == []
    assert not_taken(fragment, 'CONFIG_B=y\nCONFIG_D="-y"\n') == [
        "CONFIG_A=y",
        "# CONFIG_B is not set",
        'CONFIG_D="-x"',
    ]


def test_the_fragment_leaves_out_what_it_is_for() -> None:
    lines = FRAGMENT.read_text().splitlines()
    assert "# CONFIG_BPF_SYSCALL is not set" in lines
    assert {"CONFIG_UPROBE_EVENTS=y", "CONFIG_HIST_TRIGGERS=y"} <= set(lines)
