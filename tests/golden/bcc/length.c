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
	u64 key_1[1];
	u64 key_2[1];
	u64 key_3[1];

	if (!control)
		return 0;
	u64 value_0 = REGISTER(si);
	key_1[0] = (s64)(s32)REGISTER(di);
	assign_word(MAP(4), key_1, value_0, &control->made[0]);
	u64 t2 = control->made[0] + control->given[0];
	if ((s64)t2 > 3LL) {
		key_2[0] = (s64)(s32)REGISTER(di);
		remove(MAP(4), key_2, &control->made[0]);
	}
	key_3[0] = 4LL;
	u64 *found_4 = map_lookup(MAP(4), key_3);
	u64 t3 = present(found_4);
	if (t3) {
		array_counter_add(MAP(5), 0, 1);
	}
	return 0;
}
