#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 1024
/* MAP(4) and, for longer keys, MAP(5) and MAP(6) hold @c: per CPU hash of u64 */
/* MAP(7) and, for longer keys, MAP(8) and MAP(9) hold @h: per CPU hash of u64 */
/* MAP(10) holds @k: per CPU hash of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
	u64 pending[1];
};

struct scratch {
	u64 busy;
	u64 b_128_0_0_used[1];
	u64 b_128_0_0[128];
	u64 b_130_2_0_used[1];
	u64 b_130_2_0[130];
	u64 record[130];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;
	u64 b0[2];
	u64 key5[2];
	u64 key7[2];
	u64 key9[2];

	if (!control)
		return 0;
	__builtin_memset(b0, 0, 16);
	s64 length1 = read_user_text(b0, 16, (u64)REGISTER(si));
	if (failed(length1))
		goto unreadable;
	if (!(!((b0[0] & 0xffffffffULL) == 0x616574ULL)))
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_EVENTS);
		return 0;
	}
	u64 address2 = (u64)REGISTER(si);
	clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
	s64 length3 = read_user_text(scratch->b_128_0_0, 1024, address2);
	if (failed(length3))
		goto unreadable;
	check_cut(length3, 1024, address2);
	scratch->b_128_0_0_used[0] = length3;
	if (!((char *)scratch->b_128_0_0)[63])
		counter_add(MAP(4), scratch->b_128_0_0, 1, NULL);
	else if (!((char *)scratch->b_128_0_0)[255])
		counter_add(MAP(5), scratch->b_128_0_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_0, 1, NULL);
	u32 bucket4 = log2_bucket((u64)(u64)(s64)(s32)REGISTER(di), 0);
	scratch->b_130_2_0[1] = (u64)(s64)(s32)REGISTER(di);
	check_cut(in_use(&scratch->b_128_0_0_used[0]), 1024, address2);
	clear_text((char *)(scratch->b_130_2_0 + 2), 1024, &scratch->b_130_2_0_used[0]);
	copy_lines(scratch->b_130_2_0 + 2, 1024, scratch->b_128_0_0, &scratch->b_128_0_0_used[0]);
	scratch->b_130_2_0_used[0] = in_use(&scratch->b_128_0_0_used[0]);
	scratch->b_130_2_0[0] = (u64)bucket4 << 32;
	if (!((char *)scratch->b_130_2_0)[79])
		counter_add(MAP(7), scratch->b_130_2_0, 1, NULL);
	else if (!((char *)scratch->b_130_2_0)[271])
		counter_add(MAP(8), scratch->b_130_2_0, 1, NULL);
	else
		counter_add(MAP(9), scratch->b_130_2_0, 1, NULL);
	if (((u64)(s64)(s32)REGISTER(di)) > 3ULL) {
		__builtin_memset(key5, 0, 16);
		s64 length6 = read_user_text(key5, 16, (((u64)REGISTER(si)) + 8ULL));
		if (failed(length6))
			goto unreadable;
		counter_add(MAP(10), key5, 1, NULL);
	}
	__builtin_memset(key7, 0, 16);
	s64 length8 = read_user_text(key7, 16, (((u64)REGISTER(si)) + 8ULL));
	if (failed(length8))
		goto unreadable;
	counter_add(MAP(10), key7, 1, NULL);
	key9[0] = b0[0];
	key9[1] = b0[1];
	counter_add(MAP(10), key9, 1, NULL);
	u64 at10 = 16;
	scratch->record[0] = 0;
	check_cut(in_use(&scratch->b_128_0_0_used[0]), 1024, address2);
	copy_kernel_text((char *)scratch->record + at10, 1024, scratch->b_128_0_0);
	scratch->record[1] = in_use(&scratch->b_128_0_0_used[0]);
	ADVANCE(at10, in_use(&scratch->b_128_0_0_used[0]), 1024);
	emit(scratch->record, at10, control->wakeup);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
