/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbol threads' work: takes what is wanted from the queue, opens it, has the parser
 * identify and, when neither another binary nor the disk has its content, compile it. Paced: a
 * new binary has a short burst of parser CPU free; what it takes beyond that is paid off at
 * --symbols.max-cpu before the next large one starts. Stacks cannot wait for that, names can: so where the
 * whole would take long the unwind rows are made first, by themselves and unpaced. What is small is made
 * at once, whatever is owed. Of each queue one is at work; a second thread takes over when that one takes
 * so long that its parser may hang.
 */
#include "exporter/binary/registry.h"
#include "lib/base/alloc.h"
#include "lib/base/cursor.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* What came of one binary. */
struct outcome {
	int error; /* negative errno: no symbols */
	bool has_identity;
	struct parser_description file; /* its identity when has_identity */
	struct symbol_file symbols;	/* .data NULL when none was made */
	bool on_disk;
	uint64_t cpu_ns;
	bool has_file, skipped;	     /* skipped: it failed lately */
	struct stat st;		     /* of the file, unless it could not be opened */
	struct binary_inputs *later; /* its rows are out; the rest is made from these */
};

static void inputs_done(struct binary_inputs *in)
{
	if (in->fd >= 0)
		close(in->fd);
	if (in->debug_fd >= 0)
		close(in->debug_fd);
	free(in->debug_path);
}

void binary_inputs_freep(struct binary_inputs **in)
{
	if (*in)
		inputs_done(*in);
	free(*in);
	*in = NULL;
}

static void pay_off_locked(struct binary_registry *r, int64_t now_ns)
{
	ASSERT_HELD(&r->lock);
	r->debt_ns =
		MAX(r->debt_ns - (int64_t)((double)(now_ns - r->debt_at_ns) * r->o.max_cpu), 0);
	r->debt_at_ns = now_ns;
}

static uint64_t failure_key(const struct stat *st)
{
	uint64_t key[5] = {st->st_dev, st->st_ino, (uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec};

	return hash_xxh3(key, sizeof(key));
}

static bool failed_lately_locked(struct binary_registry *r, const struct stat *st, int64_t now_ns)
{
	const uint64_t *until = table_find(&r->failed, failure_key(st));

	ASSERT_HELD(&r->lock);
	return until && now_ns < (int64_t)*until;
}

static void note_failure_locked(struct binary_registry *r, const struct stat *st, int64_t now_ns)
{
	uint64_t *until;

	ASSERT_HELD(&r->lock);
	if (r->failed.n_used >= BINARY_MAX_FAILED)
		table_clear(&r->failed);
	until = table_insert(&r->failed, failure_key(st), NULL);
	if (until)
		*until = (uint64_t)(now_ns + BINARY_SKIP_FAILED_NS);
}

/* A file that is no ELF file is nothing to worry about; one that costs its parser its life is. */
static void log_failure(const struct entry *e, const struct parser_reply *reply)
{
	if (reply->status == PARSER_REFUSED)
		LOG_RATED(LOG_DEBUG, "no symbols of %s: %s", e->path, reply->text);
	else
		LOG_RATED(LOG_WARN, "no symbols of %s: parser %s", e->path,
			parser_status_name(reply->status));
}

/* One question to the parser. The answer's descriptor, or -errno after counting. */
static int ask(struct binary_registry *r, enum parser_op op, const struct entry *e,
	const struct parser_inputs *in, struct outcome *out)
{
	struct parser_reply reply;
	const int fds[] = {in->fd, in->debug_fd};
	int answer =
		op == PARSER_COMPILE
			? parser_ask_compile(r->o.parser_fd, in, BINARY_PARSE_TIMEOUT_MS, &reply)
			: parser_ask_with(r->o.parser_fd, op, fds, in->debug_fd >= 0 ? 2 : 1,
				  BINARY_PARSE_TIMEOUT_MS, &reply);
	bool stopping;

	out->cpu_ns += reply.cpu_ns;
	if (reply.status == PARSER_OK && answer >= 0)
		return answer;
	if (answer >= 0)
		close(answer);
	if (reply.status == PARSER_OK)
		reply.status = PARSER_FAILED;
	lock_take(&r->lock);
	stopping = r->stopping;
	r->stats.parse_failed[reply.status]++;
	lock_release(&r->lock);
	if (!stopping) /* else it is no fault of the file's */
		log_failure(e, &reply);
	return reply.status == PARSER_FAILED ? -EAGAIN : -EBADMSG;
}

/* What the child says of the file: laid out as the struct, checked as from a stranger. */
static int read_description(int fd, struct parser_description *ret)
{
	uint8_t raw[sizeof(struct parser_description)];
	struct cursor c = cursor_of(raw, sizeof(raw));
	struct symbol_identity *id = &ret->identity;
	const uint8_t *content_id, *build_id, *link;

	if (pread(fd, raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -EPROTO;
	content_id = cursor_take(&c, SYMBOL_CONTENT_ID_LEN);
	build_id = cursor_take(&c, SYMBOL_BUILD_ID_MAX);
	id->build_id_len = cursor_u32(&c);
	cursor_skip(&c, 4);
	ret->has = cursor_u32(&c);
	ret->debug_link_crc = cursor_u32(&c);
	link = cursor_take(&c, PARSER_DEBUG_LINK_MAX);
	if (c.error || id->build_id_len > SYMBOL_BUILD_ID_MAX || link[PARSER_DEBUG_LINK_MAX - 1])
		return -EPROTO;
	memcpy(id->content_id, content_id, SYMBOL_CONTENT_ID_LEN);
	memcpy(id->build_id, build_id, SYMBOL_BUILD_ID_MAX);
	memcpy(ret->debug_link, link, PARSER_DEBUG_LINK_MAX);
	return 0;
}

static int identify(struct binary_registry *r, int fd, const struct entry *e, struct outcome *out)
{
	const struct parser_inputs in = {.fd = fd, .debug_fd = -1};
	_cleanup_close_ int answer = ask(r, PARSER_IDENTIFY, e, &in, out);
	const uint8_t *build_id = out->file.identity.build_id;

	if (answer < 0)
		return answer;
	if (read_description(answer, &out->file) < 0)
		return -EPROTO;
	/* Another file than the one that was mapped. The kernel gives 20 bytes at most and zeros
	 * after a shorter one. */
	if (e->build_id_len && memcmp(e->build_id, build_id,
				       MIN(e->build_id_len, out->file.identity.build_id_len)) != 0)
		return -ENOENT;
	if (e->build_id_len && !out->file.identity.build_id_len)
		return -ENOENT;
	out->has_identity = true;
	return 0;
}

/* The symbol file that the parser gave, when it is of the file that was identified. */
static int map_answer(int answer, const struct outcome *out, struct symbol_file *ret)
{
	int e = symbol_file_map(answer, ret, NULL);

	if (e < 0 || memcmp(ret->identity.content_id, out->file.identity.content_id,
			     SYMBOL_CONTENT_ID_LEN) == 0)
		return e;
	/* The file changed between the two questions, or the child lies. */
	symbol_file_unmap(ret);
	return -EBADMSG;
}

static int compile(struct binary_registry *r, uint32_t id, const struct entry *entry,
	const struct binary_inputs *in, struct outcome *out)
{
	struct binary_link_source source = {.registry = r,
		.entry = entry,
		.identity = &out->file.identity,
		.binary = id,
		.fd = in->fd,
		.debug_fd = in->debug_fd,
		.debug_path = in->debug_path};
	const struct parser_finder finder = {.find = binary_open_link, .ctx = &source};
	const struct parser_inputs inputs = {
		.fd = in->fd, .debug_fd = in->debug_fd, .finder = &finder};
	_cleanup_close_ int answer = ask(r, PARSER_COMPILE, entry, &inputs, out);
	int e;

	if (answer < 0)
		return answer;
	e = map_answer(answer, out, &out->symbols);
	lock_take(&r->lock);
	r->stats.invalid += e < 0;
	r->stats.compiled += e == 0;
	r->stats.debug_left_out += e == 0 ? out->symbols.n_debug_left_out : 0;
	r->stats.debug_failed += e == 0 && (out->symbols.flags & SYMBOL_DEBUG_FAILED);
	r->stats.debug_files[BINARY_DEBUG_LINKED] += source.n_found;
	r->stats.debug_files[BINARY_DEBUG_LACKING] += e == 0 ? out->symbols.n_debug_lacking : 0;
	if (e == 0 && in->debug_fd >= 0)
		r->stats.debug_files[out->symbols.flags & SYMBOL_HAS_DEBUG_FILE
					     ? BINARY_DEBUG_USED
					     : BINARY_DEBUG_MISMATCH]++;
	lock_release(&r->lock);
	if (e == 0)
		out->on_disk = binary_cache_write(r, &out->symbols) == 0;
	return e;
}

/* True when another entry has, or will have, this content: nothing is to be built. */
static bool has_owner(struct binary_registry *r, uint32_t id, const struct outcome *out)
{
	const struct content *c;
	bool owned;

	lock_take(&r->lock);
	c = binary_content_find_locked(r, out->file.identity.content_id);
	owned = c && c->symbols.data && c->entry && c->entry != id;
	lock_release(&r->lock);
	return owned;
}

/* The symbol file from disk, unless a debug file has appeared since it was made (which is left in
 * `in`), or may have. */
static bool open_cached(struct binary_registry *r, uint32_t id, const struct entry *e,
	struct binary_inputs *in, struct outcome *out)
{
	int cached = binary_cache_open(r, out->file.identity.content_id, &out->symbols);
	bool lacking = cached == 0 && out->symbols.n_debug_lacking;

	if (cached < 0 || lacking || !(out->symbols.flags & SYMBOL_HAS_DEBUG_FILE))
		in->debug_fd = binary_open_debug(r, id, e, &out->file, &in->st, &in->debug_path);
	if (cached < 0)
		return false;
	if (in->debug_fd >= 0 || lacking) {
		symbol_file_unmap(&out->symbols);
		return false;
	}
	out->on_disk = true;
	lock_take(&r->lock);
	r->stats.cache_hits++;
	lock_release(&r->lock);
	return true;
}

/* True when the rows of a file are to be made before all else of it. */
static bool is_slow(const struct binary_inputs *in)
{
	struct stat debug = {.st_size = 0};

	return (in->debug_fd >= 0 && fstat(in->debug_fd, &debug) < 0) ||
	       in->st.st_size + debug.st_size >= BINARY_SLOW_BYTES;
}

static int make_rows(struct binary_registry *r, uint32_t id, const struct entry *e,
	const struct binary_inputs *in, struct outcome *out)
{
	const struct parser_inputs inputs = {.fd = in->fd, .debug_fd = in->debug_fd};
	_cleanup_close_ int answer = ask(r, PARSER_ROWS, e, &inputs, out);
	struct symbol_file rows;
	int error;

	if (answer < 0)
		return answer;
	error = map_answer(answer, out, &rows);
	if (error == 0) {
		lock_take(&r->lock);
		binary_note_runtime_locked(r, id, &rows);
		lock_release(&r->lock);
		r->o.rows(r->o.hook_ctx, id, &rows);
		symbol_file_unmap(&rows);
	}
	lock_take(&r->lock);
	r->stats.rows_first += error == 0;
	r->stats.invalid += error < 0;
	lock_release(&r->lock);
	return error;
}

/* What was opened stays open until its turn comes: its process may be gone by then. */
static struct binary_inputs *keep(struct binary_inputs *in, const struct outcome *out)
{
	struct binary_inputs *kept = xcalloc(1, sizeof(*kept));

	*kept = *in;
	kept->file = out->file;
	kept->cpu_ns = out->cpu_ns;
	in->fd = in->debug_fd = -1;
	in->debug_path = NULL;
	return kept;
}

/* Opens and identifies what was just wanted; compiles it unless that takes long. */
static void begin_work(
	struct binary_registry *r, uint32_t id, const struct entry *e, struct outcome *out)
{
	_cleanup_(inputs_done)
	struct binary_inputs in = {.debug_fd = -1};

	in.fd = binary_open_file(r, e, &in.st);
	if (in.fd < 0) {
		out->error = in.fd == -EBUSY ? -EBUSY : -ENOENT;
		return;
	}
	lock_take(&r->lock);
	out->skipped = failed_lately_locked(r, &in.st, clock_monotonic_ns(r->o.clock));
	r->stats.skipped += out->skipped;
	lock_release(&r->lock);
	out->error = out->skipped ? -EBADMSG : identify(r, in.fd, e, out);
	out->has_file = out->error == 0;
	out->st = in.st;
	if (out->error < 0 || has_owner(r, id, out) || open_cached(r, id, e, &in, out))
		return;
	if (!r->o.rows || !is_slow(&in)) {
		out->error = compile(r, id, e, &in, out);
		return;
	}
	if (!r->o.has_rows(r->o.hook_ctx, id, out->file.identity.content_id))
		out->error = make_rows(r, id, e, &in, out);
	if (out->error == 0)
		out->later = keep(&in, out);
}

static void end_work(struct binary_registry *r, uint32_t id, const struct entry *e,
	struct binary_inputs *in, struct outcome *out)
{
	/* A server may have answered meanwhile. */
	if (in->debug_fd < 0)
		in->debug_fd = binary_fetched_open(r, &in->file.identity);
	out->file = in->file;
	out->has_identity = true;
	out->has_file = true;
	out->st = in->st;
	out->cpu_ns = in->cpu_ns;
	if (!has_owner(r, id, out))
		out->error = compile(r, id, e, in, out);
}

static void make_alias_locked(struct binary_registry *r, uint32_t id, uint32_t of)
{
	ASSERT_HELD(&r->lock);
	for (uint32_t i = 1; i < r->n_ids; i++)
		if (r->entries[i]->alias == id)
			r->entries[i]->alias = of;
	r->entries[id]->alias = of;
}

static struct binary_file file_of(const struct stat *st)
{
	return (struct binary_file) {.ino = st->st_ino,
		.size_bytes = (uint64_t)st->st_size,
		.mtime_ns = st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec,
		.dev_major = major(st->st_dev),
		.dev_minor = minor(st->st_dev)};
}

/* A file that fails is left alone for long, which paces it: it delays only its own symbols. All files owe only the time
 * by which failing files together exceed --symbols.max-cpu. */
static int64_t unpaid_locked(struct binary_registry *r, int64_t cpu_ns, int64_t now_ns)
{
	int64_t paid = (int64_t)((double)(now_ns - r->failed_at_ns) * r->o.max_cpu);

	ASSERT_HELD(&r->lock);
	r->failed_at_ns = now_ns;
	return cpu_ns - MIN(cpu_ns, paid);
}

static void pay_locked(struct binary_registry *r, const struct outcome *out, int64_t now_ns)
{
	int64_t cpu_ns = (int64_t)out->cpu_ns;

	ASSERT_HELD(&r->lock);
	r->stats.cpu_ns += out->cpu_ns;
	pay_off_locked(r, now_ns);
	cpu_ns = MAX(cpu_ns - BINARY_BURST_NS, 0);
	r->debt_ns += cpu_ns && out->error < 0 ? unpaid_locked(r, cpu_ns, now_ns) : cpu_ns;
}

static void settle_locked(struct binary_registry *r, uint32_t id, struct outcome *out)
{
	struct entry *e = r->entries[id];
	struct content *c = out->has_identity
				    ? binary_content_find_locked(r, out->file.identity.content_id)
				    : NULL;
	int64_t now = clock_monotonic_ns(r->o.clock);

	ASSERT_HELD(&r->lock);
	e->state = BINARY_ABSENT;
	if (out->later) {
		e->inputs = out->later;
		r->n_inputs++;
		binary_enqueue_locked(r, &r->paced, id);
	} else if (out->error == 0 && c && c->symbols.data) {
		/* Another path to a content that is here: its id stands for both from now on. */
		symbol_file_unmap(&out->symbols);
		if (c->entry != id)
			make_alias_locked(r, id, c->entry);
		r->stats.shared++;
	} else if (out->error == 0 && out->symbols.data) {
		if (!binary_content_add_locked(r, id, &out->symbols, out->on_disk))
			symbol_file_unmap(&out->symbols);
	} else {
		r->stats.open_failed += out->error == -ENOENT;
		r->stats.open_hung += out->error == -EBUSY;
		e->n_open_failed += out->error == -ENOENT && e->n_open_failed < BINARY_MAX_OPENS;
		e->not_before_ns = now + (out->error == -EBADMSG ? BINARY_SKIP_FAILED_NS
								 : BINARY_RETRY_OPEN_NS);
	}
	if (out->error == 0 && out->has_file) {
		e->n_open_failed = 0;
		e->has_file = true;
		e->file = file_of(&out->st);
		binary_report_file_locked(r, id, true);
	}
	if (!out->later)
		pay_locked(r, out, now);
	pthread_cond_broadcast(&r->settled);
}

/* Whether the queue's first may start; *wake_ns: when that may change without more coming. */
static bool may_start_locked(struct binary_registry *r, const struct binary_queue *q, bool unpaced,
	int64_t now_ns, int64_t *wake_ns)
{
	int64_t at_ns = q->n_at_work ? q->begun_ns + q->patience_ns : now_ns;

	ASSERT_HELD(&r->lock);
	if (!q->head || q->n_at_work == BINARY_MAX_AT_WORK)
		return false;
	if (!unpaced && r->debt_ns)
		at_ns = MAX(at_ns,
			now_ns + (int64_t)((double)r->debt_ns / MAX(r->o.max_cpu, 0.001)) + 1);
	*wake_ns = MIN(*wake_ns, at_ns);
	return at_ns <= now_ns;
}

/* Those that nothing is known of come first, while what they leave open is not too much. */
static struct binary_queue *ready_locked(
	struct binary_registry *r, int64_t now_ns, int64_t *wake_ns)
{
	ASSERT_HELD(&r->lock);
	if (r->n_inputs < BINARY_MAX_INPUTS &&
		may_start_locked(r, &r->fresh, r->o.rows, now_ns, wake_ns))
		return &r->fresh;
	return may_start_locked(r, &r->paced, false, now_ns, wake_ns) ? &r->paced : NULL;
}

/* Waits until something is queued and may start; NULL when the time is over. */
static struct binary_queue *next_locked(struct binary_registry *r, int64_t until_ns)
{
	ASSERT_HELD(&r->lock);
	for (;;) {
		int64_t now = clock_monotonic_ns(r->o.clock), wake = until_ns;
		struct binary_queue *ready;

		pay_off_locked(r, now);
		ready = ready_locked(r, now, &wake);
		if (ready || now >= until_ns || r->stopping)
			return ready;
		(void)lock_wait_until(&r->lock, &r->queued, wake);
	}
}

/* The first of a queue. An entry at work is never released (binary_retain), so the copy's path stays. */
static uint32_t take_locked(struct binary_registry *r, struct binary_queue *q, struct entry *ret)
{
	uint32_t id = q->head;
	struct entry *e = r->entries[id];

	ASSERT_HELD(&r->lock);
	q->head = e->next;
	q->tail = q->head ? q->tail : 0;
	q->n_at_work++;
	q->begun_ns = clock_monotonic_ns(r->o.clock);
	r->stats.queued--;
	e->state = BINARY_WORKING;
	*ret = *e;
	r->n_inputs -= e->inputs != NULL;
	e->inputs = NULL;
	return id;
}

void binary_work(struct binary_registry *r, int64_t timeout_ns)
{
	int64_t until = clock_monotonic_ns(r->o.clock) + timeout_ns;
	struct outcome out = {0};
	struct binary_queue *q;
	struct entry copy;
	bool unreadable;
	uint32_t id;

	binary_expire_roots(r);
	lock_take(&r->lock);
	q = next_locked(r, until);
	id = q && !r->stopping ? take_locked(r, q, &copy) : 0;
	lock_release(&r->lock);
	if (!id)
		return;
	if (copy.inputs)
		end_work(r, id, &copy, copy.inputs, &out);
	else
		begin_work(r, id, &copy, &out);
	lock_take(&r->lock);
	q->n_at_work--;
	if (out.error == -EBADMSG && !out.skipped)
		note_failure_locked(r, &out.st, clock_monotonic_ns(r->o.clock));
	settle_locked(r, id, &out);
	unreadable = out.error == -EBADMSG || r->entries[id]->n_open_failed >= BINARY_MAX_OPENS;
	r->entries[id]->n_hooks++;
	lock_release(&r->lock);
	binary_inputs_freep(&copy.inputs);
	binary_cache_sweep(r);
	if (r->o.settled && !out.later)
		r->o.settled(r->o.hook_ctx, id, unreadable);
	lock_take(&r->lock);
	r->entries[id]->n_hooks--;
	binary_renew_locked(r, binary_canonical_locked(r, id));
	lock_release(&r->lock);
}

void binary_stop(struct binary_registry *r)
{
	lock_take(&r->lock);
	r->stopping = true;
	pthread_cond_broadcast(&r->queued);
	lock_release(&r->lock);
}
