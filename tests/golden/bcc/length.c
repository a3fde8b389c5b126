#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @: shared hash of value */
/* MAP(5) holds @seen: per CPU array of u64 */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
	u64 made[1], given[1];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	u64 key1[1];
	u64 key2[1];
	u64 key3[1];

	if (!control)
		return 0;
	u64 value0 = (u64)REGISTER(si);
	key1[0] = (s64)(s32)REGISTER(di);
	assign_word(MAP(4), key1, value0, &control->made[0]);
	if (((s64)(control->made[0] + control->given[0])) > 3LL) {
		key2[0] = (s64)(s32)REGISTER(di);
		remove(MAP(4), key2, &control->made[0]);
	}
	key3[0] = 4LL;
	u64 *found4 = map_lookup(MAP(4), key3);
	u64 there5 = present(found4);
	if (there5) {
		array_counter_add(MAP(5), 0, 1LL);
	}
	return 0;
}
