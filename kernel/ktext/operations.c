// SPDX-License-Identifier: GPL-2.0-only
/*
 * One operation many times on one CPU, to count what it costs.
 *
 *   operations fork|kill|mmap|open|tracer COUNT CPU
 *
 * Prints the ticks of the TSC per operation: under QEMU's -icount shift=0, the
 * number of instructions of all CPUs.
 *
 * fork: fork, exit and wait. kill: a signal to itself, which is handled. mmap: 1024
 * pages of /dev/zero, private, mapped, read and unmapped. open: /dev/null, and close.
 * tracer: the function tracer, which has to be set, gets its calls from all
 * functions; that they are taken out again is not counted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE	4096
#define LENGTH	(1024 * PAGE)

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void one_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0)
		_exit(0);
	if (waitpid(pid, NULL, 0) != pid)
		fail("waitpid");
}

static void on_signal(int signal)
{
	(void)signal;
}

static void one_kill(void)
{
	if (kill(getpid(), SIGUSR1))
		fail("kill");
}

static void one_mmap(void)
{
	int file = open("/dev/zero", O_RDWR);
	volatile char *at;

	if (file < 0)
		fail("/dev/zero");
	at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	for (int i = 0; i < LENGTH; i += PAGE)
		(void)at[i];
	if (munmap((void *)at, LENGTH) || close(file))
		fail("munmap");
}

static void one_open(void)
{
	int file = open("/dev/null", O_RDWR);

	if (file < 0 || close(file))
		fail("/dev/null");
}

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);
	ssize_t length = strlen(text);

	if (file < 0 || write(file, text, length) != length || close(file))
		fail(path);
}

/* Not by current_tracer, which also waits for grace periods. */
static void one_tracer(void)
{
	put("/proc/sys/kernel/ftrace_enabled", "1");
}

static void no_tracer(void)
{
	put("/proc/sys/kernel/ftrace_enabled", "0");
}

static const struct {
	const char *name;
	void (*one)(void);
	void (*undo)(void);	/* not counted */
} operations[] = {
	{ "fork", one_fork, NULL },
	{ "kill", one_kill, NULL },
	{ "mmap", one_mmap, NULL },
	{ "open", one_open, NULL },
	{ "tracer", one_tracer, no_tracer },
};

int main(int argc, char **argv)
{
	unsigned long long begin, undone, ticks = 0;
	cpu_set_t set;
	long times, cpu;

	if (argc != 4) {
		fprintf(stderr, "usage: operations fork|kill|mmap|open|tracer COUNT CPU\n");
		return 2;
	}
	times = strtol(argv[2], NULL, 10);
	cpu = strtol(argv[3], NULL, 10);
	if (times < 1 || cpu < 0 || cpu >= CPU_SETSIZE) {
		fprintf(stderr, "operations: no count or CPU: %s %s\n", argv[2],
			argv[3]);
		return 2;
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
	signal(SIGUSR1, on_signal);
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(argv[1], operations[i].name))
			continue;
		begin = __rdtsc();
		for (long count = 0; count < times; count++) {
			operations[i].one();
			if (!operations[i].undo)
				continue;
			undone = __rdtsc();
			ticks += undone - begin;
			operations[i].undo();
			begin = __rdtsc();
		}
		ticks += __rdtsc() - begin;
		printf("%s\t%.1f\n", argv[1], (double)ticks / times);
		return 0;
	}
	fprintf(stderr, "operations: unknown operation %s\n", argv[1]);
	return 2;
}
