"""`python -m tests.vm.meet FILE`: writes for a guest which cases meet a backend (`tests.harness.legs.KNOWN`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.contract import legs as contract
from tests.suite import legs as suite

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({"contract": sorted(contract.MEET), "suite": sorted(suite.MEET)}))
