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
	u64 key_0[1];
	u64 key_3[1];

	if (!control)
		return 0;
	s64 t1 = divide_signed((s64)(s32)REGISTER(di), 3LL);
	s64 t2 = remainder_signed(t1, (-2LL));
	u64 t5;
	if (t1 > 1LL) {
		key_0[0] = 0;
		u64 *found_1 = map_lookup(MAP(4), key_0);
		s64 t4 = found_1 ? *found_1 : 0;
		t5 = t4 > 2LL;
	}
	else {
		t5 = 0;
	}
	u64 value_2 = t5 || !((u64)(u8)t2 << 9ULL != 0ULL) ? t1 + t1 + 1LL : -t2;
	key_3[0] = 0;
	assign_word(MAP(4), key_3, value_2, NULL);
	return 0;
}
