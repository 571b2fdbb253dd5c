/* SPDX-License-Identifier: Apache-2.0
 *
 * Files → their sum.
 */
#include "cli/sum.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/base/bytes.h"
#include "lib/prof/merge.h"
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
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
 * Files are added by the caller in their order and read by whoever has nothing else to do: a few threads, and the caller
 * while the next file is not there yet. So nobody sleeps while there is a file to read and a place for it: to wake an
 * idle CPU for each file takes as long as to read one.
 */
enum { MAX_READERS = 2, MAX_PLACES = MAX_READERS + 2 };

struct reading {
	const struct cli_sum_options *o;
	const struct option_list *files;
	pthread_t threads[MAX_READERS];
	size_t n_threads;
	/* Of what follows; what is in a place is its reader's, and once it is read the adder's. */
	pthread_mutex_t mutex;
	pthread_cond_t is_read, has_place;
	size_t n_taken, n_added;
	bool is_over;
	struct place {
		struct cli_profile in;
		struct errbuf eb;
		int status;
		bool is_read;
	} places[MAX_PLACES];
};

static struct place *place_of(struct reading *r, size_t i)
{
	return &r->places[i % (r->n_threads + 2)];
}

/* Takes the next file, if there is a place for it, and reads it. The mutex is held, but not while it reads. */
static bool read_next(struct reading *r)
{
	size_t i = r->n_taken;
	struct place *place = place_of(r, i);
	const char *name = i < r->files->n ? r->files->items[i] : NULL;
	/* Nobody waits for standard input behind a file that fails. */
	size_t ahead = name && !strcmp(name, "-") ? 1 : r->n_threads + 2;

	if (r->is_over || !name || i >= r->n_added + ahead)
		return false;
	r->n_taken++;
	pthread_mutex_unlock(&r->mutex);
	place->eb.text[0] = 0;
	place->status = cli_profile_read(&place->in, name, &place->eb);
	if (place->status >= 0 && (r->o->lines || r->o->addresses))
		place->status =
			cli_profile_detail(&place->in.p, r->o->lines, r->o->addresses, &place->eb);
	pthread_mutex_lock(&r->mutex);
	place->is_read = true;
	if (i == r->n_added)
		pthread_cond_signal(&r->is_read);
	return true;
}

static void *reader_main(void *arg)
{
	struct reading *r = arg;

	pthread_setname_np(pthread_self(), "read");
	pthread_mutex_lock(&r->mutex);
	while (!r->is_over && r->n_taken < r->files->n)
		if (!read_next(r))
			pthread_cond_wait(&r->has_place, &r->mutex);
	pthread_mutex_unlock(&r->mutex);
	return NULL;
}

static int add_read(struct reading *r, struct prof_merge *m, struct errbuf *eb)
{
	int status = 0;

	pthread_mutex_lock(&r->mutex);
	for (size_t i = 0; status >= 0 && i < r->files->n; i++) {
		struct place *place = place_of(r, i);

		while (!place->is_read)
			if (!read_next(r))
				pthread_cond_wait(&r->is_read, &r->mutex);
		pthread_mutex_unlock(&r->mutex);
		status = place->status < 0
				 ? err_set(eb, place->status, "%s",
					   err_text(&place->eb, place->status))
				 : prof_merge_add(m, &place->in.p, r->files->items[i], eb);
		pthread_mutex_lock(&r->mutex);
		place->is_read = false;
		r->n_added++;
		pthread_cond_signal(&r->has_place);
	}
	r->is_over = true;
	pthread_cond_broadcast(&r->has_place);
	pthread_mutex_unlock(&r->mutex);
	return status;
}

/* As many as there are other CPUs and other files. The sum does not depend on it, nor does it need one. */
static void start_readers(struct reading *r)
{
	cpu_set_t cpus;
	size_t n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;

	n = MIN(MIN(n, r->files->n), (size_t)MAX_READERS + 1);
	for (size_t i = 0; i + 1 < n; i++)
		r->n_threads += !pthread_create(&r->threads[r->n_threads], NULL, reader_main, r);
}

static int add_files(struct prof_merge *m, const struct cli_sum_options *o,
	const struct option_list *files, struct errbuf *eb)
{
	struct reading r = {.o = o, .files = files};
	int status;

	pthread_mutex_init(&r.mutex, NULL);
	pthread_cond_init(&r.is_read, NULL);
	pthread_cond_init(&r.has_place, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(r.places); i++)
		cli_profile_init(&r.places[i].in);
	/* They begin when all of them are counted. */
	pthread_mutex_lock(&r.mutex);
	start_readers(&r);
	pthread_mutex_unlock(&r.mutex);
	status = add_read(&r, m, eb);
	for (size_t i = 0; i < r.n_threads; i++)
		pthread_join(r.threads[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(r.places); i++)
		cli_profile_done(&r.places[i].in);
	pthread_cond_destroy(&r.is_read);
	pthread_cond_destroy(&r.has_place);
	pthread_mutex_destroy(&r.mutex);
	return status;
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
		fprintf(stderr, "%s: which files? see %s --help\n", program->name, program->name);
		status = CLI_USAGE;
	}
	if (status < 0) {
		r = run(options, &files, &eb);
		status = r < 0 ? cli_fail(&eb, r) : CLI_OK;
	}
	options_done(program, options);
	return status;
}
