// SPDX-License-Identifier: GPL-2.0-only
/*
 * One mapping that is alone in its 512 GiB, so that an entry of the PML4 comes and
 * goes with it: a thread on one CPU maps and unmaps it, another one touches it from
 * another CPU.
 *
 *   lone SECONDS CPU OTHER
 *
 * In turns first: what one writes the other reads, and what is unmapped faults. Then
 * at once: what the other reads is what was written, or it faults. Prints how often
 * it was mapped in turns and at once, and the reads and faults at once; exit status 1
 * with a message when memory was not what it must be.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE	4096
/* In an entry of the PML4 that nothing else uses. */
#define LONE	((volatile uint64_t *)(100UL << 39))
#define OTHERS	((volatile uint64_t *)((100UL << 39) + PAGE))
#define MAGIC	(0x6b74657874UL << 24)

static int other;
/* Rounds of four steps: mapped and written, touched, unmapped, missed. */
static atomic_ulong steps;
static atomic_bool is_over, is_done;
static unsigned long reads, faults;
static __thread sigjmp_buf out;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static void stay_on(int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(out, 1);
}

/* Whether there is memory; @value is what it has. */
static bool is_read(volatile uint64_t *at, uint64_t *value)
{
	if (sigsetjmp(out, 1))
		return false;
	*value = *at;
	return true;
}

static void map(void)
{
	void *at = mmap((void *)LONE, 2 * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != (void *)LONE)
		fail("mmap");
}

static void unmap(void)
{
	if (munmap((void *)LONE, 2 * PAGE))
		fail("munmap");
}

/* Waits until it is this step's turn of a round, or the rounds are over. */
static bool is_turn(unsigned long step)
{
	while (steps % 4 != step) {
		if (is_over)
			return false;
		sched_yield();
	}
	return true;
}

static void *touch(void *unused)
{
	uint64_t value;

	(void)unused;
	stay_on(other);
	while (is_turn(1)) {
		if (!is_read(LONE, &value) || value != (MAGIC | steps))
			fail("what was written is not read");
		*OTHERS = ~steps;
		steps++;
		is_turn(3);
		if (is_read(LONE, &value) || is_read(OTHERS, &value))
			fail("what is unmapped is read");
		steps++;
	}
	while (!is_done) {
		if (!is_read(LONE, &value)) {
			faults++;
			continue;
		}
		reads++;
		/* It is zero until it is written. */
		if (value && value >> 24 != MAGIC >> 24)
			fail("what nobody wrote is read");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_fault };
	unsigned long rounds, times;
	pthread_t thread;
	double half, end;

	if (argc != 4) {
		fprintf(stderr, "usage: lone SECONDS CPU OTHER\n");
		return 2;
	}
	half = atof(argv[1]) / 2;
	other = atoi(argv[3]);
	sigaction(SIGSEGV, &action, NULL);
	stay_on(atoi(argv[2]));
	if (pthread_create(&thread, NULL, touch, NULL))
		fail("pthread_create");

	end = now() + half;
	for (rounds = 0; now() < end; rounds++) {
		map();
		*LONE = MAGIC | (steps + 1);
		steps++;
		is_turn(2);
		if (*OTHERS != ~(steps - 1))
			fail("what the other CPU wrote is not read");
		unmap();
		steps++;
		is_turn(0);
	}
	is_over = true;

	end = now() + half;
	for (times = 0; now() < end; times++) {
		map();
		*LONE = MAGIC | (times & 0xffffff);
		unmap();
	}
	is_done = true;
	pthread_join(thread, NULL);
	printf("lone\t%lu\t%lu\t%lu\t%lu\n", rounds, times, reads, faults);
	return 0;
}
