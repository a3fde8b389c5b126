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
	for (u32 round0 = 0;; round0++) {
		if (!(v0 < 10LL))
			break;
		if (round0 >= 1024) {
			lose(LOST_LOOPS);
			break;
		}
		s64 t1 = v0;
		v0 += 1;
		if (v0 == 5LL) {
			continue;
		}
		array_total_add(MAP(4), 0, v0);
	}
	array_counter_add(MAP(5), 0, 1LL);
	array_counter_add(MAP(5), 0, 1LL);
	return 0;
}
