/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the BPF object, makes the rings, opens the perf events of a CPU.
 */
#include "exporter/keeper/load.h"
#include "bpf/unwind/tables.h"
#include "exporter/keeper/check.h"
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "bpf/sonde.skel.h" /* generated */
#pragma GCC diagnostic pop
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

enum {
	RING_BYTES_PER_CPU = 128 * 1024, /* 100 ms at 999 Hz of stacks of 1,300 bytes */
	RING_MIN_BYTES = 2048 * 1024,	 /* copies of stacks come in bursts */
	COST_INTERVAL = 64,
	N_BUCKETS = 8192,      /* of four processes that are being sampled */
	N_WORDS = 256 << 10,   /* 2 MiB: about 4,000 different sets of 20 mappings */
	N_FILE_BUCKETS = 2048, /* of four files whose binary is known */
	N_BINARIES = 1 << 16,  /* ids of the registry: BINARY_MAX_ENTRIES */
	MIN_SLABS = 16,
	KERNEL_CHECK_EACH = 64,
};

struct loaded {
	struct sonde_bpf *skeleton;
	uint64_t period_ns;
};

/* libbpf's last complaint, for the error text: it names the map or program. */
static char last_complaint[256];

static int _printf_(2, 0) on_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[256];

	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = 0;
	if (level == LIBBPF_WARN)
		snprintf(last_complaint, sizeof(last_complaint), "%s", line);
	if (level != LIBBPF_DEBUG)
		log_printf(LOG_DEBUG, "%s", line);
	return 0;
}

static uint32_t ring_bytes(uint32_t n_cpus)
{
	uint32_t want = MIN(n_cpus, (uint32_t)ABI_CPUS_PER_RING) * RING_BYTES_PER_CPU,
		 bytes = RING_MIN_BYTES;

	while (bytes < want)
		bytes *= 2;
	return bytes;
}

/* Too old for what the programs call? Distributions bring that to older releases too, so it is asked once loading failed. */
static bool is_old_kernel(const char *release)
{
	char *end;
	unsigned long major = strtoul(release, &end, 10),
		      minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

	return major < 5 || (major == 5 && minor < 17);
}

static int explain_load(int r, struct errbuf *eb)
{
	struct utsname uts;

	if (uname(&uts) == 0 && is_old_kernel(uts.release))
		return err_set(eb, r,
			"cannot load the BPF object: this is Linux %s, and 5.17 or newer is needed "
			"(%s)",
			uts.release, last_complaint);

	if (r == -EPERM)
		return err_set(eb, r,
			"the kernel refused the BPF object (%s): a security policy forbids bpf()",
			last_complaint);
	return err_set(eb, r, "cannot load the BPF object: %s (%s)", strerror(-r), last_complaint);
}

static int configure(
	struct sonde_bpf *s, const struct role_options *o, uint32_t n_cpus, uint32_t n_rings)
{
	uint64_t slabs = o->table_bytes / (UNWIND_SLAB_WORDS * sizeof(uint32_t));
	const struct {
		struct bpf_map *map;
		uint64_t n;
	} sizes[] = {
		{s->maps.counters, n_cpus},
		{s->maps.stack_copies, n_cpus},
		{s->maps.rings, n_rings},
		{s->maps.heads, N_BUCKETS},
		{s->maps.run_words, N_WORDS},
		{s->maps.unwind_slabs,
			MIN(MAX(slabs, (uint64_t)MIN_SLABS), (uint64_t)UNWIND_MAX_SLABS)},
		{s->maps.unwind_rules, UNWIND_MAX_RULES},
		{s->maps.unwind_binaries, N_BINARIES},
		{s->maps.unwind_cache, UNWIND_CACHE_ANSWERS},
		{s->maps.known_files, N_FILE_BUCKETS},
	};

	bpf_program__set_autoload(s->progs.kernel_tables, !o->ask_kernel);
	s->rodata_config->config.version = ABI_VERSION;
	s->rodata_config->config.cost_interval = COST_INTERVAL;
	s->rodata_config->config.shadow = o->shadow;
	s->rodata_config->config.by_fp = o->by_frame_pointer;
	s->rodata_config->config.file_mask = N_FILE_BUCKETS - 1;
	s->rodata_config->config.bucket_mask = N_BUCKETS - 1;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (bpf_map__set_max_entries(sizes[i].map, (uint32_t)sizes[i].n))
			return -errno;
	return 0;
}

static void hand_over_maps(struct sonde_bpf *s, struct keeper_setup *ret)
{
	const struct bpf_map *maps[KEEPER_N_MAPS] = {
		[KEEPER_HEADS] = s->maps.heads,
		[KEEPER_WORDS] = s->maps.run_words,
		[KEEPER_SLABS] = s->maps.unwind_slabs,
		[KEEPER_RULES] = s->maps.unwind_rules,
		[KEEPER_BINARIES] = s->maps.unwind_binaries,
		[KEEPER_CACHE] = s->maps.unwind_cache,
		[KEEPER_FILES] = s->maps.known_files,
	};

	for (int i = 0; i < KEEPER_N_MAPS; i++) {
		ret->maps[i].fd = bpf_map__fd(maps[i]);
		ret->maps[i].n = bpf_map__max_entries(maps[i]);
		ret->maps[i].bytes = (uint64_t)ret->maps[i].n * bpf_map__value_size(maps[i]);
	}
}

static int make_rings(struct sonde_bpf *s, struct keeper_setup *ret, struct errbuf *eb)
{
	for (uint32_t i = 0; i < ret->n_rings; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, ret->ring_bytes, NULL);

		if (fd < 0)
			return err_set(eb, -errno, "cannot create ring %u of %u bytes: %s", i,
				ret->ring_bytes, strerror(errno));
		ret->ring_fds[i] = fd;
		if (bpf_map__update_elem(s->maps.rings, &i, sizeof(i), &fd, sizeof(fd), BPF_ANY))
			return err_set(
				eb, -errno, "cannot install ring %u: %s", i, strerror(errno));
	}
	return 0;
}

/* What the kernel has charged for a map, from its fdinfo. */
static uint64_t map_bytes(int fd)
{
	char path[64], line[128];
	uint64_t bytes = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "memlock:", 8) == 0)
			bytes = strtoull(line + 8, NULL, 10);
	if (f)
		fclose(f);
	return bytes;
}

static uint64_t all_map_bytes(struct sonde_bpf *s, const struct keeper_setup *setup)
{
	uint64_t sum = 0;
	struct bpf_map *m;

	bpf_object__for_each_map(m, s->obj) sum += map_bytes(bpf_map__fd(m));
	for (uint32_t i = 0; i < setup->n_rings; i++)
		sum += map_bytes(setup->ring_fds[i]);
	return sum;
}

/* What the kernel takes of a stack (kernel.perf_event_max_stack), which cannot change while the programs are loaded. */
static uint32_t max_kernel_frames(const struct role_options *o)
{
	int64_t n = ABI_MAX_KERNEL_FRAMES;

	if (check_read_number(o->procfs, "sys/kernel/perf_event_max_stack", &n) < 0 || n < 1)
		return ABI_MAX_KERNEL_FRAMES;
	return (uint32_t)MIN(n, (int64_t)ABI_MAX_KERNEL_FRAMES);
}

/* Has the kernel half look for the kernel's unwind table. */
static enum kernel_walk_by find_kernel_tables(struct sonde_bpf *s, const struct role_options *o)
{
	struct kernel_tables_args args = {.max_frames = max_kernel_frames(o),
		.check_each = o->kernel_check_each ? o->kernel_check_each : KERNEL_CHECK_EACH};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));

	if (o->ask_kernel)
		return KERNEL_WALK_FLAG;
	if (bpf_prog_test_run_opts(bpf_program__fd(s->progs.kernel_tables), &opts) ||
		opts.retval >= KERNEL_WALK_N)
		return KERNEL_WALK_FAILED;
	return (enum kernel_walk_by)opts.retval;
}

int load_bpf(const struct role_options *o, struct keeper_setup *ret, struct loaded **ret_loaded,
	struct errbuf *eb)
{
	_cleanup_(load_freep)
	struct loaded *l = xcalloc(1, sizeof(*l));
	char btf[4096];
	LIBBPF_OPTS(bpf_object_open_opts, opts);
	int r = libbpf_num_possible_cpus();

	if (r < 0 || r > ABI_MAX_CPUS)
		return err_set(eb, r < 0 ? r : -E2BIG,
			"this machine has %d possible CPUs; up to %d are supported", r,
			ABI_MAX_CPUS);
	ret->n_cpus = (uint32_t)r;
	ret->n_rings = (ret->n_cpus + ABI_CPUS_PER_RING - 1) / ABI_CPUS_PER_RING;
	ret->ring_bytes = ring_bytes(ret->n_cpus);
	libbpf_set_print(on_print);
	snprintf(btf, sizeof(btf), "%s/kernel/btf/vmlinux", o->sysfs);
	opts.btf_custom_path = btf;
	l->skeleton = sonde_bpf__open_opts(&opts);
	if (!l->skeleton)
		return err_set(eb, -errno, "cannot open the BPF object: %s (%s)", strerror(errno),
			last_complaint);
	r = configure(l->skeleton, o, ret->n_cpus, ret->n_rings);
	if (r == 0)
		r = sonde_bpf__load(l->skeleton);
	if (r < 0)
		return explain_load(r, eb);
	r = make_rings(l->skeleton, ret, eb);
	if (r < 0)
		return r;
	r = sonde_bpf__attach(l->skeleton);
	if (r < 0)
		return err_set(eb, r, "cannot attach to forks and exits: %s (%s)", strerror(-r),
			last_complaint);
	ret->kernel_walk = find_kernel_tables(l->skeleton, o);
	ret->counters_fd = bpf_map__fd(l->skeleton->maps.counters);
	hand_over_maps(l->skeleton, ret);
	ret->maps_bytes = all_map_bytes(l->skeleton, ret);
	l->period_ns = (uint64_t)NS_PER_S / o->frequency_hz;
	*ret_loaded = TAKE(l);
	return 0;
}

void load_freep(struct loaded **l)
{
	if (*l && (*l)->skeleton)
		sonde_bpf__destroy((*l)->skeleton);
	free(*l);
	*l = NULL;
}

static int program_fd(const struct loaded *l)
{
	return bpf_program__fd(l->skeleton->progs.sample_cpu);
}

size_t load_fds(const struct loaded *l, int ret[LOAD_MAX_FDS])
{
	const struct bpf_link *links[] = {
		l->skeleton->links.process_fork, l->skeleton->links.process_exit};
	size_t n = 0;

	ret[n++] = program_fd(l);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		ret[n++] = bpf_link__fd(links[i]);
	return n;
}

static int perf_open(struct perf_event_attr *attr, uint32_t cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int explain_perf(int r, uint32_t cpu, struct errbuf *eb)
{
	if (r == -EPERM || r == -EACCES)
		return err_set(eb, r,
			"perf_event_open on CPU %u: %s: kernel.perf_event_paranoid, a seccomp "
			"profile or a security module "
			"refuses perf events; with CAP_PERFMON and paranoid at most 2 the kernel "
			"itself allows them",
			cpu, strerror(-r));
	if (r == -EMFILE)
		return err_set(eb, r,
			"perf_event_open on CPU %u: %s: raise the limit of open files "
			"(LimitNOFILE=)",
			cpu, strerror(-r));
	return err_set(eb, r, "perf_event_open on CPU %u: %s", cpu, strerror(-r));
}

static int open_clock(struct loaded *l, uint32_t cpu)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = l->period_ns,
		.disabled = 1};
	int fd = perf_open(&attr, cpu);

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd(l)) ||
		ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

/*
 * Mappings, renames, forks and exits on this CPU, and code that the kernel makes; executable mappings only. Without build
 * ids: once perf_event_mmap_output (kernel/events/core.c, 5.12 to 6.18 at least) has written a record of an event that asked
 * for them, that of the next event says that it has one too, and does not. perf record 6.1 on the same machine then writes
 * files that its own report dies of. Without a watermark the kernel wakes who waits when half of the buffer is full.
 */
static int open_sideband(uint32_t cpu)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.ksymbol = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC};

	return perf_open(&attr, cpu);
}

int load_attach_cpu(struct loaded *l, uint32_t cpu, struct keeper_cpu *ret, struct errbuf *eb)
{
	_cleanup_close_ int clock_fd = open_clock(l, cpu);
	int sideband_fd;

	if (clock_fd < 0)
		return explain_perf(clock_fd, cpu, eb);
	sideband_fd = open_sideband(cpu);
	if (sideband_fd < 0)
		return explain_perf(sideband_fd, cpu, eb);
	ret->clock_fd = TAKE_FD(clock_fd);
	ret->sideband_fd = sideband_fd;
	return 0;
}
