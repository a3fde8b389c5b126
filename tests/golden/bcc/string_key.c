#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define FULL_MAPS 32
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
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;

	if (!control)
		return 0;
	if (!((s64)(s32)REGISTER(di) > 5LL))
		goto done;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 address_0 = REGISTER(si);
	clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
	s64 length_1 = read_user_text(scratch->b_128_0_0, 1024, address_0);
	if (failed(length_1))
		goto unreadable;
	check_cut(length_1, 1024, address_0, 0);
	scratch->b_128_0_0_used[0] = length_1;
	if (!((char *)scratch->b_128_0_0)[63])
		counter_add(MAP(4), scratch->b_128_0_0, 1, NULL);
	else if (!((char *)scratch->b_128_0_0)[255])
		counter_add(MAP(5), scratch->b_128_0_0, 1, NULL);
	else
		counter_add(MAP(6), scratch->b_128_0_0, 1, NULL);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
