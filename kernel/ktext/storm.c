// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load for the tests of kernel text replication: threads on all CPUs that map,
 * move, read and unmap, so that entries of the PML4 come and go, and that fork.
 *
 *   storm SECONDS
 *
 * Prints how much was done; exit status 1 with a message when memory was not what
 * it must be.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS	64
/* Entries of the PML4 that come and go, each of 512 GiB. */
#define SLOTS		48
#define FIRST_SLOT	4
#define SLOT_SHIFT	39
#define PAGES		4
#define PAGE		4096

static int cpus;
static double end;
static atomic_ulong mapped, forked;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "storm: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % cpus, &set);
	/* A CPU may just be offline. */
	sched_setaffinity(0, sizeof(set), &set);
}

/* Maps, often as the only one in its 512 GiB, on one CPU; reads and unmaps on another. */
static void *churn(void *number)
{
	unsigned int seed = (uintptr_t)number + 1;

	while (now() < end) {
		uint64_t slot = FIRST_SLOT + rand_r(&seed) % SLOTS;
		uint64_t at = (slot << SLOT_SHIFT) +
			      ((uint64_t)(rand_r(&seed) % 1000) << 21);
		volatile uint64_t *page;

		move_to(rand_r(&seed));
		page = mmap((void *)at, PAGES * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (page == MAP_FAILED) {
			if (errno == EEXIST)
				continue;
			fail("mmap");
		}
		page[0] = at;
		page[PAGE / 8] = ~at;
		move_to(rand_r(&seed));
		if (page[0] != at || page[PAGE / 8] != ~at || page[2 * PAGE / 8])
			fail("memory is not what was written");
		if (munmap((void *)page, PAGES * PAGE))
			fail("munmap");
		mapped++;
	}
	return NULL;
}

static void child(unsigned int seed)
{
	void *at = (void *)((uint64_t)(FIRST_SLOT + SLOTS + 1) << SLOT_SHIFT);
	volatile char *page;

	move_to(rand_r(&seed));
	page = mmap(at, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (page == MAP_FAILED || page[0])
		_exit(1);
	page[0] = 1;
	move_to(rand_r(&seed));
	_exit(page[0] == 1 ? 0 : 1);
}

static void *fork_again(void *number)
{
	unsigned int seed = (uintptr_t)number + 1000;

	while (now() < end) {
		int status;
		pid_t pid;

		move_to(rand_r(&seed));
		pid = fork();
		if (pid < 0)
			fail("fork");
		if (pid == 0)
			child(seed);
		if (waitpid(pid, &status, 0) != pid || status) {
			errno = 0;
			fail("a child's memory is not what was written");
		}
		forked++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2 * MAX_CPUS];

	if (argc != 2) {
		fprintf(stderr, "usage: storm SECONDS\n");
		return 2;
	}
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > MAX_CPUS)
		cpus = MAX_CPUS;
	end = now() + atof(argv[1]);
	for (int i = 0; i < 2 * cpus; i++) {
		void *(*work)(void *) = i % 2 ? fork_again : churn;

		if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i))
			fail("pthread_create");
	}
	for (int i = 0; i < 2 * cpus; i++)
		pthread_join(threads[i], NULL);
	printf("storm\t%lu\t%lu\n", mapped, forked);
	return 0;
}
