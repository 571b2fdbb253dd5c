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

/* A thread that reads the next file while the caller adds the one before it. */
struct reader {
	const struct cli_sum_options *o;
	const struct option_list *files;
	pthread_t thread;
	pthread_mutex_t
		mutex; /* of what follows; what is read is its reader's up to n_read, then the adder's up to n_added */
	pthread_cond_t changed;
	size_t n_read, n_added;
	bool is_over;
	struct file {
		struct cli_profile in;
		struct errbuf eb;
		int status;
	} ring[2];
};

static struct file *file_of(struct reader *r, size_t i)
{
	return &r->ring[i % ARRAY_SIZE(r->ring)];
}

static void read_file(struct reader *r, size_t i)
{
	struct file *f = file_of(r, i);

	f->eb.text[0] = 0;
	f->status = cli_profile_read(&f->in, r->files->items[i], &f->eb);
	if (f->status >= 0 && (r->o->lines || r->o->addresses))
		f->status = cli_profile_detail(&f->in.p, r->o->lines, r->o->addresses, &f->eb);
}

/* True once `i` is less than *n + more; false when all is over. */
static bool reader_wait(struct reader *r, size_t i, const size_t *n, size_t more)
{
	bool is_over;

	pthread_mutex_lock(&r->mutex);
	while (i >= *n + more && !r->is_over)
		pthread_cond_wait(&r->changed, &r->mutex);
	is_over = r->is_over;
	pthread_mutex_unlock(&r->mutex);
	return !is_over;
}

static void reader_set(struct reader *r, size_t *n, size_t to)
{
	pthread_mutex_lock(&r->mutex);
	*n = to;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->mutex);
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;

	for (size_t i = 0; i < r->files->n; i++) {
		/* Nobody waits for standard input behind a file that fails. */
		size_t ahead = strcmp(r->files->items[i], "-") != 0 ? ARRAY_SIZE(r->ring) : 1;

		if (!reader_wait(r, i, &r->n_added, ahead))
			break;
		read_file(r, i);
		reader_set(r, &r->n_read, i + 1);
	}
	return NULL;
}

static int add_read(struct reader *r, struct prof_merge *m, struct errbuf *eb)
{
	int status = 0;

	for (size_t i = 0; status >= 0 && i < r->files->n; i++) {
		struct file *f = file_of(r, i);

		(void)reader_wait(r, i, &r->n_read, 0);
		status = f->status < 0 ? err_set(eb, f->status, "%s", err_text(&f->eb, f->status))
				       : prof_merge_add(m, &f->in.p, r->files->items[i], eb);
		reader_set(r, &r->n_added, i + 1);
	}
	return status;
}

static int add_files(struct prof_merge *m, const struct cli_sum_options *o,
	const struct option_list *files, struct errbuf *eb)
{
	struct reader r = {.o = o, .files = files};
	int status;

	pthread_mutex_init(&r.mutex, NULL);
	pthread_cond_init(&r.changed, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(r.ring); i++)
		cli_profile_init(&r.ring[i].in);
	status = pthread_create(&r.thread, NULL, reader_main, &r);
	if (status) {
		status = err_set(eb, -status, "no thread to read with: %s", strerror(status));
	} else {
		status = add_read(&r, m, eb);
		pthread_mutex_lock(&r.mutex);
		r.is_over = true;
		pthread_cond_signal(&r.changed);
		pthread_mutex_unlock(&r.mutex);
		pthread_join(r.thread, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(r.ring); i++)
		cli_profile_done(&r.ring[i].in);
	pthread_cond_destroy(&r.changed);
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
