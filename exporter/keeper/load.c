/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the BPF object, makes the rings, opens the perf events of a CPU.
 */
#include "exporter/keeper/load.h"
#include "bpf/core/slots.h"
#include "bpf/interp/rows.h"
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
#include <elf.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
	RING_BYTES_PER_CPU = 128 * 1024, /* 100 ms at 999 Hz of stacks of 1,300 bytes */
	RING_MIN_BYTES = 2048 * 1024,	 /* copies of stacks come in bursts */
	COST_INTERVAL = 64,
	N_BUCKETS = 8192,      /* of four processes that are being sampled */
	N_CODES = 32 << 10,    /* code objects of language runtimes that user space knows */
	N_WORDS = 256 << 10,   /* 2 MiB: about 4,000 different sets of 20 mappings */
	N_FILE_BUCKETS = 2048, /* of four files whose binary is known */
	N_BINARIES = 1 << 16,  /* ids of the registry: BINARY_MAX_ENTRIES */
	MIN_SLABS = 16,
	KERNEL_CHECK_EACH = 64,
};

struct loaded {
	struct bpf_object *object;
	struct keeper_programs programs;
	struct bpf_link *links
		[LOAD_MAX_LINKS]; /* of programs whose sections say what they are attached to */
	size_t n_links;
	uint32_t uprobe_type; /* in struct perf_event_attr; 0: none is needed */
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

/* Programs of the built-in object and of a test's own have the same maps. */
static struct bpf_map *map_of(const struct loaded *l, const char *name)
{
	struct bpf_map *m = bpf_object__find_map_by_name(l->object, name);

	ASSERT(m);
	return m;
}

static struct bpf_program *program_of(const struct loaded *l, uint32_t event)
{
	char name[EVENT_NAME_MAX + sizeof("sample_")];

	snprintf(name, sizeof(name), "sample_%s", l->programs.rows[event].event);
	return bpf_object__find_program_by_name(l->object, name);
}

/* Leaves out the programs and maps of rows that are off. */
static int choose_programs(const struct loaded *l, const struct role_options *o, struct errbuf *eb)
{
	struct bpf_program *p = bpf_object__find_program_by_name(l->object, "kernel_tables");
	struct bpf_map *m;

	bpf_program__set_autoload(p, !o->ask_kernel);
	for (uint32_t i = 0; i < l->programs.n; i++) {
		const struct keeper_program *row = &l->programs.rows[i];

		p = row->event ? program_of(l, i) : NULL;
		if (!p && row->is_on)
			return err_set(
				eb, -ENOENT, "the BPF object has no program sample_%s", row->event);
		if (p)
			bpf_program__set_autoload(p, row->is_on);
	}
	/* What else a row needs goes with it, as its maps do. */
	bpf_object__for_each_program(p, l->object)
	{
		if (programs_leave_out(&l->programs, bpf_program__name(p)))
			bpf_program__set_autoload(p, false);
	}
	bpf_object__for_each_map(m, l->object)
	{
		if (programs_leave_out(&l->programs, bpf_map__name(m)) &&
			bpf_map__set_autocreate(m, false))
			return err_set(
				eb, -EINVAL, "cannot leave out BPF map %s", bpf_map__name(m));
	}
	return 0;
}

static int size_maps(
	const struct loaded *l, const struct role_options *o, uint32_t n_cpus, uint32_t n_rings)
{
	uint64_t slabs = o->table_bytes / (UNWIND_SLAB_WORDS * sizeof(uint32_t));
	bool preemptible = programs_are_preemptible(&l->programs);
	const struct {
		const char *map;
		uint64_t n;
	} sizes[] = {
		{"counters", n_cpus},
		{"stack_copies", n_cpus},
		{"rings", n_rings},
		{"heads", N_BUCKETS},
		{"run_words", N_WORDS},
		{"unwind_slabs", MIN(MAX(slabs, (uint64_t)MIN_SLABS), (uint64_t)UNWIND_MAX_SLABS)},
		{"unwind_rules", UNWIND_MAX_RULES},
		{"unwind_binaries", N_BINARIES},
		{"unwind_cache", UNWIND_CACHE_ANSWERS},
		{"known_files", N_FILE_BUCKETS},
		{"interp_layouts", o->interp ? INTERP_LAYOUTS : 1},
		{"interp_hotspots", o->interp & ABI_INTERP_CODE ? INTERP_HOTSPOTS : 1},
		{"interp_processes", o->interp ? N_BUCKETS : 1},
		{"interp_codes", o->interp ? N_CODES : 1},
		{"scratch_cpu", preemptible ? SCRATCH_SLOTS : SCRATCH_ATOMIC_SLOTS},
		{"near_cpu", preemptible ? SCRATCH_KINDS : 1},
		{"kernel_cpus", preemptible ? SCRATCH_KINDS : 1},
	};

	/* An object whose programs take no kernel stacks has no kernel_cpus. */
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct bpf_map *m = bpf_object__find_map_by_name(l->object, sizes[i].map);

		if (m && bpf_map__set_max_entries(m, (uint32_t)sizes[i].n))
			return -errno;
	}
	return 0;
}

/* Each object that was linked has a copy of the configuration there; all programs read the first. */
static int configure(const struct loaded *l, const struct role_options *o)
{
	const struct abi_config config = {
		.version = ABI_VERSION,
		.cost_interval = COST_INTERVAL,
		.shadow = o->shadow,
		.by_fp = o->by_frame_pointer,
		.file_mask = N_FILE_BUCKETS - 1,
		.bucket_mask = N_BUCKETS - 1,
		.interp = o->by_frame_pointer ? 0 : o->interp,
	};
	struct bpf_map *m = map_of(l, ".rodata.config");
	_cleanup_free_ struct abi_config *all = xcalloc(1, bpf_map__value_size(m));

	ASSERT(bpf_map__value_size(m) >= sizeof(config));
	*all = config;
	return bpf_map__set_initial_value(m, all, bpf_map__value_size(m));
}

static void hand_over_maps(const struct loaded *l, struct keeper_setup *ret)
{
	static const char *const names[KEEPER_N_MAPS] = {
		[KEEPER_HEADS] = "heads",
		[KEEPER_WORDS] = "run_words",
		[KEEPER_SLABS] = "unwind_slabs",
		[KEEPER_RULES] = "unwind_rules",
		[KEEPER_BINARIES] = "unwind_binaries",
		[KEEPER_CACHE] = "unwind_cache",
		[KEEPER_FILES] = "known_files",
		[KEEPER_INTERP_LAYOUTS] = "interp_layouts",
		[KEEPER_INTERP_HOTSPOTS] = "interp_hotspots",
		[KEEPER_INTERP_PROCESSES] = "interp_processes",
	};

	for (int i = 0; i < KEEPER_N_MAPS; i++) {
		const struct bpf_map *m = map_of(l, names[i]);

		ret->maps[i].fd = bpf_map__fd(m);
		ret->maps[i].n = bpf_map__max_entries(m);
		ret->maps[i].bytes = (uint64_t)ret->maps[i].n * bpf_map__value_size(m);
	}
}

static int make_rings(const struct loaded *l, struct keeper_setup *ret, struct errbuf *eb)
{
	for (uint32_t i = 0; i < ret->n_rings; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, ret->ring_bytes, NULL);

		if (fd < 0)
			return err_set(eb, -errno, "cannot create ring %u of %u bytes: %s", i,
				ret->ring_bytes, strerror(errno));
		ret->ring_fds[i] = fd;
		if (bpf_map__update_elem(
			    map_of(l, "rings"), &i, sizeof(i), &fd, sizeof(fd), BPF_ANY))
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

static uint64_t all_map_bytes(const struct loaded *l, const struct keeper_setup *setup)
{
	uint64_t sum = 0;
	struct bpf_map *m;

	bpf_object__for_each_map(m, l->object) sum += map_bytes(bpf_map__fd(m));
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
static enum kernel_walk_by find_kernel_tables(const struct loaded *l, const struct role_options *o)
{
	struct kernel_tables_args args = {.max_frames = max_kernel_frames(o),
		.check_each = o->kernel_check_each ? o->kernel_check_each : KERNEL_CHECK_EACH};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));
	const struct bpf_program *p = bpf_object__find_program_by_name(l->object, "kernel_tables");

	if (o->ask_kernel)
		return KERNEL_WALK_FLAG;
	if (bpf_prog_test_run_opts(bpf_program__fd(p), &opts) || opts.retval >= KERNEL_WALK_N)
		return KERNEL_WALK_FAILED;
	return (enum kernel_walk_by)opts.retval;
}

static int open_object(struct loaded *l, const struct role_options *o, struct errbuf *eb)
{
	size_t bytes = o->object_bytes;
	const void *elf = o->object ? o->object : sonde_bpf__elf_bytes(&bytes);
	char btf[4096];
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "sonde_bpf", .btf_custom_path = btf);

	snprintf(btf, sizeof(btf), "%s/kernel/btf/vmlinux", o->sysfs);
	l->object = bpf_object__open_mem(elf, bytes, &opts);
	if (l->object)
		return 0;
	return err_set(
		eb, -errno, "cannot open the BPF object: %s (%s)", strerror(errno), last_complaint);
}

/* Programs whose sections say what they are attached to: all but perf events, uprobes and what is run once. */
static int attach_tracepoints(struct loaded *l, struct errbuf *eb)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, l->object)
	{
		if (bpf_program__type(p) != BPF_PROG_TYPE_TRACING || !bpf_program__autoload(p))
			continue;
		ASSERT(l->n_links < LOAD_MAX_LINKS);
		l->links[l->n_links] = bpf_program__attach(p);
		if (!l->links[l->n_links])
			return err_set(eb, -errno, "cannot attach %s to %s: %s (%s)",
				bpf_program__name(p), bpf_program__section_name(p), strerror(errno),
				last_complaint);
		l->n_links++;
	}
	return 0;
}

/* The kernel's number for perf events that are places in files. */
static int find_uprobe_type(struct loaded *l, const struct role_options *o, struct errbuf *eb)
{
	static const char name[] = "bus/event_source/devices/uprobe/type";
	int64_t type = 0;

	if (programs_have(&l->programs, EVENT_PER_FILE) &&
		check_read_number(o->sysfs, name, &type) < 0)
		return err_set(eb, -ENOTSUP,
			"%s/%s: the kernel has no uprobes (CONFIG_UPROBE_EVENTS)", o->sysfs, name);
	l->uprobe_type = (uint32_t)type;
	return 0;
}

static int load_object(
	struct loaded *l, const struct role_options *o, struct keeper_setup *ret, struct errbuf *eb)
{
	int r = choose_programs(l, o, eb);

	if (r < 0)
		return r;
	r = size_maps(l, o, ret->n_cpus, ret->n_rings);
	if (r == 0)
		r = configure(l, o);
	if (r == 0)
		r = bpf_object__load(l->object);
	return r < 0 ? explain_load(r, eb) : 0;
}

int load_bpf(const struct role_options *o, struct keeper_setup *ret, struct loaded **ret_loaded,
	struct errbuf *eb)
{
	_cleanup_(load_freep)
	struct loaded *l = xcalloc(1, sizeof(*l));
	int r = libbpf_num_possible_cpus();

	if (r < 0 || r > ABI_MAX_CPUS)
		return err_set(eb, r < 0 ? r : -E2BIG,
			"this machine has %d possible CPUs; up to %d are supported", r,
			ABI_MAX_CPUS);
	ret->n_cpus = (uint32_t)r;
	ret->n_rings = (ret->n_cpus + ABI_CPUS_PER_RING - 1) / ABI_CPUS_PER_RING;
	ret->ring_bytes = ring_bytes(ret->n_cpus);
	ret->events = o->events ? o->events : event_default_set();
	if (o->programs)
		l->programs = *o->programs;
	else
		programs_of_events(ret->events, o->frequency_hz, &l->programs);
	libbpf_set_print(on_print);
	r = open_object(l, o, eb);
	if (r == 0)
		r = load_object(l, o, ret, eb);
	if (r == 0)
		r = make_rings(l, ret, eb);
	if (r == 0)
		r = attach_tracepoints(l, eb);
	if (r == 0)
		r = find_uprobe_type(l, o, eb);
	if (r < 0)
		return r;
	ret->kernel_walk = find_kernel_tables(l, o);
	ret->counters_fd = bpf_map__fd(map_of(l, "counters"));
	hand_over_maps(l, ret);
	ret->maps_bytes = all_map_bytes(l, ret);
	*ret_loaded = TAKE(l);
	return 0;
}

void load_freep(struct loaded **lp)
{
	struct loaded *l = *lp;

	if (!l)
		return;
	for (size_t i = 0; i < l->n_links; i++)
		bpf_link__destroy(l->links[i]);
	bpf_object__close(l->object);
	free(l);
	*lp = NULL;
}

size_t load_fds(const struct loaded *l, int ret[LOAD_MAX_FDS])
{
	size_t n = 0;

	for (uint32_t i = 0; i < l->programs.n; i++)
		if (l->programs.rows[i].is_on)
			ret[n++] = bpf_program__fd(program_of(l, i));
	for (size_t i = 0; i < l->n_links; i++)
		ret[n++] = bpf_link__fd(l->links[i]);
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

/* A perf event that runs the program of a row, enabled. */
static int open_with_program(
	const struct loaded *l, uint32_t event, struct perf_event_attr *attr, uint32_t cpu)
{
	int fd = perf_open(attr, cpu), r;

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(program_of(l, event))) == 0 &&
		ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int load_attach(const struct loaded *l, uint32_t event, uint32_t cpu, struct errbuf *eb)
{
	const struct keeper_program *row = programs_find(&l->programs, event, EVENT_PER_CPU);
	struct perf_event_attr attr = {.size = sizeof(attr), .disabled = 1};
	int fd;

	if (!row)
		return err_set(eb, -ENOENT, "event %u is attached to no CPU, or off", event);
	attr.type = row->type;
	attr.config = row->config;
	attr.sample_period = row->period;
	fd = open_with_program(l, event, &attr, cpu);
	return fd < 0 ? explain_perf(fd, cpu, eb) : fd;
}

/* A place in the file: only ELF files are mapped as code, and their ends are known. */
static int check_place(int file_fd, uint64_t offset, struct errbuf *eb)
{
	char magic[SELFMAG];
	struct stat st;

	if (fstat(file_fd, &st) || !S_ISREG(st.st_mode))
		return err_set(eb, -EINVAL, "not a regular file");
	if (pread(file_fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
		memcmp(magic, ELFMAG, SELFMAG) != 0)
		return err_set(eb, -EINVAL, "not an ELF file");
	if (offset >= (uint64_t)st.st_size)
		return err_set(eb, -EINVAL, "offset %llu is beyond the end of the file, %llu",
			(unsigned long long)offset, (unsigned long long)st.st_size);
	return 0;
}

int load_attach_file(
	const struct loaded *l, uint32_t event, int file_fd, uint64_t offset, struct errbuf *eb)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .type = l->uprobe_type, .disabled = 1};
	char path[64];
	int r;

	if (!programs_find(&l->programs, event, EVENT_PER_FILE))
		return err_set(eb, -ENOENT, "event %u is attached to no files, or off", event);
	r = check_place(file_fd, offset, eb);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
	attr.uprobe_path = (uintptr_t)path;
	attr.probe_offset = offset;
	/* On whichever CPU the event is, its program runs on all. */
	for (uint32_t cpu = 0, n = (uint32_t)libbpf_num_possible_cpus(); cpu < n; cpu++) {
		r = open_with_program(l, event, &attr, cpu);
		if (r != -ENODEV && r != -ENXIO)
			break;
	}
	return r < 0 ? err_set(eb, r, "uprobe at offset %llu: %s", (unsigned long long)offset,
			       strerror(-r))
		     : r;
}

/*
 * Mappings, renames, forks and exits on this CPU, and code that the kernel makes; executable mappings only. Without build
 * ids: once perf_event_mmap_output (kernel/events/core.c, 5.12 to 6.18 at least) has written a record of an event that asked
 * for them, that of the next event says that it has one too, and does not. perf record 6.1 on the same machine then writes
 * files that its own report dies of. Without a watermark the kernel wakes who waits when half of the buffer is full.
 */
int load_attach_sideband(uint32_t cpu, struct errbuf *eb)
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
	int fd = perf_open(&attr, cpu);

	return fd < 0 ? explain_perf(fd, cpu, eb) : fd;
}

static int try_cpu(const struct loaded *l, uint32_t cpu, struct errbuf *eb)
{
	int fd = load_attach_sideband(cpu, eb);

	for (uint32_t i = 0; i < l->programs.n && fd >= 0; i++) {
		if (!programs_find(&l->programs, i, EVENT_PER_CPU))
			continue;
		close(fd);
		fd = load_attach(l, i, cpu, eb);
	}
	if (fd >= 0)
		close(fd);
	return MIN(fd, 0);
}

int load_try_attach(const struct loaded *l, uint32_t n_cpus, struct errbuf *eb)
{
	int r = -ENODEV;

	for (uint32_t cpu = 0; cpu < n_cpus && (r == -ENODEV || r == -ENXIO); cpu++)
		r = try_cpu(l, cpu, eb);
	return r;
}
