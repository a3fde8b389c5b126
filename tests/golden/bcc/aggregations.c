#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @h: per CPU hash of u64 */
/* MAP(5) holds @l: per CPU array of u64 */
/* MAP(6) holds @s: per CPU array of u64 hits, u64 total */
/* MAP(7) holds @lo: per CPU array of u64, larger is further out */
/* MAP(8) holds @hi: per CPU hash of u64, larger is further out */
/* MAP(9) holds @a: per CPU array of u64 hits, u64 total */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	u64 key1[2];
	u64 key5[1];

	if (!control)
		return 0;
	u32 bucket0 = log2_bucket((u64)(u64)REGISTER(si), 0);
	key1[1] = (s64)(s32)REGISTER(di);
	key1[0] = (u64)bucket0 << 32;
	counter_add(MAP(4), key1, 1, NULL);
	u32 bucket2 = linear_bucket((u64)(u64)REGISTER(si), (-10LL), 10LL, 2LL, 11);
	array_counter_add(MAP(5), bucket2, 1);
	array_total_add(MAP(6), 0, (s64)(s32)REGISTER(di));
	u64 value3 = SIGNED_MIN((s64)(s32)REGISTER(di));
	array_extreme_raise(MAP(7), 0, value3);
	u64 value4 = UNSIGNED_MAX((u64)REGISTER(si));
	u64 tid6 = thread_id();
	key5[0] = tid6;
	extreme_raise(MAP(8), key5, value4, NULL);
	array_total_add(MAP(9), 0, (u64)REGISTER(si));
	return 0;
}
