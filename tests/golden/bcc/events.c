#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 1024

struct control {
	u64 exiting, hit, cpid, started, wakeup;
	u64 pending[3];
};

struct scratch {
	u64 busy;
	u64 record[136];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;
	u64 told3 = 0;
	u64 record6[3];
	u64 record7[1];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 at0 = 40;
	scratch->record[0] = 0;
	scratch->record[1] = (s64)(s32)REGISTER(di);
	u64 address1 = (u64)REGISTER(si);
	s64 length2 = read_user_text((char *)scratch->record + at0, 1024, address1);
	if (failed(length2))
		goto unreadable;
	told3 = check_cut(length2, 1024, address1, told3);
	scratch->record[2] = length2;
	ADVANCE(at0, length2, 1024);
	u64 pid4 = process_id();
	scratch->record[3] = pid4;
	s64 length5 = user_stack(ctx, (char *)scratch->record + at0, 24, USER_STACK);
	if (length5 < 0) {
		lose(LOST_STACKS);
		length5 = 0;
	}
	scratch->record[4] = length5;
	ADVANCE(at0, length5, 24);
	emit(scratch->record, at0, control->wakeup);
	record6[0] = 1;
	record6[1] = (s64)(s32)REGISTER(di);
	record6[2] = 1LL;
	emit(record6, 24, control->wakeup);
	record7[0] = 2;
	emit(record7, 8, control->wakeup);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
