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
	u64 told5 = 0;
	u64 key7[2];
	u64 key10[2];
	u64 key13[2];

	if (!control)
		return 0;
	u64 address1 = (u64)REGISTER(si);
	__builtin_memset(b0, 0, 16);
	s64 length2 = read_sized_text(b0, 16, address1, 16);
	if (failed(length2))
		goto unreadable;
	if (!(!((b0[0] & 0xffffffffULL) == 0x616574ULL)))
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 address3 = (u64)REGISTER(si);
	clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
	s64 length4 = read_user_text(scratch->b_128_0_0, 1024, address3);
	if (failed(length4))
		goto unreadable;
	told5 = check_cut(length4, 1024, address3, told5);
	scratch->b_128_0_0_used[0] = length4;
	if (!((char *)scratch->b_128_0_0)[63])
		counter_add(MAP(4), scratch->b_128_0_0, 1, NULL);
	else if (!((char *)scratch->b_128_0_0)[255])
		counter_add(MAP(5), scratch->b_128_0_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_0, 1, NULL);
	u32 bucket6 = log2_bucket((u64)(s64)(s32)REGISTER(di), 0);
	scratch->b_130_2_0[1] = (s64)(s32)REGISTER(di);
	clear_text((char *)(scratch->b_130_2_0 + 2), 1024, &scratch->b_130_2_0_used[0]);
	copy_lines(scratch->b_130_2_0 + 2, 1024, scratch->b_128_0_0, &scratch->b_128_0_0_used[0]);
	scratch->b_130_2_0_used[0] = in_use(&scratch->b_128_0_0_used[0]);
	scratch->b_130_2_0[0] = (u64)bucket6 << 32;
	if (!((char *)scratch->b_130_2_0)[79])
		counter_add(MAP(7), scratch->b_130_2_0, 1, NULL);
	else if (!((char *)scratch->b_130_2_0)[271])
		counter_add(MAP(8), scratch->b_130_2_0, 1, NULL);
	else
		counter_add(MAP(9), scratch->b_130_2_0, 1, NULL);
	if (((s64)(s32)REGISTER(di)) > 3LL) {
		u64 address8 = (((u64)REGISTER(si)) + 8ULL);
		__builtin_memset(key7, 0, 16);
		s64 length9 = read_sized_text(key7, 16, address8, 16);
		if (failed(length9))
			goto unreadable;
		counter_add(MAP(10), key7, 1, NULL);
	}
	u64 address11 = (((u64)REGISTER(si)) + 8ULL);
	__builtin_memset(key10, 0, 16);
	s64 length12 = read_sized_text(key10, 16, address11, 16);
	if (failed(length12))
		goto unreadable;
	counter_add(MAP(10), key10, 1, NULL);
	key13[0] = b0[0];
	key13[1] = b0[1];
	counter_add(MAP(10), key13, 1, NULL);
	u64 at14 = 16;
	scratch->record[0] = 0;
	copy_kernel_text((char *)scratch->record + at14, 1024, scratch->b_128_0_0);
	scratch->record[1] = in_use(&scratch->b_128_0_0_used[0]);
	ADVANCE(at14, in_use(&scratch->b_128_0_0_used[0]), 1024);
	emit(scratch->record, at14, control->wakeup);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
