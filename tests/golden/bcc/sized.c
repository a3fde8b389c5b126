#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 1024
/* MAP(4) and, for longer keys, MAP(5) and MAP(6) hold @: per CPU hash of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

struct scratch {
	u64 busy;
	u64 b_128_0_0_used[1];
	u64 b_128_0_0[128];
	u64 b_128_0_1_used[1];
	u64 b_128_0_1[128];
	u64 b_128_0_2_used[1];
	u64 b_128_0_2[128];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;
	u64 told4 = 0;
	u64 told8 = 0;

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 t2 = (u64)REGISTER(si);
	u16 arg2_0 = 0;
	if (read_user(&arg2_0, 2, REGISTER(bp) + 0xffffffffffffffe8ULL))
		goto unreadable;
	u64 size1 = (u64)arg2_0;
	clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
	s64 length3 = read_sized_text(scratch->b_128_0_0, 1024, t2, size1);
	if (failed(length3))
		goto unreadable;
	if (size1 > 1024)
		told4 = check_cut(length3, 1024, t2, told4);
	scratch->b_128_0_0_used[0] = length3;
	if (!((char *)scratch->b_128_0_0)[63])
		counter_add(MAP(4), scratch->b_128_0_0, 1, NULL);
	else if (!((char *)scratch->b_128_0_0)[255])
		counter_add(MAP(5), scratch->b_128_0_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_0, 1, NULL);
	clear_text((char *)(scratch->b_128_0_1), 1024, &scratch->b_128_0_1_used[0]);
	copy_lines(scratch->b_128_0_1, 1024, scratch->b_128_0_0, &scratch->b_128_0_0_used[0]);
	scratch->b_128_0_1_used[0] = in_use(&scratch->b_128_0_0_used[0]);
	if (!((char *)scratch->b_128_0_1)[63])
		counter_add(MAP(4), scratch->b_128_0_1, 1, NULL);
	else if (!((char *)scratch->b_128_0_1)[255])
		counter_add(MAP(5), scratch->b_128_0_1, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_1, 1, NULL);
	u64 t6 = (u64)REGISTER(si);
	u64 size5 = (((u64)arg2_0) + 1ULL);
	clear_text((char *)(scratch->b_128_0_2), 1024, &scratch->b_128_0_2_used[0]);
	s64 length7 = read_sized_text(scratch->b_128_0_2, 1024, t6, size5);
	if (failed(length7))
		goto unreadable;
	if (size5 > 1024)
		told8 = check_cut(length7, 1024, t6, told8);
	scratch->b_128_0_2_used[0] = length7;
	if (!((char *)scratch->b_128_0_2)[63])
		counter_add(MAP(4), scratch->b_128_0_2, 1, NULL);
	else if (!((char *)scratch->b_128_0_2)[255])
		counter_add(MAP(5), scratch->b_128_0_2, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_2, 1, NULL);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
