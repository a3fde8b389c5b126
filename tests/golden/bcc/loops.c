#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @: per CPU array of u64 hits, u64 total */
/* MAP(5) holds @u: per CPU array of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	s64 v0 = 0;

	if (!control)
		return 0;
	v0 = 0LL;
	#pragma clang loop unroll(disable)
	for (u32 round_0 = 0;; round_0++) {
		s64 t0 = v0;
		if (!(t0 < 10LL))
			break;
		if (round_0 >= 1024) {
			lose(LOST_LOOPS);
			break;
		}
		s64 t1 = v0;
		s64 t2 = t1 + 1LL;
		v0 = t2;
		if (t2 == 5LL) {
			continue;
		}
		u64 value_1 = t2;
		array_total_add(MAP(4), 0, value_1);
	}
	array_counter_add(MAP(5), 0, 1);
	array_counter_add(MAP(5), 0, 1);
	goto done;
done:
	return 0;
}
