#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @n: shared hash of value */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	s64 v0 = 0;
	s64 v1 = 0;
	u64 v2 = 0;
	u64 v3 = 0;
	s64 v4 = 0;
	u64 key1[1];
	u64 key8[1];

	if (!control)
		return 0;
	v0 = divide_signed(((s64)(s32)REGISTER(di)), 3LL);
	v1 = remainder_signed(v0, (-2LL));
	v2 = ((u64)((u64)((u8)v1)) << (9ULL & 63));
	u64 t0 = 0;
	if (v0 > 1LL) {
		key1[0] = 0;
		u64 *found2 = map_lookup(MAP(4), key1);
		s64 t3 = found2 ? *found2 : 0;
		t0 = !!(t3 > 2LL);
	}
	v3 = (u64)(t0 || (!v2));
	s64 t5 = v0;
	v0 += 1;
	v4 = (t5 + v0);
	u64 value7 = (v3 ? v4 : ((s64)(-v1)));
	key8[0] = 0;
	assign_word(MAP(4), key8, value7, NULL);
	return 0;
}
