#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @: per CPU hash of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	u64 key0[6];

	if (!control)
		return 0;
	key0[0] = (s64)(s32)REGISTER(di);
	u16 arg2_1 = 0;
	if (read_user(&arg2_1, 2, REGISTER(bp) + 0xffffffffffffffe8ULL))
		goto unreadable;
	key0[1] = (u64)arg2_1;
	s64 arg3_2 = 0;
	if (read_user(&arg3_2, 8, REGISTER(sp) + REGISTER(ax) * 8 + 16))
		goto unreadable;
	key0[2] = (s64)arg3_2;
	key0[3] = (-16LL);
	u32 arg5_3 = 0;
	if (read_user(&arg5_3, 4, REGISTER(ip) + 0x2ef0ULL))
		goto unreadable;
	key0[4] = (u64)arg5_3;
	u64 arg6_4 = 0;
	if (read_user(&arg6_4, 8, REGISTER(ip) + 0x2ed8ULL))
		goto unreadable;
	key0[5] = (u64)arg6_4;
	counter_add(MAP(4), key0, 1, NULL);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	return 0;
}
