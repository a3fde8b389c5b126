#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 1024
/* MAP(4) holds @t: shared hash of value */
/* MAP(5) and, for longer keys, MAP(6) and MAP(7) hold @: per CPU hash of u64 */
/* MAP(8) holds @k: per CPU hash of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

struct scratch {
	u64 busy;
	u64 b_130_1_0_used[1];
	u64 b_130_1_0[130];
	u64 b_129_1_0_used[1];
	u64 b_129_1_0[129];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;
	u64 key_2[1];
	u64 key_3[8];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 address_0 = REGISTER(si);
	clear_text((char *)(scratch->b_130_1_0 + 1), 1024, &scratch->b_130_1_0_used[0]);
	s64 length_1 = read_user_text(scratch->b_130_1_0 + 1, 1024, address_0);
	if (failed(length_1))
		goto unreadable;
	check_cut(length_1, 1024, address_0, 0);
	scratch->b_130_1_0_used[0] = length_1;
	scratch->b_130_1_0[0] = (s64)(s32)REGISTER(di);
	scratch->b_130_1_0[129] = 3LL;
	key_2[0] = 0;
	assign(MAP(4), key_2, scratch->b_130_1_0, NULL);
	clear_text((char *)(scratch->b_129_1_0 + 1), 1024, &scratch->b_129_1_0_used[0]);
	copy_lines(scratch->b_129_1_0 + 1, 1024, scratch->b_130_1_0 + 1, &scratch->b_130_1_0_used[0]);
	scratch->b_129_1_0_used[0] = in_use(&scratch->b_130_1_0_used[0]);
	scratch->b_129_1_0[0] = (s64)scratch->b_130_1_0[129];
	if (!((char *)scratch->b_129_1_0)[71])
		counter_add(MAP(5), scratch->b_129_1_0, 1, NULL);
	else if (!((char *)scratch->b_129_1_0)[263])
		counter_add(MAP(6), scratch->b_129_1_0, 1, NULL);
	else
		counter_add(MAP(7), scratch->b_129_1_0, 1, NULL);
	key_3[0] = process_id();
	__builtin_memset(key_3 + 2, 0, 32);
	s64 length_4 = user_stack(ctx, key_3 + 2, 32, USER_STACK);
	if (length_4 < 0) {
		lose(LOST_STACKS);
		length_4 = 0;
	}
	key_3[1] = length_4;
	u64 t5 = process_id();
	key_3[6] = t5;
	key_3[7] = REGISTER(si);
	counter_add(MAP(8), key_3, 1, NULL);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
