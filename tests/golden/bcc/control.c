#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define CONTROL MAP(0)
#define LOSSES MAP(1)
#define RING MAP(2)
/* MAP(4) holds @: per CPU hash of u64, generation in the key */

struct control {
	u64 exiting, hit, cpid, started;
	u64 generation[1];
	u64 pending[4];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	u64 key0[2];

	if (!control)
		return 0;
	key0[1] = (u64)(s64)(s32)REGISTER(di);
	key0[0] = (u32)control->generation[0];
	counter_add(MAP(4), key0, 1, NULL);
	emit_control(0, &control->pending[0]);
	emit_control(1, &control->pending[1]);
	emit_control(2, &control->pending[2]);
	if (((u64)(s64)(s32)REGISTER(di)) == 7ULL) {
		control->exiting = 3ULL;
		emit_control(3, &control->pending[3]);
		return 0;
	}
	return 0;
}
