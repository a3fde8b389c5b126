"""What `check` says where a backend does not run a case: the whole of stderr, without the line of the program.

Each case that names a backend in `refused` names an entry here.
"""

from __future__ import annotations

REFUSALS: dict[str, str] = {}
