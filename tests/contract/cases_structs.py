"""Types declared as in C, over `shapes`: members, pointers, arrays, enums, and whole structs as values."""

from __future__ import annotations

from tests.contract.case import Case, by_hand, said
from tests.contract.expect import scalar, together

DECLARED = """
enum color { RED, GREEN = 5, BLUE };
struct point { short x, y; };
struct shape {
  int id; char name[8]; struct point at;
  union { unsigned value; unsigned short half; } bits;
  struct { unsigned char low, high; };
  enum color color;
  unsigned on : 1, kind : 7, level : 20;
  int depth : 5;
  unsigned char grid[2][3];
  struct point corners[3];
  struct shape *next;
  int (*area)(struct shape *);
  const char *label;
  long tail[];
};
"""
S = "$s = (struct shape *)arg0;"


def shapes(name: str, body: str, text: str, *json: str, declared: str = DECLARED, **more: object) -> Case:
    """A case of one hit of `show`: the body of its clause, and what it prints."""
    program = f"{declared} uprobe:T:show {{ {body} }}"
    return Case(name, program, by_hand(text, *json), target="shapes", rounds=1, **more)  # type: ignore[arg-type]


def printed(name: str, body: str, text: str, declared: str = DECLARED) -> Case:
    """The same where all is printed by printf, a line each."""
    lines = [f'{{"type": "printf", "data": "{line}\\n"}}' for line in text.split("\n")]
    return shapes(name, body, text + "\n", *lines, declared=declared)


WHOLE = (
    ".id = 7, .name = square, .at = { .x = 3, .y = -4 }, .bits = { .value = 65538, .half = 2 }, .low = 5, .high = 6,"
    " .color = GREEN, .on = 1, .kind = 100, .level = 70000, .depth = -3, .grid = [[1,2,3],[4,5,6]],"
    " .corners = [{ .x = 10, .y = 11 },{ .x = 12, .y = 13 },{ .x = 14, .y = 15 }]"
)
WHOLE_JSON = (
    '"id": 7, "name": "square", "at": {"x": 3, "y": -4}, "bits": {"value": 65538, "half": 2}, "low": 5, "high": 6,'
    ' "color": 5, "on": 1, "kind": 100, "level": 70000, "depth": -3, "grid": [[1,2,3],[4,5,6]],'
    ' "corners": [{"x": 10, "y": 11},{"x": 12, "y": 13},{"x": 14, "y": 15}]'
)

INDICES = {
    "a": (f"{S} @a = sum($s->corners[arg2].x)", 36, 7),
    "b": (f"{S} @b = sum($s->grid[1][arg2 - 2])", 4 + 5 + 6, 7),
    "c": (f"{S} $c = $s->corners; $i = (int32)arg2; @c = sum($c[$i + 1].y)", 13 + 15, 8),
    "d": (f"{S} @held[1] = $s->grid; @d = sum(@held[1][0][arg2])", 1 + 2 + 3, 7),
    "e": ("@e = sum(((uint8[4])(uint32)0x04030201)[arg2])", 10, 6),
    "f": (f"{S} @f = sum($s->name[arg2])", sum(b"square"), 2),
    "g": ('$t = "abc"; @g = sum($t[arg2])', sum(b"abc"), 6),
    "h": (f"{S} if (arg2 > 20 || $s->corners[arg2].x > 11) {{ @h = count(); }}", 2, 7),
    "i": (f"{S} for ($i : 0..(int64)arg2) {{ @i = sum($s->corners[$i].x); }}", 7 * 36 + 22 + 10, 6),
}
"""How an index of 0 to 9 is read, what of it comes to, and how many hits end at it."""


def outside() -> Case:
    """An index outside an array ends each clause that has it, and no other."""
    clauses = [f"uprobe:T:show {{ @n = count(); {body}; @after = count(); }}" for body, _, _ in INDICES.values()]
    program = " ".join([DECLARED, *clauses, "END { clear(@held); }"])
    hits, left = 10 * len(INDICES), sum(ended for _, _, ended in INDICES.values())
    totals = {**{name: total for name, (_, total, _) in INDICES.items()}, "n": hits, "after": hits - left}
    out = together(scalar(f"@{name}", totals[name]) for name in sorted(totals))
    more = {"target": "shapes", "rounds": 10, "unreadable": left}
    return Case("an_index_outside_an_array", program, out, len(INDICES) + 1, **more)  # type: ignore[arg-type]


CASES = [
    outside(),
    printed(
        "members_of_a_struct",
        f'{S} printf("%d %s %d %d %u %u %d %d\\n", $s->id, $s->name, $s->at.x, $s->at.y, $s->bits.value, $s->bits.half,'
        " $s->low, $s.high);",
        "7 square 3 -4 65538 2 5 6",
    ),
    printed(
        "bytes_of_a_char_array_behind_a_nul",
        '$h = *(struct head *)arg0; printf("%d %d %d\\n", $h.bits.text[2], $h.bits.text[1],'
        " ((struct head *)arg0)->bits.text[2]);",
        "1 0 1",
        declared="struct head { int id; char name[8]; int at; union { unsigned value; char text[4]; } bits; };",
    ),
    printed(
        "bit_fields_and_enums",
        f'{S} printf("%d %d %d %d %d %s\\n", $s->on, $s->kind, $s->level, $s->depth, $s->color, $s->color);'
        ' if ($s->color == GREEN) { printf("green %d %s\\n", BLUE, (enum color)6); }',
        "1 100 70000 -3 5 GREEN\ngreen 6 BLUE",
    ),
    printed(
        "arrays_in_a_struct",
        f'{S} printf("%d %d %d %d\\n", $s->grid[1][2], $s->corners[2].y, $s->tail[0], $s->tail[2]);'
        ' $g = $s->grid; printf("%d %d %c\\n", $g[0][1], sizeof($g), $s->name[1]);',
        "6 15 100 102\n2 6 q",
    ),
    printed(
        "a_struct_through_pointers",
        f'{S} printf("%d %s %s %d\\n", $s->next->id, $s->next->name, str($s->next->label), $s->next->next == 0);'
        ' $all = (struct shape **)arg1; printf("%d %s\\n", $all[1]->id, str((*$all)->label));',
        "8 full8888 another 1\n8 a label",
    ),
    shapes(
        "a_whole_struct_printed",
        "print(*(struct shape *)arg0); $p = ((struct shape *)arg0)->at; @p[$p] = 1; @at = ($p, $p.x);",
        f"{{ {WHOLE} }}\n@at: ({{ .x = 3, .y = -4 }}, 3)\n@p[{{ .x = 3, .y = -4 }}]: 1\n",
        f'{{"type": "value", "data": {{{WHOLE_JSON}}}}}',
        '{"type": "map", "data": {"@at": [{"x": 3, "y": -4},3]}}',
        '{"type": "map", "data": {"@p": {"{ .x = 3, .y = -4 }": 1}}}',
        declared=DECLARED.replace("struct shape *next;", "").replace("int (*area)(struct shape *);", "")
        .replace("const char *label;", "").replace("long tail[];", ""),
    ),
    printed(
        "a_packed_struct",
        '$r = (struct row *)arg3; printf("%c %d %d %d %d\\n", $r->tag, $r->number >> 40, $r->rest, $r->more,'
        " sizeof(*$r));",
        "r 1 5 1000 11",
        declared="struct __attribute__((packed)) row { char tag; long number; unsigned short rest : 3, more : 11; };",
    ),
    shapes(
        "bit_fields_of_bool",
        "$r = (struct row *)arg3; print(($r->a, $r->b)); print(*$r);",
        "(0, 1)\n{ .a = 0, .b = 1, .more = 28 }\n",
        '{"type": "value", "data": [0,1]}',
        '{"type": "value", "data": {"a": 0, "b": 1, "more": 28}}',
        declared="struct row { _Bool a : 1, b : 1; unsigned char more : 6; };",
    ),
    printed(
        "structs_kept_and_compared",
        f'{S} $a = $s->at; $b = $s->corners; @c[1] = $s->corners; printf("%d %d %d %d %d\\n", $a == $s->at,'
        " $a != $s->next->at, $b[1].x, @c[1][2].y, sizeof(@c[1]) - offsetof(struct shape, at)); clear(@c);",
        "1 1 12 15 0",
    ),
    printed(
        "an_index_that_is_computed",
        f"{S} $c = $s->corners; $i = (uint64)0; while ($i < 3) {{ @ += $c[$i].x; $i++; }}"
        ' printf("%d\\n", @); clear(@);',
        "36",
    ),
    said(
        "sizes_and_offsets",
        f"{DECLARED} BEGIN {{ printf(\"%d %d %d %d\\n\", sizeof(struct shape), offsetof(struct shape, at.y),"
        " sizeof(enum color), sizeof(unsigned long long));"
        " $p = container_of(112, struct shape, at); printf(\"%d %p\\n\", offsetof(*$p, corners), $p); exit(); }",
        "80 14 4 8\n40 0x64",
    ),
    said(
        "names_of_numbers",
        "#define LIMIT (3 + ONE)\n#define SIZE 4\n#define WORD \"text\"\nenum { ONE = 1, TWO, BIG = 1 << 20 };\n"
        'BEGIN { printf("%d %s %d %s %d\\n", LIMIT * 2, WORD, TWO, TWO, BIG); printf("[%5s] [%-5s]\\n", ONE, TWO);'
        ' printf("%d\\n", (uint8[SIZE])7 == (uint8[4])7); exit(); }',
        "8 text 2 TWO 1048576\n[  ONE] [TWO  ]\n1",
    ),
    said(
        "a_header_is_included",
        '#include <errno.h>\n#include <sys/time.h>\n#ifdef ENOENT\nBEGIN { printf("%d %d %d\\n", ENOENT,'
        " sizeof(struct timeval), offsetof(struct timeval, tv_usec)); exit(); }\n#else\nEND { nothing(); }\n#endif\n",
        "2 16 8",
    ),
]
