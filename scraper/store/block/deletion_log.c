/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of deletion.json.
 */
#include "scraper/store/block/deletion_log.h"
#include "lib/base/alloc.h"
#include "lib/json/write.h"
#include "lib/json/read.h"

enum { VERSION = 1 };

void deletion_log_done(struct deletion_log *l)
{
	tombstone_done(&l->what);
	free(l->blocks.items);
	*l = (struct deletion_log) {.withdrawn = false};
}

int deletion_log_write(const struct deletion_log *l, struct bytes *out)
{
	struct json j = json_to(out);
	size_t start = out->len;

	json_object_begin(&j);
	json_kv_int(&j, "version", VERSION);
	meta_ulids_write(&j, "blocks", &l->blocks);
	tombstone_write(&j, &l->what);
	json_object_end(&j);
	bytes_put_u8(out, '\n');
	return meta_sum_write(out, start);
}

static int get_members(const struct json_value *o, struct deletion_log *ret, struct errbuf *eb)
{
	const struct json_value *version = json_value_get(o, "version");
	int r;

	if (!version || json_value_kind(version) != JSON_KIND_INT)
		return err_set(eb, -EBADMSG, "deletion.json: \"version\" is missing or no number");
	if (json_value_int(version) != VERSION)
		return err_set(eb, -ENOTSUP,
			"deletion.json has version %lld, this program knows %d",
			(long long)json_value_int(version), VERSION);
	r = meta_ulids_read(o, "blocks", &ret->blocks, eb);
	r = r ? r : tombstone_read(json_value_get(o, "tombstones"), &ret->what, eb);
	if (!r && (ret->what.n != 1 || !ret->blocks.n))
		r = err_set(eb, -EBADMSG, "deletion.json has %zu deletions of %zu blocks",
			ret->what.n, ret->blocks.n);
	return r;
}

int deletion_log_read(const void *p, size_t n, struct deletion_log *ret, struct errbuf *eb)
{
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	int r;

	*ret = (struct deletion_log) {.withdrawn = false};
	r = meta_sum_check(p, n, "deletion.json", &n, eb);
	r = r ? r : json_read(p, n, META_MAX_BYTES, &doc, eb);
	r = r ? r : get_members(json_doc_root(doc), ret, eb);
	if (r < 0)
		deletion_log_done(ret);
	return r;
}
