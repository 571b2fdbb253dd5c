/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds: objects that wait, by process → the process's memory → texts. The table is locked only to take what waits and to give answers.
 */
#include "exporter/interp/reader/names.h"
#include "exporter/interp/reader/codes.h"
#include "exporter/interp/reader/memory.h"
#include "exporter/interp/v8_script.h"
#include "exporter/keeper/copy.h"
#include "lib/base/alloc.h"
#include "lib/base/rounds.h"
#include <stdio.h>
#include <string.h>

enum {
	BATCH_OBJECTS = 1024,	       /* taken at once; what comes meanwhile is next */
	MAX_CHANGES = 3,	       /* readings of an object that changes while it is read */
	COPIES_PER_S = COPY_PER_S / 2, /* openers copy for others too */
	ASKED_PER_S = COPY_BYTES_PER_S / 2,
};

/* Of one process at a time: others wait for their names too. */
#define PROCESS_NS NS_PER_S

struct interp_names {
	struct interp_names_options o;
	struct rounds rounds;
	/* What follows is the thread's that does them. */
	int64_t second_ns; /* when the second began that these copies count for */
	uint64_t second_copies, second_asked; /* asked: bytes */
	size_t turn;			      /* of the process in a batch that is read first */
	struct interp_names_stats stats;
	struct interp_codes_all codes;
	/* A copy for readers. */
	struct lock published_lock; /* leaf */
	struct interp_names_stats published;
};

const char *interp_name_result_text(enum interp_name_result r)
{
	static const char *const texts[INTERP_N_NAME_RESULTS] = {
		[INTERP_NAME_OK] = "ok",
		[INTERP_NAME_FUNCTION] = "function",
		[INTERP_NAME_REUSED] = "reused",
		[INTERP_NAME_UNREADABLE] = "unreadable",
		[INTERP_NAME_GONE] = "gone",
		[INTERP_NAME_NO_ROOM] = "no_room",
	};

	return texts[r];
}

struct interp_names *interp_names_new(const struct interp_names_options *o)
{
	struct interp_names *n = xcalloc(1, sizeof(*n));

	n->o = *o;
	rounds_init(&n->rounds);
	lock_init(&n->published_lock);
	return n;
}

void interp_names_freep(struct interp_names **np)
{
	struct interp_names *n = *np;

	if (!n)
		return;
	interp_codes_done(&n->codes);
	rounds_done(&n->rounds);
	lock_done(&n->published_lock);
	free(n);
	*np = NULL;
}

/* What a process's objects are read by. */
struct reading {
	const struct proc_code_process *process;
	const struct interp_runtime *runtime; /* NULL: none is known */
	struct runtime_record record;
	struct interp_window window;
	struct interp_codes
		*codes; /* NULL: the runtime makes no machine code, or nothing was read yet */
	size_t n_read;	/* objects */
	bool is_gone, is_refused; /* so is all that follows; refused: for now */
	bool is_untried;	  /* refused, which says nothing of it */
};

static void begin(struct interp_names *n, struct reading *r, const struct proc_code_process *p)
{
	*r = (struct reading) {.process = p};
	if (!p->has_runtime || !binary_runtime(n->o.binaries, p->runtime.binary, &r->record))
		return;
	r->runtime = interp_runtime_of(p->runtime.kind);
	interp_window_init(&r->window, n->o.keeper, p->pid, p->start_ns, p->runtime.bias);
	interp_window_limit(&r->window, n->o.clock, clock_monotonic_ns(n->o.clock) + PROCESS_NS);
	if (r->runtime)
		interp_window_keep(&r->window, r->runtime->keep_ns);
}

static void end(struct interp_names *n, struct reading *r)
{
	n->stats.copies += r->window.requests;
	n->second_copies += r->window.requests;
	n->second_asked += r->window.asked_bytes;
	n->stats.copied_bytes += r->window.bytes;
	interp_window_done(&r->window);
	if (r->codes && r->process->exited)
		interp_codes_drop(r->codes);
	interp_codes_trim(&n->codes, n->codes.clock - (r->codes != NULL));
}

/* Before the first object is read: a process for which there is no time takes nobody's place. */
static void begin_codes(struct interp_names *n, struct reading *r)
{
	if (r->codes || !r->runtime->machine)
		return;
	r->codes = interp_codes_begin(&n->codes, r->process->pid, r->process->start_ns,
		r->runtime->machine, &r->window.memory, &r->record);
	r->window.memory.scripts = &r->codes->scripts;
	r->window.memory.hotspot = &r->codes->hotspot;
}

/* What was read of an object. */
struct named {
	struct interp_code code; /* of machine code: its function, where that alone is known */
	struct interp_frame frames[INTERP_MAX_MACHINE_FRAMES]; /* of machine code */
	size_t n_frames;
	uint64_t n_elided;
	char elided[40]; /* the name of the frame that stands for them */
};

/* What changes while it is read may look like anything. */
static bool is_torn(int error)
{
	return error == -EAGAIN || error == -EBADMSG || error == -EFAULT;
}

static int read_function(
	struct reading *r, uint64_t object, uint64_t context, struct interp_code *ret)
{
	int e = -EAGAIN;

	for (int i = 0; e == -EAGAIN && i < MAX_CHANGES; i++) {
		if (i || !r->runtime->keep_ns)
			interp_window_forget(&r->window);
		e = r->runtime->read_code(&r->window.memory, &r->record, object, context, ret);
	}
	return e;
}

/* The outermost one has the code, and the leaf is where time goes: what lies between is left out. */
static void elide(struct named *c, size_t n)
{
	c->n_frames = MIN(n, (size_t)INTERP_MAX_MACHINE_FRAMES);
	if (n <= INTERP_MAX_MACHINE_FRAMES)
		return;
	c->n_elided = n - (INTERP_MAX_MACHINE_FRAMES - 1);
	snprintf(c->elided, sizeof(c->elided), "[elided: %llu frames]",
		(unsigned long long)c->n_elided);
	c->frames[INTERP_MAX_MACHINE_FRAMES - 2] =
		(struct interp_frame) {.name = c->elided, .raw = c->elided, .file = ""};
}

static int read_frames(
	struct reading *r, const struct proc_code_address *a, uint64_t check, struct named *ret)
{
	bool is_return = !(a->flags & ABI_CODE_EXACT);
	int e = -EAGAIN;
	size_t n = 0;

	for (int i = 0; is_torn(e) && i < MAX_CHANGES; i++) {
		if (i || !r->runtime->keep_ns)
			interp_window_forget(&r->window);
		e = interp_codes_frames(
			r->codes, a->addr - !is_return, is_return, check, ret->frames, &n);
	}
	if (e == 0)
		elide(ret, n);
	return e;
}

/* Is the outermost frame that is known this function's? Then it was one and the same, which moved while it was read. */
static bool is_outermost(const struct named *c)
{
	const struct interp_frame *f = c->n_frames ? &c->frames[c->n_frames - 1] : NULL;

	return f && f->first_line == c->code.first_line && strcmp(f->name, c->code.name) == 0 &&
	       strcmp(f->file, c->code.file) == 0;
}

/* The function that the frame says it runs, if it is still the one that the kernel half saw: outside of the frames that are known. */
static int add_function(struct reading *r, const struct proc_code_address *a, struct named *ret)
{
	int e = read_function(r, r->codes->reader->function(a->check), 0, &ret->code);

	if (e == 0 && a->context && ret->code.kernel_check != a->context)
		e = -ENOENT;
	if (e < 0)
		return e;
	if (is_outermost(ret)) {
		interp_code_done(&ret->code);
		return 0;
	}
	if (ret->n_frames == INTERP_MAX_MACHINE_FRAMES) {
		ret->n_frames--;
		ret->n_elided++;
	}
	ret->frames[ret->n_frames++] = (struct interp_frame) {.name = ret->code.name,
		.raw = ret->code.raw ? ret->code.raw : ret->code.name,
		.file = ret->code.file,
		.first_line = ret->code.first_line};
	return 0;
}

/*
 * Frames of machine code. Where it is another function's by now, the function that the frame ran is known all the same, and its callers are
 * other frames of the stack. At a leaf the code may be of a function whose own frame is not built yet, or gone: then the frame is its
 * caller's.
 */
static int read_machine(struct reading *r, const struct proc_code_address *a, struct named *ret)
{
	int e;

	if (!r->codes)
		return -ENOTSUP;
	e = read_frames(r, a, a->check, ret);
	if (!a->check || !r->codes->reader->function(a->check) ||
		(!is_torn(e) && e != -ENOENT && e != -EFBIG))
		return e;
	if (e == -EAGAIN && a->flags & ABI_CODE_EXACT && read_frames(r, a, 0, ret) < 0)
		ret->n_frames = 0;
	return add_function(r, a, ret);
}

static void named_done(struct named *c)
{
	interp_code_done(&c->code);
}

/* 0 and the object that the kernel half saw; else as read_code. */
static int read_object(
	struct reading *r, const struct proc_code_address *a, struct interp_code *ret)
{
	int e = read_function(r, a->addr, a->context, ret);

	/* Blocks that are kept may be older than the object. */
	if (e == 0 && ret->kernel_check != a->check && r->runtime->keep_ns) {
		interp_code_done(ret);
		interp_window_forget(&r->window);
		e = read_function(r, a->addr, a->context, ret);
	}
	if (e == 0 && ret->kernel_check != a->check) {
		interp_code_done(ret);
		return -ENOENT;
	}
	return e;
}

static int read_any(struct interp_names *n, struct reading *r, const struct proc_code_address *a,
	struct named *ret)
{
	begin_codes(n, r);
	return a->flags & ABI_CODE_MACHINE ? read_machine(r, a, ret)
					   : read_object(r, a, &ret->code);
}

/* What a failed reading says, for one object and for all others of its process. */
static enum interp_name_result result_of(struct reading *r, int error)
{
	switch (error) {
	case 0: return INTERP_NAME_OK;
	case -ENOENT:
	case -EAGAIN: return INTERP_NAME_REUSED;
	case -ESRCH: r->is_gone = true; return INTERP_NAME_GONE;
	case -EFAULT: /* a process that has ended has no memory, although somebody still waits for it */
		r->is_gone = r->process->exited;
		return r->is_gone ? INTERP_NAME_GONE : INTERP_NAME_UNREADABLE;
	case -EBUSY: r->is_refused = r->is_untried = true; return INTERP_NAME_UNREADABLE;
	case -ETIMEDOUT: /* a process that got on will get on in the next round */
		r->is_refused = true;
		r->is_untried = r->window.is_over && r->n_read;
		return INTERP_NAME_UNREADABLE;
	default: return INTERP_NAME_UNREADABLE;
	}
}

static enum proc_object_answer answer(struct interp_names *n, const struct proc_code_batch *b,
	const struct proc_code_address *a, enum proc_object_answer answer,
	const struct named *named)
{
	const struct interp_code *c = &named->code;
	const struct proc_code_text frames = {.name = "",
		.raw = "",
		.file = "",
		.frames = named->frames,
		.n_frames = named->n_frames};
	const struct proc_code_text text = {
		.name = c->name,
		.raw = c->raw ? c->raw : c->name,
		.file = c->file,
		.first_line = c->first_line,
		.lines_format = c->lines_format,
		.is_part = c->is_part,
		.lines = c->lines,
		.lines_bytes = c->lines_bytes,
	};

	lock_take(n->o.procs_lock);
	answer = proc_object_answer(n->o.procs, b, a, answer, named->n_frames ? &frames : &text,
		(uint64_t)clock_monotonic_ns(n->o.clock));
	lock_release(n->o.procs_lock);
	return answer;
}

/* True when it goes on waiting. */
static bool name_object(struct interp_names *n, struct reading *r, const struct proc_code_batch *b,
	const struct proc_code_address *a)
{
	enum interp_name_result result = INTERP_NAME_UNREADABLE;
	enum proc_object_answer what = PROC_OBJECT_REFUSED;
	_cleanup_(named_done)
	struct named c = {.n_frames = 0};
	uint32_t kind = r->runtime ? (uint32_t)r->runtime->kind : RUNTIME_NONE;

	if (r->is_gone || (!r->runtime && r->process->exited))
		result = INTERP_NAME_GONE;
	else if (!r->runtime) /* its row has not been published yet */
		what = PROC_OBJECT_UNTRIED;
	else if (!r->is_refused)
		result = result_of(r, read_any(n, r, a, &c));
	if (result == INTERP_NAME_OK)
		what = PROC_OBJECT_NAMED;
	else if (r->is_refused)
		what = r->is_untried ? PROC_OBJECT_UNTRIED : PROC_OBJECT_LATER;
	else
		r->n_read++;
	what = answer(n, b, a, what, &c);
	if (what == PROC_OBJECT_LATER)
		return true;
	if (what == PROC_OBJECT_NO_ROOM)
		result = INTERP_NAME_NO_ROOM;
	else if (result == INTERP_NAME_OK && c.n_frames && c.code.name)
		result = INTERP_NAME_FUNCTION;
	n->stats.results[kind][result]++;
	n->stats.frames_elided += c.n_elided;
	return false;
}

/* So much has been asked for in this second that the rest waits. */
static bool is_busy(struct interp_names *n, const struct reading *r)
{
	int64_t now_ns = clock_monotonic_ns(n->o.clock);

	if (now_ns - n->second_ns >= NS_PER_S) {
		n->second_ns = now_ns;
		n->second_copies = n->second_asked = 0;
	}
	return n->second_copies + r->window.requests >= COPIES_PER_S ||
	       n->second_asked + r->window.asked_bytes >= ASKED_PER_S;
}

static void publish(struct interp_names *n)
{
	lock_take(&n->published_lock);
	n->published = n->stats;
	lock_release(&n->published_lock);
}

/* The index behind the objects of one process in a batch. */
static size_t end_of(const struct proc_code_batch *b, size_t i)
{
	uint32_t process = b->addresses[i].process;

	while (i < b->n_addresses && b->addresses[i].process == process)
		i++;
	return i;
}

/* The first object of the process whose turn it is: one after the other begins a second. */
static size_t first_of_turn(const struct interp_names *n, const struct proc_code_batch *b)
{
	size_t turn = b->n_processes ? n->turn % b->n_processes : 0, i = 0;

	while (turn-- && i < b->n_addresses)
		i = end_of(b, i);
	return i < b->n_addresses ? i : 0;
}

/* Objects of one process, those in [i, end_i): how many were looked at. */
static size_t name_process(struct interp_names *n, const struct proc_code_batch *b, size_t i,
	size_t end_i, size_t *settled, bool *is_late)
{
	size_t first = i;
	struct reading r;

	begin(n, &r, &b->processes[b->addresses[i].process]);
	for (; i < end_i && !is_busy(n, &r); i++)
		*settled += !name_object(n, &r, b, &b->addresses[i]);
	end(n, &r);
	*is_late |= r.window.is_over;
	return i - first;
}

/* True when there may be more to do at once. */
static bool name_batch(struct interp_names *n)
{
	struct proc_code_batch b;
	size_t settled = 0, done = 0, i;
	bool is_late = false, is_full;

	lock_take(n->o.procs_lock);
	proc_code_take(n->o.procs, PROC_CODE_OBJECTS, BATCH_OBJECTS, &b);
	lock_release(n->o.procs_lock);
	i = first_of_turn(n, &b);
	while (done < b.n_addresses) {
		size_t end_i = end_of(&b, i),
		       looked = name_process(n, &b, i, end_i, &settled, &is_late);

		done += looked;
		if (i + looked < end_i) {
			n->turn++;
			break;
		}
		i = end_i < b.n_addresses ? end_i : 0;
	}
	is_full = b.n_addresses == BATCH_OBJECTS && done == b.n_addresses && settled && !is_late;
	proc_code_batch_done(&b);
	return is_full;
}

void interp_names_round(struct interp_names *n)
{
	rounds_begin(&n->rounds);
	while (name_batch(n))
		publish(n);
	publish(n);
	rounds_end(&n->rounds);
}

void interp_names_await_round(struct interp_names *n, int64_t until_ns)
{
	bool is_waiting;

	lock_take(n->o.procs_lock);
	is_waiting = proc_code_is_waiting(n->o.procs, PROC_CODE_OBJECTS);
	lock_release(n->o.procs_lock);
	if (n->o.bell && is_waiting)
		(void)rounds_ask(&n->rounds, n->o.bell, until_ns);
}

void interp_names_stats(struct interp_names *n, struct interp_names_stats *ret)
{
	lock_take(&n->published_lock);
	*ret = n->published;
	lock_release(&n->published_lock);
}
