/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds: addresses that wait, by process → the process's files → names. Reading is paced: a
 * process whose files took long, or had none of the wanted names, has its turn less often.
 */
#include "exporter/jit/jit.h"
#include "exporter/jit/files.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/base/rounds.h"
#include "lib/base/table.h"
#include <string.h>
#include <sys/stat.h>

enum {
	ROUND_ADDRESSES = 1 << 16,
	MIN_CODES = 1 << 12,
	ROUND_BYTES = 32 << 20, /* of work on one file in a round */
	CODES_SHARE = 4,	/* of the budget that one file's pieces may take */
	MAX_PROCESSES = 4096,
	MAX_MISSES = 4,
	MAX_ATTACH_SHIFT = 4,
};
#define RETRY_NS (500 * NS_PER_MS) /* doubles with each miss, up to 8 s */
#define ATTACH_NS (5 * NS_PER_S)   /* doubles with each time that a JVM is asked, up to 80 s */
#define REST_FACTOR 10		   /* reading takes at most a tenth of one CPU */

/* One of the two files of a process. */
struct source {
	struct jit_file file;
	struct jit_codes codes;
};

struct jit_process {
	uint32_t pid;
	uint64_t start_ns;
	struct source map, dump;
	int64_t due_ns;
	int64_t rested_ns;     /* reading took at most a tenth of the time up to this */
	int64_t attach_due_ns; /* when the JVM may be asked again */
	unsigned n_attached;
	uint64_t last_use;
	unsigned misses;
	bool saw_exit, refused_owner;
};

struct jit {
	struct jit_options o;
	struct rounds rounds;
	/* What follows is the thread's that does them. */
	struct table by_process; /* hash → struct jit_process * */
	uint64_t n_rounds;
	struct jit_stats stats;
	/* A copy for readers. */
	struct lock published_lock; /* leaf */
	struct jit_stats published;
};

static struct jit_process *of_value(uint64_t value)
{
	union {
		uint64_t value;
		struct jit_process *p;
	} u = {.value = value};

	return u.p;
}

static uint64_t key_of(uint32_t pid, uint64_t start_ns)
{
	return hash_mix(pid) ^ hash_mix(start_ns + 1);
}

struct jit *jit_new(const struct jit_options *o)
{
	struct jit *j = xcalloc(1, sizeof(*j));

	j->o = *o;
	rounds_init(&j->rounds);
	lock_init(&j->published_lock);
	table_init(&j->by_process, NULL);
	return j;
}

static void forget(struct jit *j, struct jit_process *p)
{
	table_remove(&j->by_process, key_of(p->pid, p->start_ns));
	jit_codes_done(&p->map.codes);
	jit_codes_done(&p->dump.codes);
	free(p);
}

void jit_freep(struct jit **jp)
{
	struct jit *j = *jp;
	uint64_t key, value;

	if (!j)
		return;
	for (size_t pos = 0; table_next(&j->by_process, &pos, &key, &value);) {
		struct jit_process *p = of_value(value);

		jit_codes_done(&p->map.codes);
		jit_codes_done(&p->dump.codes);
		free(p);
	}
	table_done(&j->by_process);
	rounds_done(&j->rounds);
	lock_done(&j->published_lock);
	free(j);
	*jp = NULL;
}

/* The process that was asked for least lately, but not in this round. */
static struct jit_process *oldest(struct jit *j)
{
	struct jit_process *old = NULL;
	uint64_t key, value;

	for (size_t pos = 0; table_next(&j->by_process, &pos, &key, &value);) {
		struct jit_process *p = of_value(value);

		if (p->last_use < j->n_rounds && (!old || p->last_use < old->last_use))
			old = p;
	}
	return old;
}

static bool evict_one(struct jit *j)
{
	struct jit_process *p = oldest(j);

	if (!p)
		return false;
	j->stats.evicted += p->map.codes.n || p->dump.codes.n;
	forget(j, p);
	return true;
}

static size_t max_codes(const struct jit *j)
{
	uint64_t limit = j->o.budget ? j->o.budget->limit_bytes : 0;

	limit = limit ? limit : 64 << 20;
	return MAX(limit / CODES_SHARE / sizeof(struct jit_code), MIN_CODES);
}

static struct jit_process *find_process(struct jit *j, const struct proc_code_process *of)
{
	uint64_t *slot, key = key_of(of->pid, of->start_ns);
	struct jit_process *p;

	slot = table_find(&j->by_process, key);
	if (slot)
		return of_value(*slot);
	if (j->by_process.n_used >= MAX_PROCESSES && !evict_one(j))
		return NULL;
	slot = table_insert(&j->by_process, key, NULL);
	if (!slot)
		return NULL;
	p = xcalloc(1, sizeof(*p));
	p->pid = of->pid;
	p->start_ns = of->start_ns;
	jit_codes_init(&p->map.codes, max_codes(j), j->o.budget);
	jit_codes_init(&p->dump.codes, max_codes(j), j->o.budget);
	*slot = (uint64_t)(uintptr_t)p;
	return p;
}

static void refuse(struct jit *j, int error)
{
	static const struct {
		int error;
		enum jit_refusal refusal;
	} map[] = {
		{-EBADMSG, JIT_REFUSED_MALFORMED},
		{-EFBIG, JIT_REFUSED_SIZE},
		{-ENOMEM, JIT_REFUSED_MEMORY},
	};

	for (size_t i = 0; i < ARRAY_SIZE(map); i++)
		if (map[i].error == error) {
			j->stats.refused[map[i].refusal]++;
			return;
		}
	j->stats.refused[JIT_REFUSED_READ]++;
}

/* Anybody may write to /tmp: we trust only files of the process's own user or of root. */
static int open_file(
	struct jit *j, struct jit_process *p, const struct proc_code_process *of, const char *path)
{
	const struct binary_source source = {
		.pid = of->pid, .start_ns = of->start_ns, .root = of->root};
	int fd = binary_open_below(j->o.binaries, &source, path, KEEPER_NO_LINK);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) == 0 && (!of->uid_known || st.st_uid == of->uid || st.st_uid == 0))
		return fd;
	j->stats.refused[JIT_REFUSED_OWNER] += !p->refused_owner;
	p->refused_owner = true;
	close(fd);
	return -EPERM;
}

static int merge(struct jit *j, struct source *s)
{
	int r = jit_codes_merge(&s->codes);

	while (r == -ENOMEM && evict_one(j))
		r = jit_codes_merge(&s->codes);
	return r;
}

/* Reads on; true when there was news. */
static bool read_on(struct jit *j, struct source *s, int fd, bool is_dump)
{
	uint64_t bad = s->file.n_bad, dropped = s->codes.n_dropped;
	bool was_broken = s->file.is_broken;
	bool news = false;
	uint64_t began = s->file.work_bytes;
	int r;

	do {
		r = is_dump ? jit_dump_read(&s->file, fd, &s->codes)
			    : jit_map_read(&s->file, fd, &s->codes);
		news |= r > 0;
		if (merge(j, s) < 0)
			r = -ENOMEM;
	} while (r > 0 && s->file.work_bytes - began < ROUND_BYTES);
	if (r < 0 && !was_broken)
		refuse(j, r);
	if (r == -ENOMEM) { /* from its front when there is room again */
		jit_codes_clear(&s->codes);
		s->file.is_known = false;
	}
	j->stats.bad_lines += s->file.n_bad - bad;
	j->stats.dropped += s->codes.n_dropped - dropped;
	if (news && is_dump)
		j->stats.dump_reads++;
	else if (news)
		j->stats.map_reads++;
	return news;
}

/* What a round has open of one process. */
struct opened {
	struct jit_process *p;
	int map_fd, dump_fd;
};

static void close_files(struct opened *o)
{
	if (o->map_fd >= 0)
		close(o->map_fd);
	if (o->dump_fd >= 0)
		close(o->dump_fd);
}

static bool find_name(const struct opened *o, uint64_t addr, struct jit_name *ret)
{
	const struct jit_code *code = NULL;

	if (o->dump_fd >= 0)
		code = jit_codes_find(&o->p->dump.codes, addr);
	if (code && jit_dump_name(o->dump_fd, code, addr, ret))
		return true;
	code = o->map_fd >= 0 ? jit_codes_find(&o->p->map.codes, addr) : NULL;
	return code && jit_map_name(o->map_fd, code, ret);
}

/* After news: addresses at which other code is by now. */
static void retire(struct jit *j, const struct opened *o, const struct proc_code_process *of)
{
	_cleanup_free_ struct proc_code_named *named = NULL;
	struct jit_name name;
	size_t n;

	lock_take(j->o.procs_lock);
	n = proc_code_list_named(j->o.procs, of, &named);
	lock_release(j->o.procs_lock);
	for (size_t i = 0; i < n; i++) {
		if (!find_name(o, named[i].addr, &name) ||
			hash_xxh3(name.name, strlen(name.name)) == named[i].name_hash)
			continue;
		lock_take(j->o.procs_lock);
		proc_code_retire(j->o.procs, of, &named[i]);
		lock_release(j->o.procs_lock);
		j->stats.retired++;
	}
}

/* Names n addresses; returns how many have none. */
static size_t name_addresses(struct jit *j, const struct opened *o, const struct proc_code_batch *b,
	const struct proc_code_address *a, size_t n)
{
	struct jit_name name;
	size_t missing = 0;

	for (size_t i = 0; i < n; i++) {
		bool found = find_name(o, a[i].addr, &name);

		lock_take(j->o.procs_lock);
		proc_code_name(j->o.procs, b, &a[i], found ? name.name : NULL,
			found ? name.file : "", found ? name.line : 0);
		lock_release(j->o.procs_lock);
		j->stats.named += found;
		missing += !found;
	}
	return missing;
}

static bool is_due(const struct jit_process *p, const struct proc_code_process *of,
	const struct proc_code_address *a, size_t n, int64_t now_ns)
{
	if (now_ns >= p->due_ns || (of->exited && !p->saw_exit))
		return true;
	/* What was never asked for is asked for once, if there is a file at all. In a process of which other code never gets a
	 * name it may be code that a file has named since; but then reading does not go on without a rest. */
	if (!p->map.file.is_known && !p->dump.file.is_known)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!a[i].was_tried)
			return p->misses < MAX_MISSES || now_ns >= p->rested_ns;
	return false;
}

/* Code without a name is new since the JVM wrote its map last: it does so only when asked. */
static void ask_jvm(
	struct jit *j, struct jit_process *p, const struct proc_code_process *of, int64_t now_ns)
{
	int r;

	if (j->o.attacher_fd <= 0 || !of->has_jvm || of->exited || now_ns < p->attach_due_ns)
		return;
	r = attach_ask(j->o.attacher_fd, of->pid, of->start_ns);
	j->stats.attach_busy += r < 0;
	if (r < 0)
		return;
	p->attach_due_ns = now_ns + ((int64_t)ATTACH_NS << p->n_attached);
	p->n_attached = MIN(p->n_attached + 1, (unsigned)MAX_ATTACH_SHIFT);
}

static void take_answers(struct jit *j)
{
	int status;

	while (j->o.attacher_fd > 0 && (status = attach_next_status(j->o.attacher_fd)) >= 0)
		j->stats.attached[status]++;
}

static void round_of_process(
	struct jit *j, const struct proc_code_batch *b, const struct proc_code_address *a, size_t n)
{
	const struct proc_code_process *of = &b->processes[a->process];
	int64_t began = clock_monotonic_ns(j->o.clock), now;
	struct opened o = {.p = find_process(j, of), .map_fd = -1, .dump_fd = -1};
	bool news = false;
	size_t n_missing;
	char path[64];

	if (!o.p || !is_due(o.p, of, a, n, began))
		return;
	o.p->last_use = j->n_rounds;
	o.p->saw_exit = of->exited;
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", of->ns_pid);
	o.map_fd = open_file(j, o.p, of, path);
	o.dump_fd = of->dump ? open_file(j, o.p, of, of->dump) : -1;
	if (o.map_fd >= 0)
		news |= read_on(j, &o.p->map, o.map_fd, false);
	if (o.dump_fd >= 0)
		news |= read_on(j, &o.p->dump, o.dump_fd, true);
	if (news)
		retire(j, &o, of);
	n_missing = name_addresses(j, &o, b, a, n);
	o.p->misses = n_missing && !news ? MIN(o.p->misses + 1, MAX_MISSES) : 0;
	close_files(&o);
	now = clock_monotonic_ns(j->o.clock);
	if (n_missing)
		ask_jvm(j, o.p, of, now);
	o.p->rested_ns = now + (now - began) * REST_FACTOR;
	o.p->due_ns = MAX(now + ((int64_t)RETRY_NS << o.p->misses), o.p->rested_ns);
}

static void publish(struct jit *j)
{
	struct jit_stats now = j->stats;
	uint64_t key, value;

	now.processes = j->by_process.n_used;
	for (size_t pos = 0; table_next(&j->by_process, &pos, &key, &value);)
		now.codes += of_value(value)->map.codes.n + of_value(value)->dump.codes.n;
	lock_take(&j->published_lock);
	j->published = now;
	lock_release(&j->published_lock);
}

void jit_round(struct jit *j)
{
	struct proc_code_batch b;

	rounds_begin(&j->rounds);
	j->n_rounds++;
	take_answers(j);
	lock_take(j->o.procs_lock);
	proc_code_take(j->o.procs, PROC_CODE_JIT, ROUND_ADDRESSES, &b);
	lock_release(j->o.procs_lock);
	for (size_t i = 0, n; i < b.n_addresses; i += n) {
		for (n = 1; i + n < b.n_addresses &&
			    b.addresses[i + n].process == b.addresses[i].process;
			n++)
			;
		round_of_process(j, &b, &b.addresses[i], n);
	}
	proc_code_batch_done(&b);
	publish(j);
	rounds_end(&j->rounds);
}

void jit_await_round(struct jit *j, int64_t until_ns)
{
	if (j->o.bell)
		(void)rounds_ask(&j->rounds, j->o.bell, until_ns);
}

void jit_stats(struct jit *j, struct jit_stats *ret)
{
	lock_take(&j->published_lock);
	*ret = j->published;
	lock_release(&j->published_lock);
}
