// SPDX-License-Identifier: GPL-2.0-only
/*
 * One operation many times on one CPU, to count what it costs.
 *
 *   operations fork|kill|mmap|open COUNT CPU
 *
 * Prints the ticks of the TSC per operation: under QEMU's -icount shift=0, the
 * number of instructions of all CPUs.
 *
 * fork: fork, exit and wait. kill: a signal to itself, which is handled. mmap: 1024
 * pages of /dev/zero, private, mapped, read and unmapped. open: /dev/null, and close.
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

static const struct {
	const char *name;
	void (*one)(void);
} operations[] = {
	{ "fork", one_fork },
	{ "kill", one_kill },
	{ "mmap", one_mmap },
	{ "open", one_open },
};

int main(int argc, char **argv)
{
	unsigned long long begin;
	cpu_set_t set;
	long times, cpu;

	if (argc != 4) {
		fprintf(stderr, "usage: operations fork|kill|mmap|open COUNT CPU\n");
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
		for (long count = 0; count < times; count++)
			operations[i].one();
		printf("%s\t%.1f\n", argv[1],
		       (double)(__rdtsc() - begin) / times);
		return 0;
	}
	fprintf(stderr, "operations: unknown operation %s\n", argv[1]);
	return 2;
}
