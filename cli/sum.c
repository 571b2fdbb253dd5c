/* SPDX-License-Identifier: Apache-2.0
 *
 * Files → their sum.
 */
#include "cli/sum.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/prof/merge.h"
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* ---- detail ---- */

/* The name of a line's function, with what is asked for behind it. */
static char *detailed_name(const struct profile *p, const struct prof_location *l,
	const struct prof_line *line, bool lines, bool addresses)
{
	const struct prof_function *f = &p->functions[line->function];
	struct prof_str name = profile_str(p, f->name ? f->name : f->system_name),
			file = profile_str(p, f->filename);
	const char *base = file.len ? memrchr(file.p, '/', file.len) : NULL;
	size_t skip = base ? (size_t)(base + 1 - file.p) : 0;
	char place[64] = "", address[32] = "";

	if (line->line > 0)
		snprintf(place, sizeof(place), ":%" PRId64, line->line);
	if (addresses && l->address)
		snprintf(address, sizeof(address), " 0x%" PRIx64, l->address);
	lines &= file.len > 0;
	return xasprintf("%.*s%s%.*s%s%s", (int)name.len, name.len ? name.p : "", lines ? " " : "",
		lines ? (int)(file.len - skip) : 0, lines ? file.p + skip : "", lines ? place : "",
		address);
}

int cli_profile_detail(struct profile *p, bool lines, bool addresses, struct errbuf *eb)
{
	struct prof_str *strings =
		arena_alloc_array(&p->arena, p->n_strings + p->n_lines + 1, sizeof(*strings));
	struct prof_function *functions =
		arena_alloc_array(&p->arena, p->n_lines + 1, sizeof(*functions));
	size_t n = 0;

	if (!strings || !functions)
		return arena_error(&p->arena, eb);
	memcpy(strings, p->strings, p->n_strings * sizeof(*strings));
	for (size_t i = 0; i < p->n_locations; i++) {
		const struct prof_location *l = &p->locations[i];

		for (uint32_t k = 0; k < l->n_lines; k++) {
			struct prof_line *line = &p->lines[l->first_line + k];
			_cleanup_free_ char *name = NULL;

			if (line->function == PROF_NONE)
				continue;
			name = detailed_name(p, l, line, lines, addresses);
			functions[n] = p->functions[line->function];
			functions[n].name = (uint32_t)p->n_strings;
			strings[p->n_strings++] = (struct prof_str) {
				arena_strdup(&p->arena, name), (uint32_t)strlen(name)};
			line->function = (uint32_t)n++;
		}
	}
	p->strings = strings;
	p->functions = functions;
	p->n_functions = n;
	return arena_error(&p->arena, eb);
}

/* ---- the sum ---- */

/*
 * Files are read by all threads at once and added in their order, by one thread at a time: the caller whenever the next one is
 * there, so that the sum stays in one CPU's caches, another only when it has no place to read into. So a thread sleeps
 * only where there is nothing to do for it at all: to wake an idle CPU takes as long as to read a file.
 */
enum { MAX_READERS = 2, MAX_PLACES = MAX_READERS + 2, MAX_LOOK_NS = 200000 };

struct reading {
	const struct cli_sum_options *o;
	const struct option_list *files;
	struct prof_merge *m; /* the adding thread's */
	struct errbuf *eb;    /* the same */
	pthread_t threads[MAX_READERS];
	cpu_set_t cpus; /* on which all of them may run */
	size_t n_threads;
	/* Of what follows; what is in a place is its reader's, and once it is read the adder's. */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	atomic_uint n_changes;
	size_t n_taken, n_added;
	bool is_adding;
	int status;
	struct place {
		struct cli_profile in;
		struct errbuf eb;
		int status, cpu; /* cpu: where reading it began, or adding */
		bool is_read;
	} places[MAX_PLACES];
};

static struct place *place_of(struct reading *r, size_t i)
{
	return &r->places[i % (r->n_threads + 2)];
}

/* There is something to do for those who wait. The mutex is held. */
static void tell(struct reading *r)
{
	atomic_fetch_add_explicit(&r->n_changes, 1, memory_order_relaxed);
	pthread_cond_broadcast(&r->changed);
}

/* To another CPU, and from there wherever the scheduler likes. */
static void leave_cpu(const struct reading *r)
{
	cpu_set_t others = r->cpus;

	CPU_CLR(sched_getcpu(), &others);
	if (sched_setaffinity(0, sizeof(others), &others) == 0)
		sched_setaffinity(0, sizeof(r->cpus), &r->cpus);
}

/*
 * The mutex is held, but not while it waits. What is waited for takes other threads a tenth of a millisecond, and so does waking
 * a CPU that fell idle; worse, whoever wakes a thread often pulls it to its own CPU, where the two then take turns for some
 * milliseconds while the other CPU sleeps. So it looks for a while before it sleeps, not from the CPU that the other needs.
 */
static void wait_for_change(struct reading *r)
{
	unsigned seen = atomic_load_explicit(&r->n_changes, memory_order_relaxed);
	bool is_in_the_way = place_of(r, r->n_added)->cpu == sched_getcpu();
	int64_t until_ns = clock_monotonic_ns(&clock_system) + MAX_LOOK_NS;

	pthread_mutex_unlock(&r->mutex);
	if (is_in_the_way)
		leave_cpu(r);
	while (atomic_load_explicit(&r->n_changes, memory_order_relaxed) == seen &&
		clock_monotonic_ns(&clock_system) < until_ns)
		;
	pthread_mutex_lock(&r->mutex);
	while (atomic_load_explicit(&r->n_changes, memory_order_relaxed) == seen)
		pthread_cond_wait(&r->changed, &r->mutex);
}

/* Takes the next file, if there is a place for it, and reads it. The mutex is held, but not while it reads. */
static bool read_next(struct reading *r)
{
	size_t i = r->n_taken;
	struct place *place = place_of(r, i);
	const char *name = i < r->files->n ? r->files->items[i] : NULL;
	/* Nobody waits for standard input behind a file that fails. */
	size_t ahead = name && !strcmp(name, "-") ? 1 : r->n_threads + 2;

	if (!name || i >= r->n_added + ahead)
		return false;
	r->n_taken++;
	place->cpu = sched_getcpu();
	pthread_mutex_unlock(&r->mutex);
	place->eb.text[0] = 0;
	place->status = cli_profile_read(&place->in, name, &place->eb);
	if (place->status >= 0 && !r->o->all_frames)
		place->status = cli_profile_prune(&place->in, name, &place->eb);
	if (place->status >= 0 && (r->o->lines || r->o->addresses))
		place->status =
			cli_profile_detail(&place->in.p, r->o->lines, r->o->addresses, &place->eb);
	pthread_mutex_lock(&r->mutex);
	place->is_read = true;
	if (i == r->n_added)
		tell(r);
	return true;
}

/* Adds the next file, if it is read and nobody else adds. */
static bool add_next(struct reading *r)
{
	size_t i = r->n_added;
	struct place *place = place_of(r, i);
	int status;

	if (r->is_adding || !place->is_read)
		return false;
	r->is_adding = true;
	place->cpu = sched_getcpu();
	pthread_mutex_unlock(&r->mutex);
	status = place->status < 0
			 ? err_set(r->eb, place->status, "%s", err_text(&place->eb, place->status))
			 : prof_merge_add(r->m, &place->in.p, r->files->items[i], r->eb);
	pthread_mutex_lock(&r->mutex);
	r->status = MIN(status, 0);
	place->is_read = r->is_adding = false;
	r->n_added++;
	tell(r);
	return true;
}

static bool is_over(const struct reading *r)
{
	return r->status < 0 || r->n_added == r->files->n;
}

static void *reader_main(void *arg)
{
	struct reading *r = arg;

	pthread_setname_np(pthread_self(), "read");
	sched_setaffinity(0, sizeof(r->cpus), &r->cpus);
	pthread_mutex_lock(&r->mutex);
	while (!is_over(r) && r->n_taken < r->files->n)
		if (!read_next(r) && !add_next(r))
			wait_for_change(r);
	pthread_mutex_unlock(&r->mutex);
	return NULL;
}

static void add_read(struct reading *r)
{
	pthread_mutex_lock(&r->mutex);
	while (!is_over(r))
		if (!add_next(r) && !read_next(r))
			wait_for_change(r);
	pthread_mutex_unlock(&r->mutex);
}

/*
 * As many as there are other CPUs and other files. The sum does not depend on it, nor does it need one. They begin on another CPU
 * than the caller's and may then go where it may: left to itself the kernel begins them behind the caller, on its CPU, when
 * the other ones have slept long enough (of a virtual machine's, 0.1 ms), and moves them milliseconds later.
 */
static void start_readers(struct reading *r)
{
	size_t n = sched_getaffinity(0, sizeof(r->cpus), &r->cpus) == 0
			   ? (size_t)CPU_COUNT(&r->cpus)
			   : 1;
	cpu_set_t others = r->cpus;
	pthread_attr_t attr;

	n = MIN(MIN(n, r->files->n), (size_t)MAX_READERS + 1);
	if (n < 2)
		return;
	CPU_CLR(sched_getcpu(), &others);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(others), &others);
	for (size_t i = 0; i + 1 < n; i++)
		r->n_threads += !pthread_create(&r->threads[r->n_threads], &attr, reader_main, r);
	pthread_attr_destroy(&attr);
}

static int add_files(struct prof_merge *m, const struct cli_sum_options *o,
	const struct option_list *files, struct errbuf *eb)
{
	struct reading r = {.o = o, .files = files, .m = m, .eb = eb};

	pthread_mutexattr_t attr;

	/* Held for some stores; what a sleep for that costs stands above. */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&r.mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_cond_init(&r.changed, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(r.places); i++)
		cli_profile_init(&r.places[i].in);
	/* They begin when all of them are counted. */
	pthread_mutex_lock(&r.mutex);
	start_readers(&r);
	pthread_mutex_unlock(&r.mutex);
	add_read(&r);
	for (size_t i = 0; i < r.n_threads; i++)
		pthread_join(r.threads[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(r.places); i++)
		cli_profile_done(&r.places[i].in);
	pthread_cond_destroy(&r.changed);
	pthread_mutex_destroy(&r.mutex);
	return r.status;
}

int cli_sum(const struct cli_sum_options *o, const struct option_list *files, struct profile *ret,
	size_t *ret_column, struct errbuf *eb)
{
	_cleanup_free_ const char **labels = xcalloc(o->root_labels.n + 2, sizeof(*labels));
	_cleanup_prof_merge_ struct prof_merge *m = prof_merge_new(NULL);
	size_t n = 0;
	int r;

	for (size_t i = 0; i < o->root_labels.n; i++)
		labels[n++] = o->root_labels.items[i];
	if (o->threads) {
		labels[n++] = "comm";
		labels[n++] = "thread_name";
	}
	prof_merge_root_labels(m, labels, n);
	r = add_files(m, o, files, eb);
	if (r >= 0)
		r = prof_merge_finish(m, ret, eb);
	if (r < 0) {
		profile_init(ret, NULL);
		return r;
	}
	return ret_column ? profile_find_type(ret, o->sample_index, ret_column, eb) : 0;
}

int cli_with_files(const struct option_program *program, int argc, char **argv, void *options,
	int (*run)(const void *options, const struct option_list *files, struct errbuf *eb))
{
	_cleanup_(option_list_done)
	struct option_list files = {.n = 0};
	struct errbuf eb = {.text = ""};
	int status = options_parse_or_exit(program, argc, argv, options, &files), r;

	if (status < 0 && !files.n) {
		fprintf(stderr, "%s: expected at least one FILE; see %s --help\n", program->name,
			program->name);
		status = CLI_USAGE;
	}
	if (status < 0) {
		r = run(options, &files, &eb);
		status = r < 0 ? cli_fail(&eb, r) : CLI_OK;
	}
	options_done(program, options);
	return status;
}
