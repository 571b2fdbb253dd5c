/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of stacks to be walked again, and their comparison. A request to the parser holds stacks of one process image, so
 * that its files are opened once for all of them.
 */
#include "exporter/walk/shadow.h"
#include "exporter/walk/record.h"
#include "exporter/symfile/symbol_file.h"
#include "lib/base/alloc.h"
#include "lib/base/lock.h"
#include "lib/base/log.h"
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
	MAX_FILES = PARSER_MAX_INPUTS - 1, /* of a request; the first input is the request */
	MAX_PLACES = 8,			   /* of one file: node maps parts of its code once more */
	MAX_MODULES = 128,
	MAX_RANGES = 512, /* of executable memory; above them any address may be code */
	TIMEOUT_MS = 10000,
	FRAMES_BELOW = 6, /* the difference: as many are shown */
	FRAMES_ABOVE = 10,
};

struct module {
	uint32_t binary;
	struct proc_place place;
	struct binary_source source;
};

/* A stack that waits. */
struct item {
	struct item *next;
	size_t bytes;
	uint64_t start_ns;
	uint32_t pid, exec_id, n_words, n_modules, n_ranges;
	char comm[ABI_COMM_LEN];
	struct module *modules; /* these four lie behind this */
	struct proc_range *ranges;
	uint64_t *words;
	struct abi_stack *stack;
};

struct file {
	uint32_t binary;
	int fd; /* -1: there is no way to it any more */
	struct binary_build_id build_id;
};

struct batch {
	struct item *items[PARSER_WALK_MAX_STACKS];
	struct file files[MAX_FILES];
	struct parser_walk_module modules[MAX_MODULES];
	uint32_t n_items, n_files, n_modules;
};

struct shadow {
	struct shadow_options o;
	struct lock lock; /* what follows, up to the line */
	pthread_cond_t queued;
	struct item *first, **last;
	struct shadow_stats stats;
	struct shadow_mismatch mismatches[SHADOW_N_MISMATCHES];
	uint64_t n_mismatches; /* ever: the newest is at this less one, modulo */
	/* ---- of the shadow thread */
	int64_t not_before_ns;
	struct batch batch;
	struct shadow_chain ours, theirs;
	/* ---- of the drain thread */
	struct module modules[MAX_MODULES];
	struct proc_range ranges[MAX_RANGES];
	uint64_t words[ABI_MAX_USER_WORDS];
};

struct shadow *shadow_new(const struct shadow_options *o)
{
	struct shadow *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	s->last = &s->first;
	lock_init(&s->lock);
	lock_cond_init(&s->queued);
	return s;
}

static void item_free(struct shadow *s, struct item *item)
{
	if (s->o.budget)
		budget_release(s->o.budget, item->bytes);
	free(item);
}

void shadow_freep(struct shadow **sp)
{
	struct shadow *s = *sp;

	if (!s)
		return;
	while (s->first) {
		struct item *next = s->first->next;

		item_free(s, s->first);
		s->first = next;
	}
	pthread_cond_destroy(&s->queued);
	lock_done(&s->lock);
	free(s);
	*sp = NULL;
}

/* ---- taking stacks in: the drain thread ---- */

/* The same word, native where its address lies in a file; cut, as it will be shown, where a caller's is no code. */
static uint64_t located(struct shadow *s, struct process *p, const struct abi_record *r, uint32_t i)
{
	struct record_frame f = record_user_frame(r, i);
	uint64_t at;

	if (!abi_frame_is_address(f.word))
		return f.word;
	at = proc_locate(s->o.procs, p, ABI_FRAME_VALUE(f.lookup), r->time_ns);
	if (ABI_FRAME_KIND(at) == ABI_FRAME_NATIVE)
		return record_frame_at(at, f.word != f.lookup).word;
	return at || !i ? ABI_FRAME(ABI_FRAME_RAW, ABI_FRAME_VALUE(f.word))
			: ABI_FRAME(ABI_FRAME_TRUNCATED, ABI_CUT_BAD_PC);
}

static bool has_binary(const struct module *modules, uint32_t n, uint32_t binary)
{
	for (uint32_t i = 0; i < n; i++)
		if (modules[i].binary == binary)
			return true;
	return false;
}

/* Of what lies ready in the drain thread's arrays. */
struct counts {
	uint32_t modules, ranges, words;
};

/* Adds where the frame's file lies, unless it is there. False when that is not known any more, or there are too many. */
static bool add_module(
	struct shadow *s, struct process *p, uint64_t time_ns, uint64_t word, struct counts *n)
{
	struct proc_place places[MAX_PLACES];
	size_t found;

	if (ABI_FRAME_KIND(word) != ABI_FRAME_NATIVE ||
		has_binary(s->modules, n->modules, ABI_NATIVE_BINARY(word)))
		return true;
	found = proc_places(s->o.procs, p, ABI_NATIVE_BINARY(word), time_ns, places, MAX_PLACES);
	if (!found || n->modules + found > MAX_MODULES)
		return false;
	for (size_t i = 0; i < found; i++) {
		struct module *m = &s->modules[n->modules++];

		m->binary = ABI_NATIVE_BINARY(word);
		m->place = places[i];
		proc_source(s->o.procs, p, &m->place, &m->source);
	}
	return true;
}

/* NULL when there is no room. */
static struct item *item_new(struct shadow *s, const struct abi_record *r, const struct counts *n,
	const struct abi_stack *stack)
{
	size_t modules = n->modules * sizeof(struct module);
	size_t ranges = n->ranges * sizeof(struct proc_range);
	size_t words = n->words * sizeof(uint64_t), copy = sizeof(*stack) + stack->bytes;
	size_t bytes = sizeof(struct item) + modules + ranges + words + copy;
	struct item *item;

	if (s->o.budget && budget_charge(s->o.budget, bytes, NULL) < 0)
		return NULL;
	item = try_malloc(bytes);
	if (!item) {
		if (s->o.budget)
			budget_release(s->o.budget, bytes);
		return NULL;
	}
	*item = (struct item) {.bytes = bytes,
		.start_ns = r->start_ns,
		.pid = r->pid,
		.exec_id = r->exec_id,
		.n_words = n->words,
		.n_modules = n->modules,
		.n_ranges = n->ranges};
	memcpy(item->comm, r->leader_comm, sizeof(item->comm));
	item->modules = (struct module *)(void *)(item + 1);
	item->ranges = (struct proc_range *)(void *)(item->modules + n->modules);
	item->words = (uint64_t *)(void *)(item->ranges + n->ranges);
	item->stack = (struct abi_stack *)(void *)(item->words + n->words);
	memcpy(item->modules, s->modules, modules);
	memcpy(item->ranges, s->ranges, ranges);
	memcpy(item->words, s->words, words);
	memcpy(item->stack, stack, copy);
	return item;
}

static bool is_full(struct shadow *s)
{
	bool full;

	lock_take(&s->lock);
	full = s->stats.waiting >= SHADOW_MAX_WAITING;
	s->stats.skipped += full;
	lock_release(&s->lock);
	return full;
}

void shadow_take(struct shadow *s, const struct abi_record *r, const struct abi_stack *stack)
{
	struct process *p = proc_table_of_record(s->o.procs, r);
	struct item *item;
	struct counts n = {0};
	uint64_t word = 0;

	if (r->n_user > ARRAY_SIZE(s->words) || is_full(s))
		return;
	while (n.words < r->n_user && ABI_FRAME_KIND(word) != ABI_FRAME_TRUNCATED &&
		ABI_FRAME_KIND(word) != ABI_FRAME_ELIDED) {
		word = located(s, p, r, n.words);
		/* From such a frame on there is nothing to compare by. */
		if (!add_module(s, p, r->time_ns, word, &n))
			word = ABI_FRAME(ABI_FRAME_ELIDED, 0);
		s->words[n.words++] = word;
	}
	n.ranges = (uint32_t)proc_code_ranges(p, r->time_ns, s->ranges, MAX_RANGES);
	if (n.ranges > MAX_RANGES)
		n.ranges = 0;
	item = item_new(s, r, &n, stack);
	lock_take(&s->lock);
	if (item) {
		*s->last = item;
		s->last = &item->next;
		s->stats.waiting++;
		pthread_cond_signal(&s->queued);
	} else {
		s->stats.skipped++;
	}
	lock_release(&s->lock);
}

/* ---- a request: the shadow thread ---- */

/* The number of its file among those of the batch, opened when it is new; MAX_FILES when there are too many. */
static uint32_t file_of(struct shadow *s, const struct module *m)
{
	struct batch *b = &s->batch;
	struct file *f;

	for (uint32_t i = 0; i < b->n_files; i++)
		if (b->files[i].binary == m->binary)
			return i;
	if (b->n_files == MAX_FILES)
		return MAX_FILES;
	f = &b->files[b->n_files];
	f->binary = m->binary;
	f->build_id.len = 0;
	f->fd = binary_open(s->o.binaries, m->binary, &m->source, &f->build_id);
	return b->n_files++;
}

static void add_request_module(struct shadow *s, const struct module *m)
{
	struct batch *b = &s->batch;
	uint32_t file = file_of(s, m);
	struct parser_walk_module *to = &b->modules[b->n_modules];

	if (file == MAX_FILES || b->files[file].fd < 0 || b->n_modules == MAX_MODULES)
		return;
	/* Of a file that is mapped once more somewhere else elfutils gets the lowest; it would take such a copy for all of the file. */
	for (uint32_t i = 0; i < b->n_modules; i++)
		if (b->modules[i].file == file)
			return;
	*to = (struct parser_walk_module) {.file = file,
		.start = m->place.start,
		.file_off = m->place.file_off,
		.build_id_len = b->files[file].build_id.len};
	memcpy(to->build_id, b->files[file].build_id.bytes, sizeof(to->build_id));
	b->n_modules++;
}

static bool is_same_image(const struct item *a, const struct item *b)
{
	return a->pid == b->pid && a->start_ns == b->start_ns && a->exec_id == b->exec_id;
}

/* Moves the oldest stack and others of its process into the batch. */
static void take_batch_locked(struct shadow *s)
{
	struct batch *b = &s->batch;

	ASSERT_HELD(&s->lock);
	b->n_items = b->n_files = b->n_modules = 0;
	for (struct item **at = &s->first; *at && b->n_items < PARSER_WALK_MAX_STACKS;) {
		struct item *item = *at;

		if (b->n_items && !is_same_image(item, b->items[0])) {
			at = &item->next;
			continue;
		}
		*at = item->next;
		b->items[b->n_items++] = item;
	}
	s->last = &s->first;
	while (*s->last)
		s->last = &(*s->last)->next;
	s->stats.waiting -= b->n_items;
}

/* False when there is none before the time is over. */
static bool wait_batch(struct shadow *s, int64_t timeout_ns)
{
	int64_t until = clock_monotonic_ns(s->o.clock) + timeout_ns, now;
	bool found;

	lock_take(&s->lock);
	while ((now = clock_monotonic_ns(s->o.clock)) < until &&
		(!s->first || now < s->not_before_ns)) {
		(void)lock_wait_until(
			&s->lock, &s->queued, s->first ? MIN(until, s->not_before_ns) : until);
	}
	found = s->first && now >= s->not_before_ns;
	if (found)
		take_batch_locked(s);
	lock_release(&s->lock);
	return found;
}

static int write_request(struct shadow *s)
{
	const struct abi_stack *stacks[PARSER_WALK_MAX_STACKS];
	_cleanup_close_ int fd = memfd_create("stacks", MFD_CLOEXEC);
	_cleanup_bytes_ struct bytes out;
	struct batch *b = &s->batch;

	for (uint32_t i = 0; i < b->n_items; i++)
		stacks[i] = b->items[i]->stack;
	bytes_init(&out, s->o.budget, 0);
	parser_walk_put(&out, b->modules, b->n_modules, stacks, b->n_items);
	if (bytes_error(&out) < 0 || fd < 0 || write(fd, out.data, out.len) != (ssize_t)out.len)
		return -1;
	return TAKE_FD(fd);
}

/* The parser's answer, or -1. */
static int ask_parser(struct shadow *s)
{
	_cleanup_close_ int request = -1;
	struct batch *b = &s->batch;
	int inputs[PARSER_MAX_INPUTS], answer;
	uint32_t numbers[MAX_FILES], n = 1;
	struct parser_reply reply;

	/* Files that could not be opened have no number; no module names one. */
	for (uint32_t i = 0; i < b->n_files; i++) {
		numbers[i] = n - 1;
		if (b->files[i].fd >= 0)
			inputs[n++] = b->files[i].fd;
	}
	for (uint32_t i = 0; i < b->n_modules; i++)
		b->modules[i].file = numbers[b->modules[i].file];
	request = write_request(s);
	if (request < 0)
		return -1;
	inputs[0] = request;
	answer = parser_ask_with(s->o.parser_fd, PARSER_WALK, inputs, n, TIMEOUT_MS, &reply);
	s->not_before_ns = clock_monotonic_ns(s->o.clock) +
			   (int64_t)((double)reply.cpu_ns * (1 / s->o.max_cpu - 1));
	if (reply.status != PARSER_OK)
		LOG_RATED(LOG_DEBUG, "stacks were not walked a second time: %s", reply.text);
	return answer;
}

/* ---- the comparison ---- */

/* What the frame's code is looked up by. */
static uint64_t address_of(uint64_t frame)
{
	return (frame & ~PARSER_WALK_ACTIVATION) - !(frame & PARSER_WALK_ACTIVATION);
}

/* A frame that elfutils found, as one of a record. */
static struct record_frame frame_of(const struct item *item, uint64_t frame, bool is_return)
{
	uint64_t at = address_of(frame);

	for (uint32_t i = 0; i < item->n_modules; i++) {
		const struct proc_place *p = &item->modules[i].place;

		if (at >= p->start && at < p->end)
			return record_frame_at(
				ABI_NATIVE(item->modules[i].binary, at - p->start + p->file_off),
				is_return);
	}
	return record_frame_at(ABI_FRAME(ABI_FRAME_RAW, at), is_return);
}

static bool may_be_code(const struct item *item, uint64_t addr)
{
	for (uint32_t i = 0; i < item->n_ranges; i++)
		if (addr >= item->ranges[i].start && addr < item->ranges[i].end)
			return true;
	return !item->n_ranges;
}

static bool leads_astray(struct shadow *s, uint64_t lookup)
{
	const struct symbol_file *symbols;
	struct symbol_function f;
	uint64_t vaddr;
	bool astray;

	if (ABI_FRAME_KIND(lookup) != ABI_FRAME_NATIVE)
		return false;
	symbols = binary_symbols_get(s->o.binaries, ABI_NATIVE_BINARY(lookup), 0);
	astray = symbols && symbols->toolchain.language == LANGUAGE_GO &&
		 symbol_file_vaddr(symbols, ABI_NATIVE_OFF(lookup), &vaddr) &&
		 symbol_file_find(symbols, vaddr, &f) && parser_walk_leads_astray(f.name);
	if (symbols)
		binary_symbols_put(s->o.binaries, symbols);
	return astray;
}

static enum shadow_unknown why_it_ended(enum parser_walk_end end, uint64_t last)
{
	switch (end) {
	case PARSER_WALK_COPY: return SHADOW_COPY;
	case PARSER_WALK_NO_CFI: return SHADOW_NO_ROWS;
	case PARSER_WALK_NO_FILE:
		return ABI_FRAME_KIND(last) == ABI_FRAME_NATIVE ? SHADOW_NO_FILE : SHADOW_JIT;
	case PARSER_WALK_NULL: return SHADOW_ASTRAY;
	default: return SHADOW_FAILED;
	}
}

/* Up to where elfutils lost its way: what it took for a return address leads to no code, or it comes out of code that it
 * cannot know. */
static enum shadow_unknown read_theirs(
	struct shadow *s, const struct item *item, struct parser_walk *walk)
{
	struct shadow_chain *c = &s->theirs;

	c->n = 0;
	c->n_by_rows = walk->n_by_rows;
	c->end = walk->end == PARSER_WALK_ROOT ? SHADOW_ENDS_AT_ROOT : SHADOW_ENDS_OPEN;
	for (uint32_t i = 0; i < walk->n; i++) {
		uint64_t found = cursor_u64(&walk->frames);
		struct record_frame f = frame_of(item, found, i > 0);
		bool lost = i && !may_be_code(item, address_of(found));

		if (!lost)
			c->words[c->n++] = f.word;
		if (lost || leads_astray(s, f.lookup)) {
			c->end = SHADOW_ENDS_OPEN;
			return lost ? SHADOW_ASTRAY : SHADOW_OTHER_STACK;
		}
	}
	return why_it_ended(walk->end_of_rows, walk->n_by_rows ? c->words[walk->n_by_rows - 1] : 0);
}

/* The path of a native frame's file, "" of others. */
static void frame_file(struct shadow *s, uint64_t word, struct binary_info *ret)
{
	*ret = (struct binary_info) {{0}, {0}};
	if (ABI_FRAME_KIND(word) == ABI_FRAME_NATIVE)
		binary_info(s->o.binaries, ABI_NATIVE_BINARY(word), ret);
}

static uint64_t frame_addr(uint64_t word)
{
	return ABI_FRAME_KIND(word) == ABI_FRAME_NATIVE ? ABI_NATIVE_OFF(word)
							: ABI_FRAME_VALUE(word);
}

static void print_chain(
	struct shadow *s, const struct shadow_chain *c, uint32_t at, char ret[SHADOW_CHAIN_TEXT])
{
	uint32_t first = at > FRAMES_BELOW ? at - FRAMES_BELOW : 0;
	size_t n = 0;

	ret[0] = '\0';
	for (uint32_t i = first; i < MIN(c->n, at + FRAMES_ABOVE) && n < SHADOW_CHAIN_TEXT; i++) {
		struct binary_info info;
		const char *slash;

		frame_file(s, c->words[i], &info);
		slash = strrchr(info.path, '/');
		n += (size_t)snprintf(ret + n, SHADOW_CHAIN_TEXT - n, "%s%u %s%s0x%" PRIx64,
			i == first ? "" : "\n", i, slash ? slash + 1 : info.path,
			*info.path ? "+" : "", frame_addr(c->words[i]));
	}
}

static void keep_mismatch(struct shadow *s, const struct item *item, uint32_t at)
{
	struct shadow_mismatch m = {.pid = item->pid, .frame = at};
	struct binary_info info;
	uint64_t below = at && at <= s->ours.n ? s->ours.words[at - 1] : 0;

	memcpy(m.comm, item->comm, sizeof(m.comm));
	m.comm[sizeof(m.comm) - 1] = '\0';
	frame_file(s, below, &info);
	memcpy(m.module, info.path, sizeof(m.module));
	m.addr = frame_addr(below);
	print_chain(s, &s->ours, at, m.ours);
	print_chain(s, &s->theirs, at, m.theirs);
	LOG_RATED(LOG_WARN, "a stack of %s (pid %u) came out different at frame %u: %s+0x%" PRIx64,
		m.comm, m.pid, at, m.module, m.addr);
	lock_take(&s->lock);
	s->mismatches[s->n_mismatches++ % SHADOW_N_MISMATCHES] = m;
	lock_release(&s->lock);
}

static void count(
	struct shadow *s, enum shadow_result result, enum shadow_unknown why, uint32_t frames)
{
	lock_take(&s->lock);
	s->stats.results[result]++;
	s->stats.unknown[why] += result == SHADOW_UNKNOWN;
	s->stats.frames += frames;
	lock_release(&s->lock);
}

static void compare(struct shadow *s, const struct item *item, struct cursor *answer)
{
	enum shadow_result result = SHADOW_UNKNOWN;
	enum shadow_unknown why = SHADOW_NO_ANSWER;
	struct parser_walk walk;
	uint32_t at = 0;

	if (parser_walk_next(answer, &walk) == 0) {
		shadow_expand(item->words, item->n_words, &s->ours);
		why = read_theirs(s, item, &walk);
		why = s->ours.n > 1 || s->ours.end != SHADOW_ENDS_OPEN ? why : SHADOW_UNMAPPED;
		result = shadow_judge(&s->ours, &s->theirs, &at);
	}
	if (result == SHADOW_MISMATCH)
		keep_mismatch(s, item, at);
	count(s, result, why, at > 1 ? at - 1 : 0);
}

void shadow_work(struct shadow *s, int64_t timeout_ns)
{
	struct batch *b = &s->batch;
	_cleanup_close_ int fd = -1;
	struct cursor answer;
	struct stat st;
	void *map = MAP_FAILED;

	if (!wait_batch(s, timeout_ns))
		return;
	for (uint32_t i = 0; i < b->n_items; i++)
		for (uint32_t k = 0; k < b->items[i]->n_modules; k++)
			add_request_module(s, &b->items[i]->modules[k]);
	fd = ask_parser(s);
	for (uint32_t i = 0; i < b->n_files; i++)
		if (b->files[i].fd >= 0)
			close(b->files[i].fd);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	answer = map == MAP_FAILED ? cursor_of(NULL, 0) : cursor_of(map, (size_t)st.st_size);
	for (uint32_t i = 0; i < b->n_items; i++) {
		compare(s, b->items[i], &answer);
		item_free(s, b->items[i]);
	}
	if (map != MAP_FAILED)
		munmap(map, (size_t)st.st_size);
}

void shadow_stats(struct shadow *s, struct shadow_stats *ret)
{
	lock_take(&s->lock);
	*ret = s->stats;
	lock_release(&s->lock);
}

size_t shadow_mismatches(struct shadow *s, struct shadow_mismatch ret[SHADOW_N_MISMATCHES])
{
	size_t n;

	lock_take(&s->lock);
	n = (size_t)MIN(s->n_mismatches, (uint64_t)SHADOW_N_MISMATCHES);
	for (size_t i = 0; i < n; i++)
		ret[i] = s->mismatches[(s->n_mismatches - 1 - i) % SHADOW_N_MISMATCHES];
	lock_release(&s->lock);
	return n;
}
