#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @: per CPU hash of u64, mark in the key */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
	u64 pending[4];
	u64 mark[1];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	u64 key_0[3];

	if (!control)
		return 0;
	key_0[2] = (s64)(s32)REGISTER(di);
	key_0[0] = 0;
	key_0[1] = control->mark[0];
	counter_add(MAP(4), key_0, 1, NULL);
	u64 t1 = raise_mark(&control->mark[0], CLEARED);
	emit_ended(0, t1, control->wakeup);
	emit_raised(1, t1, control->wakeup);
	u64 t2 = raise_mark(&control->mark[0], ZEROED);
	emit_raised(2, t2, control->wakeup);
	if ((s64)(s32)REGISTER(di) == 7LL) {
		control->exiting = 3ULL;
		emit_control(3, &control->pending[3], control->wakeup);
		goto done;
	}
done:
	return 0;
}
