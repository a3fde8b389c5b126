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
	u64 record_4[3];
	u64 record_5[1];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 at_0 = 40;
	u64 address_1 = REGISTER(si);
	s64 length_2 = read_user_text((char *)scratch->record + at_0, 1024, address_1);
	if (failed(length_2))
		goto unreadable;
	check_cut(length_2, 1024, address_1, 0);
	scratch->record[2] = length_2;
	ADVANCE(at_0, length_2, 1024);
	scratch->record[3] = process_id();
	s64 length_3 = user_stack(ctx, (char *)scratch->record + at_0, 24, USER_STACK);
	if (length_3 < 0) {
		lose(LOST_STACKS);
		length_3 = 0;
	}
	scratch->record[4] = length_3;
	ADVANCE(at_0, length_3, 24);
	scratch->record[0] = 0;
	scratch->record[1] = (s64)(s32)REGISTER(di);
	emit(scratch->record, at_0, control->wakeup);
	record_4[0] = 1;
	record_4[1] = (s64)(s32)REGISTER(di);
	record_4[2] = 1LL;
	emit(record_4, 24, control->wakeup);
	record_5[0] = 2;
	emit(record_5, 8, control->wakeup);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
