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
	u64 b_0[2];
	u64 key_3[1];
	u64 key_6[8];
	u64 b_7[1];
	u64 key_8[1];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	u64 address_1 = REGISTER(si);
	__builtin_memset(b_0, 0, 16);
	s64 length_2 = read_sized_text(b_0, 16, address_1, 16);
	if (failed(length_2))
		goto unreadable;
	key_3[0] = 0;
	assign(MAP(4), key_3, b_0, NULL);
	u64 t3;
	if (b_0[0] == 0x6220656566666f63ULL && (b_0[1] & 0xffffffffffULL) == 0x736e6165ULL) {
		t3 = 1;
	}
	else {
		u64 address_4 = REGISTER(si);
		clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
		s64 length_5 = read_user_text(scratch->b_128_0_0, 1024, address_4);
		if (failed(length_5))
			goto unreadable;
		check_cut(length_5, 1024, address_4, 0);
		scratch->b_128_0_0_used[0] = length_5;
		t3 = (u64)!((scratch->b_128_0_0[0] & 0xffffffULL) == 0x616574ULL) == 0ULL;
	}
	if (t3) {
		current_comm(key_6, 16);
		key_6[2] = 0x69622f3a74647375ULL;
		key_6[3] = 0x68733a7070612f6eULL;
		key_6[4] = 0x726564726f3a706fULL;
		key_6[5] = 0x0ULL;
		key_6[6] = 0x74756f6b63656863ULL;
		key_6[7] = 0x0ULL;
		counter_add(MAP(5), key_6, 1, NULL);
	}
	if ((s64)(s32)REGISTER(di) > 1LL) {
		b_7[0] = 0x676962ULL;
	}
	else {
		b_7[0] = 0x6c6c616d73ULL;
	}
	key_8[0] = 0;
	assign(MAP(6), key_8, b_7, NULL);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
