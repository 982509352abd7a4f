// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes the caches of the CPU whenever one process enters a system call, to
 * measure what the kernel's text costs when it has to be fetched anew.
 *
 *   insmod ktext_cold.ko; echo PID >/sys/module/ktext_cold/parameters/pid
 *
 * pid: the process (thread group), 0 for none.  flushed: how often it was done,
 * and the nanoseconds that it took.
 *
 * wbinvd takes milliseconds and disturbs all CPUs that share the caches: this is
 * a test, and nothing to leave loaded.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sysfs.h>
#include <linux/tracepoint.h>
#include <asm/special_insns.h>
#include <trace/events/syscalls.h>

static int pid;
module_param(pid, int, 0600);
MODULE_PARM_DESC(pid, "process whose system calls flush the caches, 0 for none");

/* One process does its system calls one after another. */
static u64 flushes, nanoseconds;

static int show_flushed(char *buffer, const struct kernel_param *parameter)
{
	return sysfs_emit(buffer, "%llu %llu\n", READ_ONCE(flushes), READ_ONCE(nanoseconds));
}

static const struct kernel_param_ops flushed_ops = {
	.get = show_flushed,
};
module_param_cb(flushed, &flushed_ops, NULL, 0400);
MODULE_PARM_DESC(flushed, "how often caches were flushed, and nanoseconds that it took");

static struct tracepoint *entered;

static void on_entry(void *data, struct pt_regs *regs, long number)
{
	int wanted = READ_ONCE(pid);
	u64 begun;

	if (likely(!wanted || current->tgid != wanted))
		return;
	begun = ktime_get_ns();
	wbinvd();
	WRITE_ONCE(nanoseconds, nanoseconds + ktime_get_ns() - begun);
	WRITE_ONCE(flushes, flushes + 1);
}

/* sys_enter is not exported to modules by its name. */
static void find(struct tracepoint *tracepoint, void *data)
{
	if (!strcmp(tracepoint->name, "sys_enter"))
		entered = tracepoint;
}

static int __init cold_init(void)
{
	for_each_kernel_tracepoint(find, NULL);
	if (!entered)
		return -ENOENT;
	return tracepoint_probe_register(entered, on_entry, NULL);
}

static void __exit cold_exit(void)
{
	tracepoint_probe_unregister(entered, on_entry, NULL);
	tracepoint_synchronize_unregister();
}

module_init(cold_init);
module_exit(cold_exit);
MODULE_DESCRIPTION("Flush caches at the system calls of one process");
MODULE_LICENSE("GPL");
