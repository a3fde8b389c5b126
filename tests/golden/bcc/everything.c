#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define FULL_MAPS 32
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 1024
#define RULES MAP(1004)
#define STACK_RECORD 0
/* MAP(4) and, for longer keys, MAP(5) and MAP(6) hold @: per CPU hash of u64 */
/* MAP(7) holds @m: per CPU hash of u64, larger is further out, mark in the key */
/* MAP(8) holds @o: shared hash of value */
/* MAP(9) holds @n: per CPU array of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
	u64 pending[5];
	u64 mark[1];
};

struct scratch {
	u64 busy;
	u64 b_129_1_0_used[1];
	u64 b_129_1_0[129];
	u64 b_128_0_0_used[1];
	u64 b_128_0_0[128];
	u64 record[136];
};

#include "prelude.h"
#include "places.h"
#include "stacks.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;
	u64 b_0[2];
	u64 b_7[1];
	u64 key_9[3];
	u64 key_16[1];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 address_1 = REGISTER(si);
	__builtin_memset(b_0, 0, 16);
	s64 length_2 = read_sized_text(b_0, 16, address_1, 16);
	if (failed(length_2))
		goto unreadable;
	u64 address_3 = REGISTER(si);
	clear_text((char *)(scratch->b_129_1_0 + 1), 1024, &scratch->b_129_1_0_used[0]);
	s64 length_4 = read_user_text(scratch->b_129_1_0 + 1, 1024, address_3);
	if (failed(length_4))
		goto unreadable;
	check_cut(length_4, 1024, address_3, 0);
	scratch->b_129_1_0_used[0] = length_4;
	u64 at_5 = 32;
	s64 length_6 = copy_kernel_text((char *)scratch->record + at_5, 16, b_0);
	scratch->record[1] = length_6;
	ADVANCE(at_5, length_6, 16);
	copy_kernel_text((char *)scratch->record + at_5, 1024, scratch->b_129_1_0 + 1);
	scratch->record[3] = in_use(&scratch->b_129_1_0_used[0]);
	ADVANCE(at_5, in_use(&scratch->b_129_1_0_used[0]), 1024);
	scratch->record[0] = 1;
	scratch->record[2] = (s64)(s32)REGISTER(di);
	emit(scratch->record, at_5, control->wakeup);
	scratch->b_129_1_0[0] = (b_0[0] & 0xffffffffULL) == 0x616574ULL;
	if (!((char *)scratch->b_129_1_0)[71])
		counter_add(MAP(4), scratch->b_129_1_0, 1, NULL);
	else if (!((char *)scratch->b_129_1_0)[263])
		counter_add(MAP(5), scratch->b_129_1_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_129_1_0, 1, NULL);
	b_7[0] = 0x78ULL;
	if ((s64)(s32)REGISTER(di) > 3LL && find(scratch->b_129_1_0 + 1, 128, b_7, 1, 1) != (-1LL)) {
		s64 t4 = 0;
		if (read_user(&t4, 8, REGISTER(sp) + REGISTER(ax) * 8 + 16))
			goto unreadable;
		u64 t5 = thread_id();
		u64 value_8 = SIGNED_MAX(t4);
		key_9[2] = t5;
		key_9[0] = 0;
		key_9[1] = control->mark[0];
		extreme_raise(MAP(7), key_9, value_8, NULL);
		u64 at_10 = 40;
		u64 address_11 = REGISTER(si) + 8ULL;
		s64 length_12 = read_user_text((char *)scratch->record + at_10, 1024, address_11);
		if (failed(length_12))
			goto unreadable;
		check_cut(length_12, 1024, address_11, 0);
		scratch->record[2] = length_12;
		ADVANCE(at_10, length_12, 1024);
		FORGET(at_10, 1064, scratch->record[3]);
		u64 space_13 = space_id();
		u64 state_14 = 0;
		s64 length_15 = walk_stack(ctx, (u64 *)((char *)scratch->record + at_10), 3, space_13, control->wakeup, &state_14);
		scratch->record[3] = (u32)space_13 | state_14 << 32;
		scratch->record[4] = length_15;
		ADVANCE(at_10, length_15, 24);
		scratch->record[0] = 2;
		scratch->record[1] = 1LL;
		emit(scratch->record, at_10, control->wakeup);
	}
	if ((s64)(s32)REGISTER(di) > 1LL) {
		clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
		copy_lines(scratch->b_128_0_0, 1024, scratch->b_129_1_0 + 1, &scratch->b_129_1_0_used[0]);
		scratch->b_128_0_0_used[0] = in_use(&scratch->b_129_1_0_used[0]);
	}
	else {
		clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
		scratch->b_128_0_0[0] = 0x6c6c616d73ULL;
		scratch->b_128_0_0_used[0] = 5;
	}
	key_16[0] = 0;
	assign(MAP(8), key_16, scratch->b_128_0_0, NULL);
	s64 t9 = 0LL;
	#pragma clang loop unroll(disable)
	for (; t9 < 3LL; t9++) {
		array_counter_add(MAP(9), 0, 1);
	}
	u64 t10 = raise_mark(&control->mark[0], CLEARED);
	emit_raised(3, t10, control->wakeup);
	control->exiting = 1ULL;
	emit_control(4, &control->pending[4], control->wakeup);
	goto done;
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
