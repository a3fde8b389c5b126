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
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u16 t1 = 0;
	if (read_user(&t1, 2, REGISTER(bp) + 0xffffffffffffffe8ULL))
		goto unreadable;
	u64 address_0 = REGISTER(si);
	u64 size_1 = (u64)t1;
	clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
	s64 length_2 = read_sized_text(scratch->b_128_0_0, 1024, address_0, size_1);
	if (failed(length_2))
		goto unreadable;
	if (size_1 > 1024)
		check_cut(length_2, 1024, address_0, 0);
	scratch->b_128_0_0_used[0] = length_2;
	if (!((char *)scratch->b_128_0_0)[63])
		counter_add(MAP(4), scratch->b_128_0_0, 1, NULL);
	else if (!((char *)scratch->b_128_0_0)[255])
		counter_add(MAP(5), scratch->b_128_0_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_0, 1, NULL);
	if (!((char *)scratch->b_128_0_0)[63])
		counter_add(MAP(4), scratch->b_128_0_0, 1, NULL);
	else if (!((char *)scratch->b_128_0_0)[255])
		counter_add(MAP(5), scratch->b_128_0_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_0, 1, NULL);
	u64 address_3 = REGISTER(si);
	u64 size_4 = (u64)t1 + 1ULL;
	clear_text((char *)(scratch->b_128_0_1), 1024, &scratch->b_128_0_1_used[0]);
	s64 length_5 = read_sized_text(scratch->b_128_0_1, 1024, address_3, size_4);
	if (failed(length_5))
		goto unreadable;
	if (size_4 > 1024)
		check_cut(length_5, 1024, address_3, 0);
	scratch->b_128_0_1_used[0] = length_5;
	if (!((char *)scratch->b_128_0_1)[63])
		counter_add(MAP(4), scratch->b_128_0_1, 1, NULL);
	else if (!((char *)scratch->b_128_0_1)[255])
		counter_add(MAP(5), scratch->b_128_0_1, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_1, 1, NULL);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
