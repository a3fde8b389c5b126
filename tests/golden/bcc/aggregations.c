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
	u64 key_1[2];
	u64 key_6[1];

	if (!control)
		return 0;
	u32 bucket_0 = log2_bucket(REGISTER(si), 0);
	key_1[1] = (s64)(s32)REGISTER(di);
	key_1[0] = (u64)bucket_0 << 32;
	counter_add(MAP(4), key_1, 1, NULL);
	u32 bucket_2 = linear_bucket(REGISTER(si), (-10LL), 10LL, 2LL, 11);
	array_counter_add(MAP(5), bucket_2, 1);
	u64 value_3 = (s64)(s32)REGISTER(di);
	array_total_add(MAP(6), 0, value_3);
	u64 value_4 = SIGNED_MIN((s64)(s32)REGISTER(di));
	array_extreme_raise(MAP(7), 0, value_4);
	u64 t2 = thread_id();
	u64 value_5 = UNSIGNED_MAX(REGISTER(si));
	key_6[0] = t2;
	extreme_raise(MAP(8), key_6, value_5, NULL);
	u64 value_7 = REGISTER(si);
	array_total_add(MAP(9), 0, value_7);
	return 0;
}
