/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading profiles, writing results.
 */
#include "cli/files.h"
#include "lib/base/alloc.h"
#include "lib/base/fs.h"
#include "lib/base/str.h"
#include "lib/gzip/gzip.h"
#include "lib/prof/legacy.h"
#include "lib/prof/prune.h"
#include "lib/prof/text.h"
#include <fcntl.h>
#include <limits.h>

/* What prof_decode takes. */
#define MAX_PROFILE_BYTES ((size_t)UINT32_MAX)
enum { PIPE_CHUNK = 1 << 16 };

void cli_profile_init(struct cli_profile *in)
{
	profile_init(&in->p, NULL);
	bytes_init(&in->file, NULL, 0);
	bytes_init(&in->raw, NULL, 0);
}

void cli_profile_done(struct cli_profile *in)
{
	profile_done(&in->p);
	bytes_done(&in->file);
	bytes_done(&in->raw);
}

static int read_stdin(struct bytes *out)
{
	for (;;) {
		uint8_t *to = bytes_reserve(out, PIPE_CHUNK);
		ssize_t n = to ? read(STDIN_FILENO, to, PIPE_CHUNK) : 0;

		if (!to)
			return bytes_error(out);
		if (!n)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		out->len += n > 0 ? (size_t)n : 0;
		if (out->len > MAX_PROFILE_BYTES)
			return -EFBIG;
	}
}

static int read_bytes(struct bytes *out, const char *path, struct errbuf *eb)
{
	int r;

	bytes_reset(out);
	if (strcmp(path, "-") != 0)
		return fs_read_file(&fs_system, path, MAX_PROFILE_BYTES, out, eb);
	r = read_stdin(out);
	return r < 0 ? err_set(eb, r, "standard input: %s", strerror(-r)) : 0;
}

/* One line, so that those of several threads stay apart. */
static void warn(const char *name, const struct prof_text_notes *notes)
{
	_cleanup_bytes_ struct bytes text = {0};

	prof_text_notes_print(notes, &text);
	if (text.len)
		fprintf(stderr, "sonde: %s: %.*s\n", name, (int)text.len, (const char *)text.data);
}

static void warn_of_mended(const char *name, const struct profile *p)
{
	struct prof_str key = profile_str(p, p->mended_key);

	if (p->n_mended_texts)
		fprintf(stderr,
			"sonde: %s: wrote \\xNN for bytes of %zu text%s of labels that are not "
			"UTF-8, "
			"the first of label \"%.*s\"\n",
			name, p->n_mended_texts, p->n_mended_texts == 1 ? "" : "s",
			(int)MIN(key.len, 128U), key.p);
}

static int read_text(
	const void *data, size_t n, const char *name, struct profile *ret, struct errbuf *eb)
{
	struct prof_text_notes notes;
	int r = prof_text_read(data, n, ret, &notes, eb);

	if (r == 0)
		warn(name, &notes);
	return r;
}

/* Text may have control characters too: then it is no pprof message. */
static int read_any(
	const void *data, size_t n, const char *name, struct profile *ret, struct errbuf *eb)
{
	struct errbuf pprof_eb = {.text = ""};
	int r;

	if (prof_legacy_what(data, n))
		return err_set(eb, -EBADMSG, "%s", prof_legacy_what(data, n));
	if (n && prof_text_is(data, n))
		return read_text(data, n, name, ret, eb);
	r = prof_decode(data, n, ret, &pprof_eb);
	if (r == 0)
		warn_of_mended(name, ret);
	if (r != -EBADMSG)
		return r < 0 ? err_set(eb, r, "%s", pprof_eb.text) : r;
	if (n && prof_text_may_be(data, n)) {
		profile_reset(ret);
		r = read_text(data, n, name, ret, eb);
		if (r != -EBADMSG)
			return r;
	}
	/* What it says is right, but does not help whoever gave the wrong file. */
	return err_set(eb, r, "%s%s",
		str_starts_with(pprof_eb.text, "malformed")
			? "neither a whole pprof profile nor text: "
			: "",
		pprof_eb.text);
}

int cli_profile_decode(const void *data, size_t n, const char *name, struct bytes *text,
	struct profile *ret, struct errbuf *eb)
{
	int r;

	if (gzip_is(data, n)) {
		bytes_reset(text);
		r = gzip_inflate(data, n, MAX_PROFILE_BYTES, text, eb);
		if (r < 0)
			return err_prefix(eb, r, "%s", name);
		data = text->data;
		n = text->len;
	}
	r = read_any(data, n, name, ret, eb);
	return r < 0 ? err_prefix(eb, r, "%s", name) : 0;
}

int cli_profile_read(struct cli_profile *in, const char *path, struct errbuf *eb)
{
	const char *name = strcmp(path, "-") != 0 ? path : "standard input";
	int r = read_bytes(&in->file, path, eb);

	if (r < 0)
		return r;
	profile_reset(&in->p);
	return cli_profile_decode(in->file.data, in->file.len, name, &in->raw, &in->p, eb);
}

int cli_profile_prune(struct cli_profile *in, const char *name, struct errbuf *eb)
{
	int r = prof_prune(&in->p, eb);

	if (r != -EBADMSG)
		return r;
	fprintf(stderr, "sonde: %s: %s: no frame is left out\n", name, err_text(eb, r));
	*eb = (struct errbuf) {.text = ""};
	return 0;
}

static int write_all(int fd, const struct bytes *b)
{
	for (size_t done = 0; done < b->len;) {
		ssize_t n = write(fd, b->data + done, b->len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* A pipe, a device, a socket: written, never replaced. */
static int write_special(const char *path, const struct bytes *b)
{
	struct fs *fs = &fs_system;
	int fd = fs->open(fs, path, O_WRONLY, 0), r, c;

	if (fd < 0)
		return fd;
	r = write_all(fd, b);
	c = fs->close(fs, fd);
	return r < 0 ? r : c;
}

int cli_write_output(const char *path, const struct bytes *b, struct errbuf *eb)
{
	_cleanup_free_ char *target = NULL;
	struct fs_stat st;
	int r;

	if (!strcmp(path, "-")) {
		r = write_all(STDOUT_FILENO, b);
		return r < 0 ? err_set(eb, r, "standard output: %s", strerror(-r)) : 0;
	}
	if (!fs_system.stat(&fs_system, path, &st) && !st.is_regular) {
		r = write_special(path, b);
		return r < 0 ? err_set(eb, r, "%s: %s", path, strerror(-r)) : 0;
	}
	target = realpath(path, NULL); /* a symbolic link stays one */
	return fs_write_file(&fs_system, target ? target : path, b->data, b->len, 0666, eb);
}

int cli_check_output(const char *path, struct errbuf *eb)
{
	_cleanup_free_ char *target = realpath(path, NULL), *directory = NULL;
	const char *file = target ? target : path, *slash = strrchr(file, '/'), *place;
	struct fs_stat st;
	int r = fs_system.stat(&fs_system, file, &st);

	if (!strcmp(path, "-"))
		return 0;
	if (r == 0 && st.is_dir)
		return err_set(eb, -EISDIR, "%s: is a directory, expected a file", path);
	/* A regular file is replaced by another one of its directory. */
	directory = slash ? xstrndup(file, (size_t)(slash + 1 - file)) : xstrdup(".");
	place = r == 0 && !st.is_regular ? file : directory;
	if (access(place, place == file ? W_OK : W_OK | X_OK) < 0)
		return err_set(
			eb, -errno, "%s cannot be written: %s: %s", path, place, strerror(errno));
	return 0;
}

char *cli_relative_path(const char *output, const char *file)
{
	const char *slash = strrchr(output, '/');
	_cleanup_free_ char *folder =
		slash ? xstrndup(output, (size_t)(slash + 1 - output)) : xstrdup(".");
	_cleanup_free_ char *from = realpath(folder, NULL), *to = realpath(file, NULL);
	_cleanup_bytes_ struct bytes path;
	size_t same = 0;

	bytes_init(&path, NULL, 0);
	if (!from || !to)
		return NULL;
	/* Up to the last "/" before which both name the same folders. */
	for (size_t i = 0; from[i] == to[i] || (!from[i] && to[i] == '/'); i++) {
		if (to[i] == '/')
			same = i;
		if (!from[i] || !to[i])
			break;
	}
	for (const char *p = from + same; *p; p++)
		if (p[0] == '/' && p[1])
			bytes_put_str(&path, "../");
	bytes_put_str(&path, to + same + 1);
	return bytes_error(&path) ? NULL : xstrndup((const char *)path.data, path.len);
}
