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
	u64 key4[1];
	u64 told8 = 0;
	u64 key9[8];
	u64 b10[1];
	u64 key11[1];

	if (!control)
		return 0;
	scratch = scratch_take();
	if (!scratch) {
		lose(LOST_BUSY);
		return 0;
	}
	__builtin_memset(held0, 0, 16);
	u64 address2 = (u64)REGISTER(si);
	__builtin_memset(b1, 0, 16);
	s64 length3 = read_sized_text(b1, 16, address2, 16);
	if (failed(length3))
		goto unreadable;
	__builtin_memset(held0, 0, 16);
	copy_kernel_text(held0, 16, b1);
	key4[0] = 0;
	assign(MAP(4), key4, held0, NULL);
	u64 t5 = 1;
	if (!(held0[0] == 0x6220656566666f63ULL && (held0[1] & 0xffffffffffULL) == 0x736e6165ULL)) {
		u64 address6 = (u64)REGISTER(si);
		clear_text((char *)(scratch->b_128_0_0), 1024, &scratch->b_128_0_0_used[0]);
		s64 length7 = read_user_text(scratch->b_128_0_0, 1024, address6);
		if (failed(length7))
			goto unreadable;
		told8 = check_cut(length7, 1024, address6, told8);
		scratch->b_128_0_0_used[0] = length7;
		t5 = !!(((u64)!((scratch->b_128_0_0[0] & 0xffffffULL) == 0x616574ULL)) == 0ULL);
	}
	if (t5) {
		__builtin_memset(key9, 0, 16);
		current_comm(key9, 16);
		key9[2] = 0x69622f3a74647375ULL;
		key9[3] = 0x68733a7070612f6eULL;
		key9[4] = 0x726564726f3a706fULL;
		key9[5] = 0x0ULL;
		key9[6] = 0x74756f6b63656863ULL;
		key9[7] = 0x0ULL;
		counter_add(MAP(5), key9, 1, NULL);
	}
	if (((s64)(s32)REGISTER(di)) > 1LL) {
		b10[0] = 0x676962ULL;
	}
	else {
		b10[0] = 0x6c6c616d73ULL;
	}
	key11[0] = 0;
	assign(MAP(6), key11, b10, NULL);
done:
	if (scratch)
		scratch_give(scratch);
	return 0;
unreadable:
	lose(LOST_UNREADABLE);
	goto done;
}
