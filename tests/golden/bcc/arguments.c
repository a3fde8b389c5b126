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
	u64 key_0[6];

	if (!control)
		return 0;
	u16 t1 = 0;
	if (read_user(&t1, 2, REGISTER(bp) + 0xffffffffffffffe8ULL))
		goto unreadable;
	s64 t2 = 0;
	if (read_user(&t2, 8, REGISTER(sp) + REGISTER(ax) * 8 + 16))
		goto unreadable;
	u32 t4 = 0;
	if (read_user(&t4, 4, REGISTER(ip) + 0x2ef0ULL))
		goto unreadable;
	u64 t5 = 0;
	if (read_user(&t5, 8, REGISTER(ip) + 0x2ed8ULL))
		goto unreadable;
	key_0[0] = (s64)(s32)REGISTER(di);
	key_0[1] = (u64)t1;
	key_0[2] = t2;
	key_0[3] = (-16LL);
	key_0[4] = (u64)t4;
	key_0[5] = t5;
	counter_add(MAP(4), key_0, 1, NULL);
done:
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
