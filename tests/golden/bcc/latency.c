#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @start: shared hash of value */
/* MAP(5) holds @ns: per CPU array of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	u64 key0[1];
	u64 key6[1];
	u64 key8[1];

	if (!control)
		return 0;
	u64 tid1 = thread_id();
	key0[0] = tid1;
	u64 *found2 = map_lookup(MAP(4), key0);
	u64 t3 = found2 ? *found2 : 0;
	if (!(t3))
		return 0;
	u64 nsecs4 = boot_ns();
	u32 bucket5 = log2_bucket((u64)(((s64)nsecs4) - ((s64)t3)), 0);
	array_counter_add(MAP(5), bucket5, 1);
	key6[0] = tid1;
	remove(MAP(4), key6, NULL);
	u64 value7 = nsecs4;
	key8[0] = tid1;
	assign(MAP(4), key8, &value7, NULL);
	return 0;
}
