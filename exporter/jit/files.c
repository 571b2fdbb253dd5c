/* SPDX-License-Identifier: Apache-2.0
 *
 * Is the file still the one that was read before? Runtimes append to it (V8, BEAM, .NET) or write it
 * anew, under the same name and even in the same inode (Compiler.perfmap of a JVM).
 */
#include "exporter/jit/files.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAMPLE_BYTES = 64 };

/* Of the bytes [off, off + n); 0 when they are not there. */
static uint64_t hash_at(int fd, uint64_t off, size_t n)
{
	uint8_t b[SAMPLE_BYTES];

	if (!n || pread(fd, b, n, (off_t)off) != (ssize_t)n)
		return 0;
	return hash_xxh3(b, n);
}

static uint64_t head_hash(const struct jit_file *f, int fd)
{
	return hash_at(fd, 0, MIN(f->read_bytes, SAMPLE_BYTES));
}

static uint64_t tail_hash(const struct jit_file *f, int fd)
{
	size_t n = MIN(f->read_bytes, SAMPLE_BYTES);

	return hash_at(fd, f->read_bytes - n, n);
}

int jit_file_check(struct jit_file *f, int fd, uint64_t *ret_bytes, bool *ret_same)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size < 0)
		return -EIO;
	if ((uint64_t)st.st_size > JIT_MAX_FILE_BYTES)
		return -EFBIG;
	*ret_bytes = (uint64_t)st.st_size;
	*ret_same = f->is_known && f->dev == st.st_dev && f->ino == st.st_ino &&
		    f->read_bytes <= *ret_bytes && f->head_hash == head_hash(f, fd) &&
		    f->tail_hash == tail_hash(f, fd);
	if (!*ret_same)
		*f = (struct jit_file) {.dev = st.st_dev,
			.ino = st.st_ino,
			.is_known = true,
			.n_bad = f->n_bad,
			.work_bytes = f->work_bytes};
	return 0;
}

void jit_file_note(struct jit_file *f, int fd)
{
	f->head_hash = head_hash(f, fd);
	f->tail_hash = tail_hash(f, fd);
}
