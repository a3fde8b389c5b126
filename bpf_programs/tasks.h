/*
 * The kernel's data on the process that hit the probe: its first thread, and its parent's first thread. OF_KERNEL(n)
 * says where the members are (pid_namespace.py). Memory that cannot be read is all zeros.
 */
#pragma once

static long (*read_kernel_text)(void *to, u32 size, u64 from) = (void *)115;

static __always_inline u64 task_at(u64 from)
{
	u64 task = 0;

	read_kernel(&task, sizeof(task), from);
	return task;
}

#define leader() task_at(current_task() + OF_KERNEL(0))
#define parent() task_at(task_at(current_task() + OF_KERNEL(7)) + OF_KERNEL(0))

/* What stands behind the name in the kernel's sixteen bytes is no part of it. */
#define leader_comm(to) read_kernel_text(to, 16, leader() + OF_KERNEL(9))
#define pcomm(to) read_kernel_text(to, 16, parent() + OF_KERNEL(9))

static __always_inline u64 parent_id(void)
{
#if NAMESPACED
	return number_of(parent());
#else
	u32 number = 0;

	read_kernel(&number, sizeof(number), parent() + OF_KERNEL(8));
	return number;
#endif
}
