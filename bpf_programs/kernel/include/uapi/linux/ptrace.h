#pragma once

/* The registers at a hit, as the kernel hands them to a program (asm/ptrace.h of each architecture). */
#if defined(__aarch64__)
struct pt_regs {
	unsigned long regs[31];
	unsigned long sp, pc, pstate;
};
#else
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#endif
