#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define FULL_MAPS 32
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 1024
/* MAP(4) and, for longer keys, MAP(5) hold @: shared hash of value, mark in the key */
/* MAP(6) holds @i: shared hash of value */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
	u64 pending[1];
	u64 mark[1];
};

struct scratch {
	u64 busy;
	u64 b_18_2_0_used[1];
	u64 b_18_2_0[18];
	u64 b_17_0_0_used[1];
	u64 b_17_0_0[17];
	u64 p_2_0[2];
	u64 p_1_0[1];
	u64 p_1_1[1];
};

#include "prelude.h"

struct probe_0_each_1 {
	u64 *key, *value, ended;
	struct pt_regs *ctx;
	struct control *control;
	struct scratch *scratch;
};

int probe_0_each_1(void *given)
{
	struct probe_0_each_1 *each = given;
	struct pt_regs *ctx = each->ctx;
	struct control *control = each->control;
	struct scratch *scratch = each->scratch;
	u64 ended = 0;

	scratch->p_2_0[0] = each->key[0];
	u64 address_3 = REGISTER(si);
	__builtin_memset(scratch->p_1_0, 0, 8);
	s64 length_4 = read_sized_text(scratch->p_1_0, 8, address_3, 8);
	if (failed(length_4))
		goto unreadable;
	if (same_text(scratch->p_1_0, scratch->b_17_0_0, 1)) {
		goto done;
	}
	scratch->p_1_1[0] = (s64)scratch->p_2_0[0];
	remove(MAP(6), scratch->p_1_1, NULL);
	goto next;
unreadable:
	lose(LOST_UNREADABLE);
done:
	ended = LEFT;
next:
	each->ended = ended;
	return ended != 0;
}

struct probe_0_each_0 {
	u64 *key, *value, ended, mark;
	struct pt_regs *ctx;
	struct control *control;
	struct scratch *scratch;
	u64 rounds;
	s64 v0;
};

int probe_0_each_0(void *given)
{
	struct probe_0_each_0 *each = given;
	struct pt_regs *ctx = each->ctx;
	struct control *control = each->control;
	struct scratch *scratch = each->scratch;
	u64 rounds = each->rounds ^ NOTHING_OF_ELEMENT(control);
	s64 v0 = each->v0;
	u64 ended = 0;

	if (each->key[1] != each->mark)
		goto next;
	clear_text((char *)(scratch->b_17_0_0), 128, &scratch->b_17_0_0_used[0]);
	scratch->b_17_0_0_used[0] = 64;
	copy_kernel_text(scratch->b_17_0_0, 64, each->key + 2);
	scratch->b_17_0_0[16] = (s64)*each->value;
	if ((s64)scratch->b_17_0_0[16] == 3LL) {
		ended = 1;
		goto next;
	}
	s64 t4 = v0;
	v0 = t4 + (s64)scratch->b_17_0_0[16];
	if (rounds > 130048) {
		rounds = 1099511627776;
		ended = 1;
		goto next;
	}
	rounds += 1024;
	struct probe_0_each_1 each_5 = {.ctx = ctx, .control = control, .scratch = scratch};
	walk(MAP(6), EACH(probe_0_each_1, 1), &each_5, 0);
	if (each_5.ended == LEFT)
		goto done;
	goto next;
done:
	ended = LEFT;
next:
	each->rounds = rounds;
	each->v0 = v0;
	each->ended = ended;
	return ended != 0;
}

struct probe_0_each_3 {
	u64 *key, *value, ended;
	struct pt_regs *ctx;
	struct control *control;
	struct scratch *scratch;
};

int probe_0_each_3(void *given)
{
	struct probe_0_each_3 *each = given;
	struct pt_regs *ctx = each->ctx;
	struct control *control = each->control;
	struct scratch *scratch = each->scratch;
	u64 ended = 0;

	scratch->p_2_0[0] = each->key[0];
	u64 address_7 = REGISTER(si);
	__builtin_memset(scratch->p_1_0, 0, 8);
	s64 length_8 = read_sized_text(scratch->p_1_0, 8, address_7, 8);
	if (failed(length_8))
		goto unreadable;
	if (same_text(scratch->p_1_0, scratch->b_17_0_0, 1)) {
		goto done;
	}
	scratch->p_1_1[0] = (s64)scratch->p_2_0[0];
	remove(MAP(6), scratch->p_1_1, NULL);
	goto next;
unreadable:
	lose(LOST_UNREADABLE);
done:
	ended = LEFT;
next:
	each->ended = ended;
	return ended != 0;
}

int probe_0_each_2(void *given)
{
	struct probe_0_each_0 *each = given;
	struct pt_regs *ctx = each->ctx;
	struct control *control = each->control;
	struct scratch *scratch = each->scratch;
	u64 rounds = each->rounds ^ NOTHING_OF_ELEMENT(control);
	s64 v0 = each->v0;
	u64 ended = 0;

	if (each->key[1] != each->mark)
		goto next;
	clear_text((char *)(scratch->b_17_0_0), 128, &scratch->b_17_0_0_used[0]);
	scratch->b_17_0_0_used[0] = 128;
	copy_kernel_text(scratch->b_17_0_0, 128, each->key + 2);
	scratch->b_17_0_0[16] = (s64)*each->value;
	if ((s64)scratch->b_17_0_0[16] == 3LL) {
		ended = 1;
		goto next;
	}
	s64 t4 = v0;
	v0 = t4 + (s64)scratch->b_17_0_0[16];
	if (rounds > 130048) {
		rounds = 1099511627776;
		ended = 1;
		goto next;
	}
	rounds += 1024;
	struct probe_0_each_3 each_9 = {.ctx = ctx, .control = control, .scratch = scratch};
	walk(MAP(6), EACH(probe_0_each_3, 3), &each_9, 0);
	if (each_9.ended == LEFT)
		goto done;
	goto next;
done:
	ended = LEFT;
next:
	each->rounds = rounds;
	each->v0 = v0;
	each->ended = ended;
	return ended != 0;
}

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;
	u64 rounds = 0;
	s64 v0 = 0;
	u64 key_11[1];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 address_0 = REGISTER(si);
	clear_text((char *)(scratch->b_18_2_0 + 2), 128, &scratch->b_18_2_0_used[0]);
	s64 length_1 = read_sized_text(scratch->b_18_2_0 + 2, 100, address_0, 100);
	if (failed(length_1))
		goto unreadable;
	scratch->b_18_2_0_used[0] = length_1;
	u64 value_2 = (s64)(s32)REGISTER(di);
	scratch->b_18_2_0[0] = 0;
	scratch->b_18_2_0[1] = control->mark[0];
	if (!((char *)scratch->b_18_2_0)[79])
		assign_word(MAP(4), scratch->b_18_2_0, value_2, NULL);
	else
		assign_word(MAP(5), scratch->b_18_2_0, value_2, NULL);
	v0 = 0LL;
	struct probe_0_each_0 each_6 = {.ctx = ctx, .control = control, .scratch = scratch, .rounds = rounds, .v0 = v0, .mark = control->mark[0]};
	walk(MAP(4), EACH(probe_0_each_0, 0), &each_6, 0);
	if (!each_6.ended)
		walk(MAP(5), EACH(probe_0_each_2, 2), &each_6, 0);
	rounds = each_6.rounds;
	v0 = each_6.v0;
	if (each_6.ended == LEFT)
		goto done;
	u64 t8 = raise_mark(&control->mark[0], CLEARED);
	emit_raised(0, t8, control->wakeup);
	s64 t9 = v0;
	u64 value_10 = t9;
	key_11[0] = t9;
	assign_word(MAP(6), key_11, value_10, NULL);
done:
	if (rounds >= 1099511627776)
		lose(LOST_LOOPS);
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
