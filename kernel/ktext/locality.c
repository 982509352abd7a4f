/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * QEMU TCG plugin: counts the instructions that each CPU fetches, by the NUMA
 * node whose memory they lie in.
 *
 *   -plugin liblocality.so,out=FILE,symbols=FILE[,mark=NAME][,memory=MIB],node=PATH[,node=PATH...]
 *
 * node=PATH, in order of the nodes: the file of that node's memory-backend-file.
 * symbols=FILE: lines "ADDRESS END KIND NAME" in hexadecimal without 0x, sorted,
 * that do not overlap; KIND is one word, such as text. An instruction outside of
 * them is counted as other when its address is the kernel's, and not otherwise.
 * out=FILE: gets a table, separated by tabs.  mark=NAME: each call of that symbol
 * ends a section of the table, in which counts begin anew.  memory=MIB: the size
 * of each node's memory, one after the other from physical address 0; with it,
 * loads from symbols of the kind rodata are counted, too.
 *
 * The host address of an instruction is known when it is translated, and the
 * translation is bound to its page frame: one virtual address that lies in two
 * page frames is translated, and counted, twice.
 *
 * QEMU's header is not packaged: what is used of it is declared here, after
 * version 4 of the interface (QEMU 9.2 and newer).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_info;
struct qemu_plugin_hwaddr;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
	struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
	qemu_plugin_u64 entry, uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(
	struct qemu_plugin_insn *insn, void (*cb)(unsigned int, void *),
	int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(
	struct qemu_plugin_insn *insn,
	void (*cb)(unsigned int, qemu_plugin_meminfo_t, uint64_t, void *),
	int flags, enum qemu_plugin_mem_rw rw, void *data);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
						  uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *hwaddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *hwaddr);
void qemu_plugin_u64_add(qemu_plugin_u64 entry, unsigned int vcpu, uint64_t added);
void qemu_plugin_register_vcpu_tb_trans_cb(
	qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
				    void (*cb)(qemu_plugin_id_t, void *), void *data);
uint64_t qemu_plugin_u64_get(qemu_plugin_u64 entry, unsigned int vcpu);
int qemu_plugin_num_vcpus(void);

EXPORT int qemu_plugin_version = 4;

#define MAX_NODES	8
#define MAX_CPUS	64
/* Fetches from no node's memory: ROM, or unknown. */
#define NOWHERE		MAX_NODES
#define COUNTERS	(MAX_NODES + 1)
#define KERNEL_HALF	0xffff800000000000ULL

struct symbol {
	uint64_t start, end;
	char kind[16];
	char name[64];
};

static struct symbol *symbols;
static size_t symbol_count;
static struct {
	const char *path;
	uintptr_t start, end;
} nodes[MAX_NODES];
static unsigned int node_count;
static struct qemu_plugin_scoreboard *scores;
static FILE *out;
static unsigned int section;
/* Bytes of a node's memory; 0 if loads are not counted. */
static uint64_t node_size;
/* From the first to the last symbol of the kind rodata. */
static uint64_t rodata_start, rodata_end;
/* Symbol whose first instruction ends a section. */
static const char *mark = "";

static void find_nodes(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		char *path = strchr(line, '/');

		if (!path || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		path[strcspn(path, "\n")] = 0;
		for (unsigned int i = 0; i < node_count; i++) {
			if (strcmp(path, nodes[i].path))
				continue;
			/* A file may be mapped in parts that follow each other. */
			if (!nodes[i].end)
				nodes[i].start = start;
			nodes[i].end = end;
		}
	}
	if (maps)
		fclose(maps);
}

static unsigned int node_of(const void *host)
{
	uintptr_t at = (uintptr_t)host;

	if (!nodes[0].end)
		find_nodes();
	for (unsigned int i = 0; i < node_count; i++) {
		if (at >= nodes[i].start && at < nodes[i].end)
			return i;
	}
	return NOWHERE;
}

/* Index of the symbol at @at; symbol_count for what has none. */
static size_t symbol_of(uint64_t at)
{
	size_t low = 0, high = symbol_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (at < symbols[middle].start)
			high = middle;
		else if (at >= symbols[middle].end)
			low = middle + 1;
		else
			return middle;
	}
	return symbol_count;
}

static qemu_plugin_u64 counter(size_t symbol, unsigned int node)
{
	return (qemu_plugin_u64){
		scores, (symbol * COUNTERS + node) * sizeof(uint64_t)
	};
}

/*
 * Where the count at the last mark is kept.  Counters are never set: another CPU
 * may just add to them.
 */
static uint64_t *last_of(unsigned int cpu, size_t symbol, unsigned int node)
{
	static uint64_t *lasts[MAX_CPUS];

	if (!lasts[cpu])
		lasts[cpu] = calloc((symbol_count + 1) * COUNTERS, sizeof(uint64_t));
	/* Without it, counts of earlier sections would be counted again. */
	if (!lasts[cpu]) {
		fprintf(stderr, "locality: no memory\n");
		abort();
	}
	return &lasts[cpu][symbol * COUNTERS + node];
}

static void write_section(void)
{
	int cpus = qemu_plugin_num_vcpus();

	if (cpus > MAX_CPUS) {
		fprintf(stderr, "locality: more than %d CPUs\n", MAX_CPUS);
		abort();
	}
	for (size_t i = 0; i <= symbol_count; i++) {
		for (int cpu = 0; cpu < cpus; cpu++) {
			for (unsigned int node = 0; node <= MAX_NODES; node++) {
				uint64_t now = qemu_plugin_u64_get(counter(i, node), cpu);
				uint64_t *last = last_of(cpu, i, node);
				uint64_t count = now - *last;

				if (!count)
					continue;
				*last = now;
				fprintf(out, "%u\t%d\t%d\t%s\t%s\t%" PRIu64 "\n",
					section, cpu,
					node == NOWHERE ? -1 : (int)node,
					i < symbol_count ? symbols[i].kind : "other",
					i < symbol_count ? symbols[i].name : "-",
					count);
			}
		}
	}
	fflush(out);
	section++;
}

static void on_mark(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	write_section();
}

static void on_load(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t at,
		    void *data)
{
	struct qemu_plugin_hwaddr *hwaddr;
	unsigned int node = NOWHERE;
	size_t symbol;

	(void)data;
	if (at < rodata_start || at >= rodata_end)
		return;
	symbol = symbol_of(at);
	if (symbol == symbol_count || strcmp(symbols[symbol].kind, "rodata"))
		return;
	hwaddr = qemu_plugin_get_hwaddr(info, at);
	if (hwaddr && !qemu_plugin_hwaddr_is_io(hwaddr)) {
		uint64_t place = qemu_plugin_hwaddr_phys_addr(hwaddr) / node_size;

		if (place < node_count)
			node = place;
	}
	qemu_plugin_u64_add(counter(symbol, node), cpu, 1);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t at = qemu_plugin_insn_vaddr(insn);
		size_t symbol;

		if (at < KERNEL_HALF)
			continue;
		symbol = symbol_of(at);
		if (symbol < symbol_count && at == symbols[symbol].start &&
		    !strcmp(symbols[symbol].name, mark))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, 0,
							       NULL);
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
			insn, QEMU_PLUGIN_INLINE_ADD_U64,
			counter(symbol, node_of(qemu_plugin_insn_haddr(insn))), 1);
		if (node_size && rodata_end)
			qemu_plugin_register_vcpu_mem_cb(insn, on_load, 0,
							 QEMU_PLUGIN_MEM_R, NULL);
	}
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	write_section();
	fclose(out);
}

static bool read_symbols(const char *path)
{
	FILE *file = fopen(path, "r");
	size_t room = 0;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		struct symbol new = { 0 };

		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %15s %63s", &new.start,
			   &new.end, new.kind, new.name) != 4)
			continue;
		if (symbol_count == room) {
			struct symbol *more;

			room = room ? 2 * room : 1024;
			more = realloc(symbols, room * sizeof(*symbols));
			if (!more) {
				fclose(file);
				return false;
			}
			symbols = more;
		}
		symbols[symbol_count++] = new;
		if (!strcmp(new.kind, "rodata")) {
			if (!rodata_end)
				rodata_start = new.start;
			rodata_end = new.end;
		}
	}
	fclose(file);
	return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info,
			       int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			return -1;
		*value++ = 0;
		if (!strcmp(argv[i], "out")) {
			out = fopen(value, "w");
		} else if (!strcmp(argv[i], "symbols")) {
			if (!read_symbols(value)) {
				fprintf(stderr, "locality: cannot read %s\n", value);
				return -1;
			}
		} else if (!strcmp(argv[i], "mark")) {
			mark = strdup(value);
		} else if (!strcmp(argv[i], "memory")) {
			node_size = strtoull(value, NULL, 10) << 20;
		} else if (!strcmp(argv[i], "node") && node_count < MAX_NODES) {
			nodes[node_count++].path = strdup(value);
		} else {
			fprintf(stderr, "locality: unknown option %s\n", argv[i]);
			return -1;
		}
	}
	if (!out || !node_count) {
		fprintf(stderr, "locality: out and node are needed\n");
		return -1;
	}
	fprintf(out, "section\tcpu\tnode\tkind\tsymbol\tinstructions\n");
	scores = qemu_plugin_scoreboard_new((symbol_count + 1) * COUNTERS *
					    sizeof(uint64_t));
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
