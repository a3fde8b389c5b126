#include <linux/types.h>
#include <uapi/linux/ptrace.h>

#define LOSSES MAP(1)
#define RING MAP(2)
#define SCRATCH MAP(3)
#define SCRATCH_SLOTS 1024
/* MAP(4) holds @s: shared hash of value */
/* MAP(5) holds @: per CPU hash of u64 */
/* MAP(6) holds @o: shared hash of value */

struct control {
	u64 exiting, hit, cpid, started, wakeup;
};

struct scratch {
	u64 busy;
	u64 b_128_0_0_used[1];
	u64 b_128_0_0[128];
};

#include "prelude.h"

/* clause 0, 1 site */
int probe_0(struct pt_regs *ctx)
{
	struct control *control = enter();
	struct scratch *scratch = NULL;
	u64 held0[2];
	u64 b1[2];
	u64 key3[1];
	u64 key7[8];
	u64 b8[1];
	u64 key9[1];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_EVENTS);
		return 0;
	}
	__builtin_memset(held0, 0, 16);
	__builtin_memset(b1, 0, 16);
	s64 length2 = read_user_text(b1, 16, (u64)REGISTER(si));
	if (failed(length2))
		goto unreadable;
	__builtin_memset(held0, 0, 16);
	copy_kernel_text(held0, 16, b1);
	key3[0] = 0;
	assign(MAP(4), key3, held0, NULL);
	u64 t4 = 1;
	if (!(held0[0] == 0x6220656566666f63ULL && (held0[1] & 0xffffffffffULL) == 0x736e6165ULL)) {
		u64 address5 = (u64)REGISTER(si);
		clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
		s64 length6 = read_user_text(scratch->b_128_0_0, 1024, address5);
		if (failed(length6))
			goto unreadable;
		check_cut(length6, 1024, address5);
		scratch->b_128_0_0_used[0] = length6;
		t4 = !!(((u64)!((scratch->b_128_0_0[0] & 0xffffffULL) == 0x616574ULL)) == 0ULL);
	}
	if (t4) {
		__builtin_memset(key7, 0, 16);
		current_comm(key7, 16);
		key7[2] = 0x69622f3a74647375ULL;
		key7[3] = 0x68733a7070612f6eULL;
		key7[4] = 0x726564726f3a706fULL;
		key7[5] = 0x0ULL;
		key7[6] = 0x74756f6b63656863ULL;
		key7[7] = 0x0ULL;
		counter_add(MAP(5), key7, 1, NULL);
	}
	if (((u64)(s64)(s32)REGISTER(di)) > 1ULL) {
		b8[0] = 0x676962ULL;
	}
	else {
		b8[0] = 0x6c6c616d73ULL;
	}
	key9[0] = 0;
	assign(MAP(6), key9, b8, NULL);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
