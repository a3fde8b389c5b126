"""What programs become: the steps of a clause as `-d steps` shows them. The arguments: arg0 is an int32 in a register,
arg1 a pointer in a register, arg3 a number in memory.
"""

from __future__ import annotations

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.steps.dump import dump

PROGRAMS = {
    "an address through variables is the argument plus a constant": (
        '{ $p = arg1; $q = $p + 16; @ = str($q - 8); }',
        """
            t0 = arg1, as a base
            t1 = str(uint64((t0 + 8)))
            @ = t1
        """,
    ),
    "memory at a constant address is a part of the hit, and so is what its pointers lead to": (
        '{ $p = 0x404040; @ = str(*(uint64 *)($p + 8) + 2); }',
        """
            t0 = *(uint64 *)4210760, as a base
            t1 = str(uint64((t0 + 2)))
            @ = t1
        """,
    ),
    "one of two addresses is read where it was chosen": (
        '{ $p = arg0 > 3 ? arg1 : arg1 + 8; @ = str($p); }',
        """
            t0 = arg0
            t2 = arg1, as a base
            if (t0 > 3)
              t3 = str(t2)
              t5 = t3
            else
              t4 = str(uint64((t2 + 8)))
              t5 = t4
            @ = t5
        """,
    ),
    "one of two addresses whose arguments are in memory": (
        '{ $p = arg0 > 3 ? arg1 : arg3; @ = str($p); }',
        """
            t0 = arg0
            t2 = arg1, as a base
            t1 = (t0 > 3)
            if t1
            else
              t3 = arg3
            if t1
              t5 = str(t2)
              t8 = t5
            else
              t6 = arg3, as a base
              t7 = str(t6)
              t8 = t7
            @ = t8
        """,
    ),
    "one of two addresses, of which one is a pointer in memory": (
        '{ @ = str(arg0 & 1 ? arg1 : *(uint64 *)(arg1 + 8)); }',
        """
            t0 = arg0
            t2 = arg1, as a base
            if ((t0 & 1) != 0)
              t3 = str(t2)
              t6 = t3
            else
              t4 = *(uint64 *)uint64((t2 + 8)), as a base
              t5 = str(t4)
              t6 = t5
            @ = t6
        """,
    ),
    "one of three addresses, with a constant added": (
        '{ @ = str((arg0 < 3 ? arg1 : (arg0 < 6 ? arg1 + 16 : arg1 + 24)) + 8, 32); }',
        """
            t0 = arg0
            t2 = arg1, as a base
            if (t0 < 3)
              t3 = str(uint64((t2 + 8)), 32)
              t8 = t3
            else
              if (t0 < 6)
                t5 = str(uint64((t2 + 24)), 32)
                t7 = t5
              else
                t6 = str(uint64((t2 + 32)), 32)
                t7 = t6
              t8 = t7
            @ = t8
        """,
    ),
    "a pointer loaded from memory is a base": (
        '{ $n = *(uint64 *)(arg1 + 8); @ = str($n + 4); }',
        """
            t0 = arg1, as a base
            t1 = *(uint64 *)uint64((t0 + 8)), as a base
            t2 = str(uint64((t1 + 4)))
            @ = t2
        """,
    ),
    "a fetch is shared by all that come after it on every path": (
        '{ @[str(arg1), str(arg1)] = count(); if (arg0 == 1) { @[str(arg1), comm] = count(); } }',
        """
            t0 = arg1, as a base
            t2 = arg0
            t1 = str(t0)
            update @[t1, t1]
            if (t2 == 1)
              t3 = comm
              update @[t1, string[1024](t3)]
        """,
    ),
    "a cut is counted once at a hit wherever the string is read": (
        '{ if (arg0 == 1) { @a[str(arg1)] = count(); } else { @b[str(arg1)] = count(); } }',
        """
            t0 = arg0
            t1 = arg1, as a base
            if (t0 == 1)
              t2 = str(t1), cut counted once (0)
              update @a[t2]
            else
              t3 = str(t1), cut counted once (0)
              update @b[t3]
        """,
    ),
    "in a loop as well": (
        '{ $i = 0; while ($i < 3) { $i++; @ = str(arg1); } }',
        """
            slot0: int64
            t2 = arg1, as a base
            slot0 = 0
            loop
              t0 = slot0
              break unless (t0 < 3)
              take 1 of 131072 rounds
              slot0 = int64((t0 + 1))
              t3 = str(t2), cut counted once (0)
              @ = t3
        """,
    ),
    "but not of an address that changes": (
        '{ $i = 0; while ($i < 3) { $i++; @ = str(arg1 + $i); } }',
        """
            slot0: int64
            t2 = arg1
            slot0 = 0
            loop
              t0 = slot0
              break unless (t0 < 3)
              take 1 of 131072 rounds
              t1 = int64((t0 + 1))
              slot0 = t1
              t4 = str(uint64((t2 + uint64(t1)))), computed
              @ = t4
        """,
    ),
    "division, remainder and shifts say what they do": (
        '{ @ = (int64)arg0 / (int64)arg3; @r = arg0 % 8; @m = arg0 % arg3; @s = arg0 << arg3; }',
        """
            t0 = arg0
            t1 = arg3
            if (t1 != 0)
              t2 = int64((t0 / t1))
            else
              count a division by zero
              t2 = 1
            @ = t2
            @r = (t0 % 8)
            if (t1 != 0)
              t3 = (t0 % t1)
            else
              count a division by zero
              t3 = 1
            @m = t3
            @s = int64((t0 << (t1 & 63)))
        """,
    ),
    "values wrap where they can leave their type": (
        '{ @ = (uint8)arg0 + (uint8)1; @b = (arg0 & 15) + 1; @c = (int64)(int8)arg0; }',
        """
            t0 = arg0
            @ = (uint64(uint8(t0)) + 1)
            @b = ((t0 & 15) + 1)
            @c = int64(int8(t0))
        """,
    ),
    "print and clear mean one moment": (
        '{ print(@); time("x"); clear(@); @ = count(); }',
        """
            t0 = moment to clear @
            print @ until t0
            time 0
            clear @ as of t0
            update @
        """,
    ),
    "constants are folded and dead values dropped": (
        '{ $x = 5; $x = $x + 1; $y = arg0 * 3; @ = $x * 2; }',
        """
            t0 = arg0
            @ = 12
        """,
    ),
    "a predicate is left part by part": (
        '/arg0 > 3 && str(arg1) != "tea" && (arg3 || comm == "x")/ { @ = count(); }',
        """
            t0 = arg0
            t1 = arg1, as a base
            leave unless (t0 > 3)
            t2 = str(t1)
            leave unless !(t2 == string[1024]("tea"))
            t3 = arg3
            t4 = comm
            leave unless ((t3 != 0) || (t4 == string[16]("x")))
            update @
        """,
    ),
    "the right side of a logical operator runs where it decides": (
        '{ if (arg0 == 1 || str(arg1) == "tea") { @ = 1; } }',
        """
            t0 = arg0
            t1 = arg1, as a base
            if (t0 == 1)
              t3 = true
            else
              t2 = str(t1)
              t3 = (t2 == string[1024]("tea"))
            if t3
              @ = 1
        """,
    ),
    "operands keep their values when a later one changes the variable": (
        '{ $x = (int64)arg0; @ = $x++ + $x; }',
        """
            t0 = arg0
            @ = int64((t0 + int64((t0 + 1))))
        """,
    ),
    "string functions": (
        '{ if (strcontains(str(arg1), "a")) { @ = 1; } @n = strncmp(comm, "ab", 2); }',
        """
            t0 = arg1, as a base
            t1 = str(t0)
            if (find(t1, "a") != -1)
              @ = 1
            t2 = comm
            @n = uint64(!starts(t2, "ab", 2))
        """,
    ),
    "an addition whose old value nobody needs is plain": (
        '{ $n = @[arg0]++; @[arg0]++; @m = $n; }',
        """
            t0 = arg0
            t1 = add 1 to @[t0]
            add 1 to @[t0]
            @m = t1
        """,
    ),
    "a map is read once until it changes": (
        '{ @a = @x + @x; @x = @a; @b = @x; }',
        """
            t0 = @x
            @a = int64((t0 + t0))
            t1 = @a
            @x = t1
            t2 = @x
            @b = t2
        """,
    ),
    "a signal whose number is not known before is sent where there is one of that number": (
        '{ signal(arg0); signal_thread("kill"); }',
        """
            t0 = arg0
            t1 = uint32(t0)
            if (uint32((t1 - 1)) >= 64)
              printf 1(t1)
            else
              t2 = signal t1
              if (t2 != 0)
                printf 0(t2)
            t3 = signal 9 to the thread
            if (t3 != 0)
              printf 2(t3)
        """,
    ),
    "a value of a series has its moment, which is nsecs": (
        '{ @[arg0] = tseries((int32)arg1, 1s, 5, "avg"); @n = nsecs; }',
        """
            t0 = arg1
            t1 = arg0
            t2 = nsecs
            update @[t1] with int64(int32(t0)) at t2
            @n = t2
        """,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps(name: str) -> None:
    body, expected = PROGRAMS[name]
    plan = plan_of(probe(body), unsafe=True)
    lines = [line.removeprefix(" " * 12) for line in expected.strip("\n ").splitlines()]
    assert list(dump(plan.steps[plan.program.clauses[0].id])) == lines
