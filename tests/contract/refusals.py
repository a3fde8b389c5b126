"""What is said where a backend does not run a case, word for word; each such case names its entry in `refused`.

The caret stands under the construct; OPERAND stands for an operand as the compiler chose it.
"""

from __future__ import annotations

_NO_OWNER = "the kernel's events carry no user and group; --backend bcc can"

REFUSALS: dict[str, str] = {
    "uid": f"^^^ error: uid is not available with ftrace: {_NO_OWNER}",
    "gid": f"^^^ error: gid is not available with ftrace: {_NO_OWNER}",
    "username": f"^^^^^^^^ error: username is not available with ftrace: {_NO_OWNER}",
    "indexed": (
        "^^^^ error: arg1 at OPERAND is not available with ftrace:"
        " a fetch argument cannot add an index register to an address; --backend bcc can"
    ),
    "shared": (
        "^^^^^^^^^ error: @c as a value is not available with bcc: BPF programs do not see what is aggregated in user"
        " space; --backend ftrace can"
    ),
    "length": (
        "^^^^^^^ error: len(@c) is not available with bcc: BPF programs cannot see all keys of a map, and user"
        " space removes what they clear; --backend ftrace can"
    ),
    "stack": (
        "^^^^^^^^^ error: a stack that is not only shown or counted is not available with bcc: the calls on a stack"
        " may be known only after the hit; @[ustack] = count() counts stacks, stack_unwind = fp walks them at the"
        " hit; --backend ftrace can"
    ),
    "series": (
        "^^^^^^ error: len(@) is not available with bcc: user space keeps the values of tseries();"
        " --backend ftrace can"
    ),
    "walk": (
        "^^^^^^^^^^^^^^ error: for over @n is not available with bcc: BPF programs walk the map itself, not a"
        " copy, so they may or may not meet new keys; --backend ftrace can"
    ),
}
"""The message and the carets before it."""

CONSTRUCTS = {
    "uid": "uid",
    "gid": "gid",
    "username": "username",
    "indexed": "arg1",
    "shared": "(int64)@c",
    "length": "len(@c)",
    "stack": "ustack(1)",
    "series": "len(@)",
    "walk": "for ($kv : @n)",
}
"""What the carets point at: the first place of this text in the program."""
