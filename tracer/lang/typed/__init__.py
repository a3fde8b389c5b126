"""The typed program: what `analyse` makes of the AST, and what every later stage works on.

Every expression carries its type and the span of the user's text it came from. All conversions are explicit here
(`Cast`): both operands of an arithmetic `Binary` have the type of its result, both operands of a comparison have one
type, and what is stored in a map has the type its `MapDecl` states. Literals are folded as far as they go; `unroll` is
already expanded, and keys written `@[(a, b)]` are the same as `@[a, b]`.

Semantics shared by the C that BCC compiles and by the Python of what runs in user space:

* Integers wrap at their width. Division and remainder truncate towards zero; by zero both are 1, as in
  bpftrace, and counted in `Loss.divisions`. Shift counts are taken modulo 64. `>>` of a signed value keeps the sign.
* `&&`, `||` and `?:` evaluate only what they need. Comparisons and logical operators give `bool`.
* Operands, arguments and the parts of a key are evaluated from left to right; an assigned value before the key of the
  map it goes to, as bpftrace does it.
* A missing map key reads as 0, "" or a tuple of those. Reading does not create the key.
* `Str` of address 0 is "". `Str`, `Load` or an argument in memory that cannot be read ends the clause at that point for
  that hit, and the hit is counted in `Loss.unreadable`: never a made-up value.
* So does an index outside its array (`Within`); in BEGIN, END and intervals it ends only the statement that it is in.
* A string longer than its buffer is cut to size - 1 bytes and counted in `Loss.truncated`, unless the program itself
  gave the size (`str(x, 16)`): once at a hit for each `str(…)` whose address is fixed there (`told_once`), else each
  time it is read. `str(x, n)` needs no byte of memory behind the n - 1 that it shows; `str(x, 1)` needs none.
* All `While` and `ForRange` of a clause run `LOOP_LIMIT` rounds together at a hit, in user space `LOCAL_LOOP_LIMIT`.
  In a probe `ForMap` inside of another loop takes a round for each 16 keys that the map has room for. A hit whose loops
  want more is counted in `Loss.loops`, once.
* `Exit` ends the clause; no hit of any clause after it counts.
"""

from __future__ import annotations

from tracer.lang.typed.expressions import *  # noqa: F403 - every node is `typed.Node`
from tracer.lang.typed.program import *  # noqa: F403 - as above
from tracer.lang.typed.statements import *  # noqa: F403 - as above

LOOP_LIMIT = 1 << 17
"""Rounds of a hit, some milliseconds for which the traced program waits."""
LOCAL_LOOP_LIMIT = 1 << 22
"""Rounds of BEGIN, END and of one interval, which run in user space."""
