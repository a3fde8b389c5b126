#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define FULL_MAPS 32
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
	u64 key_0[1];
	u64 key_3[1];
	u64 key_5[1];

	if (!control)
		return 0;
	u64 t0 = thread_id();
	key_0[0] = t0;
	u64 *found_1 = map_lookup(MAP(4), key_0);
	u64 t1 = found_1 ? *found_1 : 0;
	if (!(t1 != 0ULL))
		goto done;
	u64 t2 = boot_ns();
	u32 bucket_2 = log2_bucket((u64)((s64)t2 - (s64)t1), 0LL);
	array_counter_add(MAP(5), bucket_2, 1);
	key_3[0] = t0;
	remove(MAP(4), key_3, NULL);
	u64 value_4 = t2;
	key_5[0] = t0;
	assign(MAP(4), key_5, &value_4, NULL);
done:
	return 0;
}
