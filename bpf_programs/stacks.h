/*
 * User stacks by unwind tables. RULES has a rule for each address that was seen on a stack; user space fills it. If a
 * hit meets an address without a rule, it sends its registers and the top of its stack to user space, and puts a
 * number in the place of the stack. User space walks the copy, adds the rules, and replaces the number by the frames.
 *
 * If that address is beyond the copied part, or in another stack (the one that a signal interrupted, if the handler
 * has its own), the copy begins at its frame, and the frames before it are sent too. So each such hit gets one copy
 * further, until all rules are there.
 */
#pragma once

enum { FRAME_PLAIN, FRAME_LAST, FRAME_ENTRY, FRAME_POINTER, FRAME_SIGNAL, FRAME_NOTHING, FRAME_BROKEN };

/* An address in a process; `process` is twice its space_id(), and one more where a thread is there: where a call
 * returns to, the rule is that of the instruction before. */
struct frame_place {
	u64 address, process;
};

/* The frame's end is `base` (0 rsp, 1 rbp) + `cfa`; rbp is saved `fp` bytes from there, unless that is 0. `state` is the
 * number of what the process has mapped, which tells whose name an address has. The rule is right where the process's
 * mappings have not changed since `sequence`, or where `mapping` still lies at the address, if that is `known`. */
struct frame_rule {
	s32 cfa;
	s16 fp;
	u8 kind, base;
	u32 state, sequence, mapping, known;
};

/* A rule of a process that changes its mappings so often that nothing is known of them for long. */
#define KNOWN_NEVER 2

/* The size of the first copy, and of the copy of a longer stack. STACK_PIECES is given where a program sets
 * stack_copy. */
#define STACK_PIECE 512
#ifdef STACK_PIECES
#define DEEP_STACK_PIECES STACK_PIECES
#else
#define STACK_PIECES 32
#define DEEP_STACK_PIECES 127
#endif

/* `process` is that of a frame_place; the frames `before` the copy stand behind the room for the bytes, which ends at
 * `room`. */
struct stack_copy {
	u64 record, number, process, frames, size, before, room;
	u64 registers[17];
	char bytes[];
};

/* How a stack ended that was walked here, as `walker` has it: counted behind the causes of losses, in the order of
 * maps/stacks.py. The last has no count: user space goes on. */
enum {
	ENDED_LIMIT = LOSS_CAUSES, ENDED_WHOLE, ENDED_NO_CODE, ENDED_RETURN_PROBE, ENDED_NO_RULE, ENDED_NO_PROGRESS,
	ENDED_ELSEWHERE, RULE_MISSING
};

/* Linux maps its page for return probes as high as it can. */
#define RETURN_PROBE_PAGE 0x7FFFFFFFEULL

/* No address of user space: a stack that has only this one stands for a copy. */
#define PENDING (1ULL << 63)

static void *(*ring_reserve)(unsigned long map, u64 size, u64 flags) = (void *)131;
static void (*ring_submit)(void *record, u64 flags) = (void *)132;

/* Where the kernel puts the registers of what a signal interrupts, from the stack pointer at which the handler returns
 * (struct ucontext in arch/x86/include/uapi/asm/ucontext.h). */
#define SIGNAL_FP 120
#define SIGNAL_SP 160
#define SIGNAL_IP 168

/* The process, and above its number one that exec raises (self_exec_id): the same address is another place then. */
static __always_inline u64 space_id(void)
{
	u64 process = process_id();
#if PROGRAMS
	u32 program = 0;

	read_kernel(&program, sizeof(program), current_task() + OF_KERNEL(10));
	process |= (u64)program << 32;
#endif
	return process;
}

/* A number that each change of the process's mappings raises (Linux 6.4); 0 where it is not known. */
static __always_inline u32 mapping_sequence(void)
{
	u32 sequence = 0;
#if SEQUENCED
	u64 memory = 0;

	read_kernel(&memory, sizeof(memory), current_task() + OF_KERNEL(11));
	read_kernel(&sequence, sizeof(sequence), memory + OF_KERNEL(12));
#endif
	return sequence;
}

/* Whether a rule is still that of what lies at its address. */
static __always_inline bool holds(struct frame_rule *rule, u32 sequence, u64 address)
{
#if SEQUENCED
	u32 number = 0;

	if ((rule->sequence == sequence && rule->known) || rule->known == KNOWN_NEVER)
		return true;
	if (number_mapping(address, &number) == -BUSY)
		return true;
	if (rule->known ? rule->mapping != number : rule->sequence != sequence)
		return false;
	rule->mapping = number;
	rule->known = 1;
	rule->sequence = sequence;
#endif
	return true;
}

/* The state of a walk. */
struct frame_state {
	u64 ip, sp, fp;
};

static __always_inline s64 copy_pieces(struct pt_regs *ctx, u64 *to, u32 frames, u64 process, u64 wakeup, u32 pieces, u32 before,
				       const struct frame_state *from)
{
	struct stack_copy *copy = ring_reserve(RING, sizeof(*copy) + STACK_PIECE * pieces + 8 * frames, 0);
	u64 sp = from->sp, size = 0, known;

	if (!copy) {
		lose(LOST_STACKS);
		return 0;
	}
	copy->record = STACK_RECORD;
	copy->number = PENDING | (u64)current_cpu() << 48 | (monotonic_ns() & 0xffffffffffffULL);
	copy->process = process;
	copy->frames = frames | (u64)mapping_sequence() << 32;
	copy->registers[0] = REGISTER(ax);
	copy->registers[1] = REGISTER(bx);
	copy->registers[2] = REGISTER(cx);
	copy->registers[3] = REGISTER(dx);
	copy->registers[4] = REGISTER(si);
	copy->registers[5] = REGISTER(di);
	copy->registers[6] = from->fp;
	copy->registers[7] = sp;
	copy->registers[8] = from->ip;
	copy->registers[9] = REGISTER(r8);
	copy->registers[10] = REGISTER(r9);
	copy->registers[11] = REGISTER(r10);
	copy->registers[12] = REGISTER(r11);
	copy->registers[13] = REGISTER(r12);
	copy->registers[14] = REGISTER(r13);
	copy->registers[15] = REGISTER(r14);
	copy->registers[16] = REGISTER(r15);
#pragma clang loop unroll(disable)
	for (u32 piece = 0; piece < pieces; piece++) {
		char *into = copy->bytes + STACK_PIECE * piece;
		u64 rest = -(sp + size) & (STACK_PIECE - 1);

		if (peek_user(into, STACK_PIECE, (void *)(sp + size))) {
			/* The program may not have touched the next page; memory up to its start can be read. */
			if (rest && !peek_user(into, rest, (void *)(sp + size)))
				size += rest & ~7ULL;
			break;
		}
		size += STACK_PIECE;
	}
	copy->size = size;
	copy->room = STACK_PIECE * pieces;
	/* Read back: the verifier would go through all that follows once for each number of frames that it knows. */
	*(volatile u64 *)&copy->before = before;
	known = *(volatile u64 *)&copy->before;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < known; i++) {
		OPAQUE(i); /* or LLVM counts down from the lesser of the two, which the verifier does not understand */
		if (i >= frames)
			break;
		((u64 *)(copy->bytes + STACK_PIECE * pieces))[i] = to[i];
	}
	to[0] = copy->number;
	ring_submit(copy, wakeup);
	return 8;
}

/* `now`: where the walk met an address without a rule. Half of the longest copy leaves room behind it. */
static __always_inline s64 copy_stack(struct pt_regs *ctx, u64 *to, u32 frames, u64 process, u64 wakeup, u32 before,
				      const struct frame_state *now)
{
	struct frame_state from = {REGISTER(ip), REGISTER(sp), REGISTER(bp)};
	u64 word;

	if (now->sp - from.sp >= STACK_PIECE * DEEP_STACK_PIECES / 2) {
		from = *now;
	} else {
		before = 0;
		process |= 1;
	}
	if (DEEP_STACK_PIECES > STACK_PIECES && !peek_user(&word, sizeof(word), (void *)(from.sp + STACK_PIECE * STACK_PIECES)))
		return copy_pieces(ctx, to, frames, process, wakeup, DEEP_STACK_PIECES, before, &from);
	return copy_pieces(ctx, to, frames, process, wakeup, STACK_PIECES, before, &from);
}

/* The frames of the user stack, `frames` of them at most; their length in bytes. `process` is its space_id(); `state`
 * becomes that of the rules. The walk is that of `walker` in resolve/unwind: both have to end at the same frame. */
static __always_inline s64 walk_stack(struct pt_regs *ctx, u64 *to, u32 frames, u64 process, u64 wakeup, u64 *state)
{
	u64 ip = REGISTER(ip), sp = REGISTER(sp), fp = REGISTER(bp);
	struct frame_place place = {0, process << 1 | 1};
	u64 found = 0, ended = ENDED_LIMIT, unknown;
	u32 sequence = mapping_sequence();

	/* Zero, which the verifier does not know: it follows each number that it knows by itself from the loop on. */
	*(volatile u64 *)to = 0;
	unknown = *(volatile u64 *)to;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < frames; i++) {
		u64 cfa, saved = 0, signal = 0;
		u32 astray = ENDED_NO_PROGRESS, unread = ENDED_ELSEWHERE;
		struct frame_rule *rule;

		place.address = ip;
		rule = map_lookup(RULES, &place);
		if (!rule || !holds(rule, sequence, ip - !(place.process & 1))) {
			ended = RULE_MISSING;
			break;
		}
		if (rule->kind == FRAME_NOTHING) {
			ended = ip >> 12 == RETURN_PROBE_PAGE ? ENDED_RETURN_PROBE : ENDED_NO_CODE;
			break;
		}
		to[i] = ip;
		found = i + 1;
		*state = rule->state;
		if (rule->kind == FRAME_LAST || rule->kind == FRAME_BROKEN) {
			ended = rule->kind == FRAME_LAST ? ENDED_WHOLE : ENDED_NO_RULE;
			break;
		}
		if (rule->kind == FRAME_PLAIN) {
			cfa = (rule->base ? fp : sp) + (s64)rule->cfa;
			saved = rule->fp ? cfa + (s64)rule->fp : 0;
		} else if (rule->kind == FRAME_ENTRY) {
			cfa = sp + 8;
		} else if (rule->kind == FRAME_POINTER) {
			astray = unread = ENDED_NO_RULE;
			if (!fp || fp & 7) {
				ended = fp ? astray : ENDED_WHOLE;
				break;
			}
			cfa = fp + 16;
			saved = fp;
		} else {
			signal = 1;
			cfa = sp + SIGNAL_IP + 8;
			saved = sp + SIGNAL_FP;
		}
		if (cfa <= sp) {
			ended = astray;
			break;
		}
		if ((saved && peek_user(&fp, sizeof(fp), (void *)saved)) || peek_user(&ip, sizeof(ip), (void *)(cfa - 8)) ||
		    (signal && peek_user(&cfa, sizeof(cfa), (void *)(sp + SIGNAL_SP)))) {
			ended = unread;
			break;
		}
		if (!ip) {
			ended = ENDED_WHOLE;
			break;
		}
		sp = cfa;
		place.process = process << 1 | signal;
	}
	ended += unknown;
	found += unknown;
	if (ended == RULE_MISSING) {
		struct frame_state now = {ip, sp, fp};

		return copy_stack(ctx, to, frames, place.process, wakeup, found, &now);
	}
	/* What is behind the last frame that was wanted is nobody's loss. */
	lose(found == frames && ended != ENDED_WHOLE ? ENDED_LIMIT : ended);
	return 8 * (found > frames ? frames : found);
}

/* The same for a hit that the program comes to in the kernel, or is interrupted by: by the registers that it has there.
 * The kernel's own threads have none (arch/x86/kernel/process.c, copy_thread), and its workers for io_uring no place. */
static __always_inline s64 walk_stopped(u64 *to, u32 frames, u64 process, u64 wakeup, u64 *state)
{
	struct pt_regs *ctx = (struct pt_regs *)task_registers(current_task_object());

	if (!REGISTER(ip))
		return 0;
	return walk_stack(ctx, to, frames, process, wakeup, state);
}
