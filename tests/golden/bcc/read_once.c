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
	u64 b_0[2];
	u64 key_6[2];
	u64 key_9[2];

	if (!control)
		return 0;
	u64 address_1 = REGISTER(si);
	__builtin_memset(b_0, 0, 16);
	s64 length_2 = read_sized_text(b_0, 16, address_1, 16);
	if (failed(length_2))
		goto unreadable;
	if (!!((b_0[0] & 0xffffffffULL) == 0x616574ULL))
		goto done;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 address_3 = REGISTER(si);
	clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
	s64 length_4 = read_user_text(scratch->b_128_0_0, 1024, address_3);
	if (failed(length_4))
		goto unreadable;
	check_cut(length_4, 1024, address_3, 0);
	scratch->b_128_0_0_used[0] = length_4;
	if (!((char *)scratch->b_128_0_0)[63])
		counter_add(MAP(4), scratch->b_128_0_0, 1, NULL);
	else if (!((char *)scratch->b_128_0_0)[255])
		counter_add(MAP(5), scratch->b_128_0_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_0, 1, NULL);
	u32 bucket_5 = log2_bucket((u64)(s64)(s32)REGISTER(di), 0);
	scratch->b_130_2_0[1] = (s64)(s32)REGISTER(di);
	clear_text((char *)(scratch->b_130_2_0 + 2), 1024, &scratch->b_130_2_0_used[0]);
	copy_lines(scratch->b_130_2_0 + 2, 1024, scratch->b_128_0_0, &scratch->b_128_0_0_used[0]);
	scratch->b_130_2_0_used[0] = in_use(&scratch->b_128_0_0_used[0]);
	scratch->b_130_2_0[0] = (u64)bucket_5 << 32;
	if (!((char *)scratch->b_130_2_0)[79])
		counter_add(MAP(7), scratch->b_130_2_0, 1, NULL);
	else if (!((char *)scratch->b_130_2_0)[271])
		counter_add(MAP(8), scratch->b_130_2_0, 1, NULL);
	else
		counter_add(MAP(9), scratch->b_130_2_0, 1, NULL);
	if ((s64)(s32)REGISTER(di) > 3LL) {
		u64 address_7 = REGISTER(si) + 8ULL;
		__builtin_memset(key_6, 0, 16);
		s64 length_8 = read_sized_text(key_6, 16, address_7, 16);
		if (failed(length_8))
			goto unreadable;
		counter_add(MAP(10), key_6, 1, NULL);
	}
	u64 address_10 = REGISTER(si) + 8ULL;
	__builtin_memset(key_9, 0, 16);
	s64 length_11 = read_sized_text(key_9, 16, address_10, 16);
	if (failed(length_11))
		goto unreadable;
	counter_add(MAP(10), key_9, 1, NULL);
	counter_add(MAP(10), b_0, 1, NULL);
	u64 at_12 = 16;
	s64 length_13 = copy_kernel_text((char *)scratch->record + at_12, 1024, scratch->b_128_0_0);
	scratch->record[1] = length_13;
	ADVANCE(at_12, length_13, 1024);
	scratch->record[0] = 0;
	emit(scratch->record, at_12, control->wakeup);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
