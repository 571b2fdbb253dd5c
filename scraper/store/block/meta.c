/* SPDX-License-Identifier: Apache-2.0
 *
 * meta.json: written by the streaming writer, read strictly.
 */
#include "scraper/store/block/meta.h"
#include "lib/base/alloc.h"
#include "lib/base/hash.h"
#include "lib/json/write.h"
#include "lib/json/read.h"
#include <stdio.h>
#include <string.h>

/* Members of "stats", in order. */
#define STATS(X)         \
	X(label_strings) \
	X(strings)       \
	X(functions)     \
	X(mappings)      \
	X(locations)     \
	X(label_sets)    \
	X(nodes)         \
	X(schemas)       \
	X(streams)       \
	X(profiles)      \
	X(rows) X(row_pages)

static const char feature_tombstones[] = "tombstones";
static const char *const resolutions[META_N_RESOLUTIONS] = {"raw", "10m", "1h"};

enum { CRC_LINE = 16 }; /* "crc32c xxxxxxxx\n" */

static void names_done(struct meta_names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->items[i]);
	free(n->items);
	*n = (struct meta_names) {.items = NULL};
}

void meta_names_set(struct meta_names *to, const char *const *names, size_t n)
{
	names_done(to);
	to->items = xcalloc(n + 1, sizeof(*to->items));
	for (; to->n < n; to->n++)
		to->items[to->n] = xstrdup(names[to->n]);
}

void meta_done(struct meta *m)
{
	free(m->generations.items);
	free(m->replaces.items);
	names_done(&m->rollup_without);
	tombstone_done(&m->tombstones);
	*m = (struct meta) {.level = 0};
}

void meta_ulids_write(struct json *j, const char *key, const struct meta_ulids *u)
{
	char text[ULID_TEXT];

	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < u->n; i++) {
		ulid_format(u->items[i], text);
		json_string(j, text);
	}
	json_array_end(j);
}

static bool has_rollups(const struct meta *m)
{
	return m->files[FRAME_PROFILES_10M].size || m->files[FRAME_PROFILES_1H].size;
}

static void put_rollups(struct json *j, const struct meta *m)
{
	json_key(j, "rollups");
	json_array_begin(j);
	for (unsigned i = 1; i < META_N_RESOLUTIONS; i++) {
		if (!m->rollups[i].streams)
			continue;
		json_object_begin(j);
		json_kv_string(j, "resolution", resolutions[i]);
		json_kv_uint(j, "streams", m->rollups[i].streams);
		json_kv_uint(j, "profiles", m->rollups[i].profiles);
		json_kv_uint(j, "rows", m->rollups[i].rows);
		json_kv_uint(j, "row_pages", m->rollups[i].row_pages);
		json_object_end(j);
	}
	json_array_end(j);
	json_key(j, "rollup_without");
	json_array_begin(j);
	for (size_t i = 0; i < m->rollup_without.n; i++)
		json_string(j, m->rollup_without.items[i]);
	json_array_end(j);
}

int meta_sum_write(struct bytes *out, size_t start)
{
	if (!out->error)
		bytes_printf(
			out, "crc32c %08x\n", hash_crc32c(0, out->data + start, out->len - start));
	return bytes_error(out);
}

int meta_sum_check(const void *p, size_t n, const char *name, size_t *ret_n, struct errbuf *eb)
{
	char want[CRC_LINE + 1];

	if (n < CRC_LINE)
		return err_set(eb, -EBADMSG, "%s is cut short", name);
	n -= CRC_LINE;
	snprintf(want, sizeof(want), "crc32c %08x\n", hash_crc32c(0, p, n));
	if (memcmp((const char *)p + n, want, CRC_LINE))
		return err_set(eb, -EBADMSG, "%s has a wrong checksum", name);
	*ret_n = n;
	return 0;
}

int meta_write(const struct meta *m, struct bytes *out)
{
	struct json j = json_to(out);
	size_t start = out->len;
	char text[ULID_TEXT];

	ulid_format(m->ulid, text);
	json_object_begin(&j);
	json_kv_int(&j, "version", META_VERSION);
	json_kv_string(&j, "ulid", text);
	json_key(&j, "incompat");
	json_array_begin(&j);
	if (m->tombstones.n)
		json_string(&j, feature_tombstones);
	json_array_end(&j);
	json_key(&j, "compat");
	json_array_begin(&j);
	if (has_rollups(m))
		json_string(&j, "rollups");
	json_array_end(&j);
	json_kv_uint(&j, "level", m->level);
	meta_ulids_write(&j, "generations", &m->generations);
	meta_ulids_write(&j, "replaces", &m->replaces);
	json_kv_int(&j, "min_time", m->min_time_ns);
	json_kv_int(&j, "max_time", m->max_time_ns);
	json_kv_int(&j, "max_duration", m->max_duration_ns);
	json_key(&j, "stats");
	json_object_begin(&j);
#define PUT(name) json_kv_uint(&j, #name, m->stats.name);
	STATS(PUT)
#undef PUT
	json_object_end(&j);
	json_key(&j, "files");
	json_array_begin(&j);
	for (enum frame_file f = FRAME_INDEX; f < FRAME_N; f++) {
		if (f >= FRAME_N_RAW && !m->files[f].size)
			continue;
		json_object_begin(&j);
		json_kv_string(&j, "name", frame_file_name(f));
		json_kv_uint(&j, "size", m->files[f].size);
		json_kv_uint(&j, "crc32c", m->files[f].table_crc);
		json_object_end(&j);
	}
	json_array_end(&j);
	if (has_rollups(m))
		put_rollups(&j, m);
	if (m->tombstones.n)
		tombstone_write(&j, &m->tombstones);
	json_object_end(&j);
	bytes_put_u8(out, '\n');
	return meta_sum_write(out, start);
}

static int bad(struct errbuf *eb, const char *key)
{
	return err_set(eb, -EBADMSG, "meta.json: \"%s\" is missing or has the wrong type", key);
}

static int get_int(const struct json_value *o, const char *key, int64_t *ret, struct errbuf *eb)
{
	const struct json_value *v = json_value_get(o, key);

	if (!v || json_value_kind(v) != JSON_KIND_INT)
		return bad(eb, key);
	*ret = json_value_int(v);
	return 0;
}

static int get_uint(
	const struct json_value *o, const char *key, uint64_t max, uint64_t *ret, struct errbuf *eb)
{
	int64_t v = 0;
	int r = get_int(o, key, &v, eb);

	if (r < 0)
		return r;
	if (v < 0 || (uint64_t)v > max)
		return bad(eb, key);
	*ret = (uint64_t)v;
	return 0;
}

int meta_ulids_read(
	const struct json_value *o, const char *key, struct meta_ulids *ret, struct errbuf *eb)
{
	const struct json_value *a = json_value_get(o, key);
	size_t n = a ? json_value_len(a) : 0;

	if (!a || json_value_kind(a) != JSON_KIND_ARRAY || n > META_MAX_ULIDS)
		return bad(eb, key);
	ret->items = try_realloc(NULL, n, ULID_BYTES);
	if (!ret->items)
		return -ENOMEM;
	for (; ret->n < n; ret->n++) {
		const char *text = json_value_str(json_value_at(a, ret->n));

		if (!text || !ulid_parse(text, ret->items[ret->n]))
			return bad(eb, key);
	}
	return 0;
}

static int check_features(const struct json_value *o, struct errbuf *eb)
{
	const struct json_value *a = json_value_get(o, "incompat");

	if (!a || json_value_kind(a) != JSON_KIND_ARRAY)
		return bad(eb, "incompat");
	for (size_t i = 0; i < json_value_len(a); i++) {
		const char *name = json_value_str(json_value_at(a, i));

		if (!name || strcmp(name, feature_tombstones) != 0)
			return err_set(eb, -ENOTSUP,
				"the block needs feature \"%s\", which this program does not know",
				name ? name : "?");
	}
	return 0;
}

static int get_file(
	const struct json_value *v, enum frame_file f, struct meta *ret, struct errbuf *eb)
{
	uint64_t crc = 0;
	int r = get_uint(v, "size", INT64_MAX, &ret->files[f].size, eb);

	r = r ? r : get_uint(v, "crc32c", UINT32_MAX, &crc, eb);
	ret->files[f].table_crc = (uint32_t)crc;
	return r;
}

/* The five that every block has come first; further ones may be unknown. */
static int get_files(const struct json_value *o, struct meta *ret, struct errbuf *eb)
{
	const struct json_value *a = json_value_get(o, "files");
	int r = 0;

	if (!a || json_value_kind(a) != JSON_KIND_ARRAY)
		return bad(eb, "files");
	for (size_t i = 0; !r && i < json_value_len(a); i++) {
		const struct json_value *v = json_value_at(a, i);
		const char *name = json_value_str(json_value_get(v, "name"));
		enum frame_file f = FRAME_INDEX;

		while (name && f < FRAME_N && strcmp(name, frame_file_name(f)) != 0)
			f++;
		if (!name || (i < FRAME_N_RAW - 1 && f != i + 1))
			return bad(eb, "files");
		if (f < FRAME_N)
			r = get_file(v, f, ret, eb);
	}
	for (enum frame_file f = FRAME_INDEX; !r && f < FRAME_N_RAW; f++)
		if (!ret->files[f].size)
			r = bad(eb, "files");
	return r;
}

static int get_rollup(const struct json_value *v, struct meta *ret, struct errbuf *eb)
{
	const char *name = json_value_str(json_value_get(v, "resolution"));
	struct meta_rollup *to;
	unsigned i = 1;
	int r;

	while (name && i < META_N_RESOLUTIONS && strcmp(name, resolutions[i]) != 0)
		i++;
	if (!name)
		return bad(eb, "rollups");
	if (i == META_N_RESOLUTIONS)
		return 0; /* of a version to come */
	to = &ret->rollups[i];
	r = get_uint(v, "streams", UINT32_MAX - 1, &to->streams, eb);
	r = r ? r : get_uint(v, "profiles", INT64_MAX, &to->profiles, eb);
	r = r ? r : get_uint(v, "rows", INT64_MAX, &to->rows, eb);
	return r ? r : get_uint(v, "row_pages", UINT32_MAX - 1, &to->row_pages, eb);
}

static int get_rollups(const struct json_value *o, struct meta *ret, struct errbuf *eb)
{
	const struct json_value *a = json_value_get(o, "rollups"),
				*names = json_value_get(o, "rollup_without");
	int r = 0;

	if (!has_rollups(ret))
		return 0;
	if (!a || json_value_kind(a) != JSON_KIND_ARRAY || !names ||
		json_value_kind(names) != JSON_KIND_ARRAY)
		return bad(eb, "rollups");
	for (size_t i = 0; !r && i < json_value_len(a); i++)
		r = get_rollup(json_value_at(a, i), ret, eb);
	ret->rollup_without.items =
		xcalloc(json_value_len(names) + 1, sizeof(*ret->rollup_without.items));
	for (size_t i = 0; !r && i < json_value_len(names); i++) {
		const char *name = json_value_str(json_value_at(names, i));

		if (!name)
			return bad(eb, "rollup_without");
		ret->rollup_without.items[ret->rollup_without.n++] = xstrdup(name);
	}
	return r;
}

static int get_members(const struct json_value *o, struct meta *ret, struct errbuf *eb)
{
	const struct json_value *stats = json_value_get(o, "stats"),
				*ulid = json_value_get(o, "ulid");
	const char *text = ulid ? json_value_str(ulid) : NULL;
	uint64_t level = 0, version = 0;
	int r;

	r = get_uint(o, "version", UINT32_MAX, &version, eb);
	if (!r && version != META_VERSION)
		return err_set(eb, -ENOTSUP, "the block has version %llu, this program knows %d",
			(unsigned long long)version, META_VERSION);
	r = r ? r : check_features(o, eb);
	if (!r && (!text || !ulid_parse(text, ret->ulid)))
		return bad(eb, "ulid");
	r = r ? r : get_uint(o, "level", UINT32_MAX, &level, eb);
	ret->level = (uint32_t)level;
	r = r ? r : meta_ulids_read(o, "generations", &ret->generations, eb);
	r = r ? r : meta_ulids_read(o, "replaces", &ret->replaces, eb);
	r = r ? r : get_int(o, "min_time", &ret->min_time_ns, eb);
	r = r ? r : get_int(o, "max_time", &ret->max_time_ns, eb);
	r = r ? r : get_int(o, "max_duration", &ret->max_duration_ns, eb);
	if (!r && !stats)
		return bad(eb, "stats");
#define GET(name) r = r ? r : get_uint(stats, #name, INT64_MAX, &ret->stats.name, eb);
	STATS(GET)
#undef GET
	r = r ? r : get_files(o, ret, eb);
	r = r ? r : get_rollups(o, ret, eb);
	return r ? r : tombstone_read(json_value_get(o, "tombstones"), &ret->tombstones, eb);
}

int meta_read(const void *p, size_t n, struct meta *ret, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	int r;

	*ret = (struct meta) {.level = 0};
	r = meta_sum_check(p, n, "meta.json", &n, eb);
	r = r ? r : json_read(p, n, META_MAX_BYTES, &doc, eb);
	if (r >= 0)
		r = get_members(json_doc_root(doc), ret, eb);
	if (r < 0)
		meta_done(ret);
	return r;
}

uint64_t meta_bytes(const struct meta *m)
{
	uint64_t bytes = 4096; /* the directory and meta.json itself */

	for (enum frame_file f = FRAME_INDEX; f < FRAME_N; f++)
		bytes += m->files[f].size;
	return bytes;
}

bool meta_has_generation(const struct meta *m, const uint8_t generation[ULID_BYTES])
{
	for (size_t i = 0; i < m->generations.n; i++)
		if (!memcmp(m->generations.items[i], generation, ULID_BYTES))
			return true;
	return false;
}
