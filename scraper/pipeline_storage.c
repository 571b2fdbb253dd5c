/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.tsdb of the configuration: retention and the window of late profiles, of which the flags are the defaults. Changed by a reload.
 */
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "scraper/options.h"
#include "scraper/pipeline_impl.h"
#include <inttypes.h>
#include <string.h>

int scraper_storage_parse_retention(const char *text, int64_t *ret, struct errbuf *eb)
{
	int64_t ms = 0;
	int r = str_parse_duration_ms(text, &ms, eb);

	if (r < 0)
		return err_prefix(eb, r, "--storage.retention.time");
	*ret = !ms || ms > INT64_MAX / NS_PER_MS ? INT64_MAX : ms * NS_PER_MS;
	return 0;
}

/* The smaller of the sizes that the file gives, else the flag. */
static uint64_t retention_bytes(struct scraper_pipeline *p, const struct config_retention *x)
{
	uint64_t total = 0, bytes = x->size_bytes;
	int e;

	if (x->percentage <= 0)
		return bytes ? bytes : p->o->retention_bytes;
	e = p->fs->total_bytes(p->fs, p->o->storage_path, &total);
	if (e < 0) {
		log_write(LOG_ERROR,
			"storage.tsdb.retention.percentage has no effect: size of the file system "
			"unknown",
			"path", p->o->storage_path, "error", strerror(-e), NULL);
		return bytes ? bytes : p->o->retention_bytes;
	}
	total = (uint64_t)((double)total / 100 * x->percentage);
	return bytes ? MIN(bytes, total) : total;
}

static struct store_limits limits_of(struct scraper_pipeline *p, const struct config *cfg)
{
	const struct config_tsdb *tsdb = &cfg->storage.tsdb;
	int64_t late_ms = tsdb->out_of_order_ms ? tsdb->out_of_order_ms : p->o->out_of_order_ms;
	struct store_limits l = {.retention_ns = tsdb->retention.time_ms * NS_PER_MS,
		.out_of_order_ns = late_ms * NS_PER_MS,
		.retention_bytes = retention_bytes(p, &tsdb->retention)};

	/* the flag was read before the store was opened */
	if (!l.retention_ns &&
		scraper_storage_parse_retention(p->o->retention_time, &l.retention_ns, NULL) < 0)
		l.retention_ns = INT64_MAX;
	return l;
}

static struct store_limits limits_now(struct scraper_pipeline *p)
{
	struct store_limits l;
	struct config *cfg;

	lock_take(&p->lock);
	cfg = config_get(p->config);
	lock_release(&p->lock);
	l = limits_of(p, cfg);
	config_put(cfg);
	return l;
}

/* Below this the log, a segment of 64 MiB or two, may leave no room for any block. */
enum { LEAST_MIB = 256 };

void scraper_storage_apply(struct scraper_pipeline *p)
{
	const struct store_limits l = limits_now(p);
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64 "MiB", l.retention_bytes >> 20);
	if (l.retention_bytes && l.retention_bytes >> 20 < LEAST_MIB)
		log_write(LOG_WARN,
			"the limit on the size of the store counts its log too, and may leave no "
			"room for blocks: give it 256MiB or more",
			"storage.retention.size", text, NULL);
	store_set_limits(p->store, &l);
}

void scraper_storage_describe(void *arg, struct bytes *out)
{
	const struct store_limits l = limits_now(arg);
	char text[64];

	if (l.retention_ns != INT64_MAX) {
		str_format_duration_ms(l.retention_ns / NS_PER_MS, text);
		bytes_put_str(out, text);
	}
	if (l.retention_bytes)
		bytes_printf(out, "%s%.4gGiB", out->len ? " or " : "",
			(double)l.retention_bytes / (1 << 30));
}
