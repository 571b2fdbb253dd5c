/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings that Profiles Drilldown keeps on its server: names with texts, in one small JSON file of the data directory
 * ({"NAME":{"value":…,"modifiedAt":ms}}), written anew on every change.
 */
#include "lib/base/alloc.h"
#include "lib/base/clock.h"
#include "lib/base/fs.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/json/read.h"
#include "proto/settings.pb-c.h"
#include "scraper/api/connect.h"
#include <string.h>

enum {
	MAX_SETTINGS = 100,
	MAX_NAME_BYTES = 256,
	MAX_VALUE_BYTES = 64 << 10,
	MAX_FILE_BYTES = 16 << 20
};

struct settings {
	Settings__V1__Setting *items; /* in the call's arena */
	size_t n;
};

/* What the file holds; nothing when there is none. A damaged one counts as empty: the next change replaces it. */
static int load(struct connect_call *c, struct settings *ret, struct errbuf *eb)
{
	const struct api_options *o = &c->q.api->o;
	_cleanup_(json_doc_freep)
	struct json_doc *doc = NULL;
	_cleanup_bytes_ struct bytes text = {};
	const struct json_value *value;
	const char *name;
	void *pos = NULL;
	struct errbuf why = {};
	int r;

	*ret = (struct settings) {.items = CONNECT_ARRAY(c, MAX_SETTINGS, Settings__V1__Setting)};
	if (!ret->items || !o->settings_path)
		return arena_error(&c->arena, eb);
	r = fs_read_file(o->fs, o->settings_path, MAX_FILE_BYTES, &text, &why);
	if (r == -ENOENT)
		return 0;
	if (!r)
		r = json_read(text.data, text.len, MAX_FILE_BYTES, &doc, &why);
	if (r) {
		log_write(LOG_WARN, "settings cannot be read", "file", o->settings_path, "error",
			err_text(&why, r), NULL);
		return 0;
	}
	while (ret->n < MAX_SETTINGS && json_value_next(json_doc_root(doc), &pos, &name, &value)) {
		Settings__V1__Setting *s = &ret->items[ret->n];
		const struct json_value *text_of = json_value_get(value, "value");
		const struct json_value *time_of = json_value_get(value, "modifiedAt");

		if (!text_of || !json_value_str(text_of))
			continue;
		settings__v1__setting__init(s);
		s->name = connect_text(c, name);
		s->value = connect_text(c, json_value_str(text_of));
		s->modifiedat = time_of ? json_value_int(time_of) : 0;
		ret->n++;
	}
	return arena_error(&c->arena, eb);
}

static int save(const struct connect_call *c, const struct settings *s, struct errbuf *eb)
{
	const struct api_options *o = &c->q.api->o;
	_cleanup_bytes_ struct bytes text = {};
	struct json j = json_to(&text);

	json_object_begin(&j);
	for (size_t i = 0; i < s->n; i++) {
		json_key(&j, s->items[i].name);
		json_object_begin(&j);
		json_kv_string(&j, "value", s->items[i].value);
		json_kv_int(&j, "modifiedAt", s->items[i].modifiedat);
		json_object_end(&j);
	}
	json_object_end(&j);
	if (bytes_error(&text))
		return api_job_too_large(eb);
	return fs_write_file(o->fs, o->settings_path, text.data, text.len, 0644, eb);
}

static size_t find(const struct settings *s, const char *name)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->items[i].name, name) != 0)
		i++;
	return i;
}

int settings_get(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	Settings__V1__GetSettingsResponse *out = CONNECT_NEW(c, Settings__V1__GetSettingsResponse);
	struct settings s;
	int r;

	(void)request;
	lock_take(&c->q.api->settings_lock);
	r = load(c, &s, eb);
	lock_release(&c->q.api->settings_lock);
	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	settings__v1__get_settings_response__init(out);
	out->settings = CONNECT_ARRAY(c, s.n, Settings__V1__Setting *);
	for (size_t i = 0; out->settings && i < s.n; i++)
		out->settings[out->n_settings++] = &s.items[i];
	return connect_answer(c, &out->base, eb);
}

static int check(const struct api *a, const Settings__V1__Setting *in, struct errbuf *eb)
{
	if (!a->o.settings_path)
		return err_set(eb, -ENOTSUP, "settings cannot be kept: there is no data directory");
	if (!in || !*in->name)
		return err_set(eb, -EINVAL, "setting.name: missing");
	if (strlen(in->name) > MAX_NAME_BYTES || strlen(in->value) > MAX_VALUE_BYTES)
		return err_set(eb, -EINVAL,
			"setting: a name has at most %d bytes, a value at most %d", MAX_NAME_BYTES,
			MAX_VALUE_BYTES);
	if (!str_is_utf8(in->name, strlen(in->name)) || !str_is_utf8(in->value, strlen(in->value)))
		return err_set(eb, -EINVAL, "setting: not valid UTF-8");
	return 0;
}

static int set_locked(struct connect_call *c, const Settings__V1__Setting *in,
	Settings__V1__Setting *ret, struct errbuf *eb)
{
	struct settings s;
	size_t i;
	int r;

	ASSERT_HELD(&c->q.api->settings_lock);
	r = load(c, &s, eb);
	if (r)
		return r;
	i = find(&s, in->name);
	if (i == MAX_SETTINGS)
		return err_set(eb, -EINVAL, "setting: more than %d", MAX_SETTINGS);
	settings__v1__setting__init(&s.items[i]);
	s.items[i].name = in->name;
	s.items[i].value = in->value;
	s.items[i].modifiedat =
		in->modifiedat ? in->modifiedat : clock_realtime_ns(c->q.api->o.clock) / NS_PER_MS;
	s.n = MAX(s.n, i + 1);
	*ret = s.items[i];
	return save(c, &s, eb);
}

int settings_set(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Settings__V1__SetSettingsRequest *in = (const void *)request;
	Settings__V1__SetSettingsResponse *out = CONNECT_NEW(c, Settings__V1__SetSettingsResponse);
	Settings__V1__Setting *kept = CONNECT_NEW(c, Settings__V1__Setting);
	int r = check(c->q.api, in->setting, eb);

	if (r || !out || !kept)
		return r ? r : arena_error(&c->arena, eb);
	lock_take(&c->q.api->settings_lock);
	r = set_locked(c, in->setting, kept, eb);
	lock_release(&c->q.api->settings_lock);
	if (r)
		return r;
	settings__v1__set_settings_response__init(out);
	out->setting = kept;
	return connect_answer(c, &out->base, eb);
}

static int delete_locked(struct connect_call *c, const char *name, struct errbuf *eb)
{
	struct settings s;
	size_t i;
	int r;

	ASSERT_HELD(&c->q.api->settings_lock);
	r = load(c, &s, eb);
	i = r ? 0 : find(&s, name);
	if (r || i == s.n)
		return r;
	s.items[i] = s.items[--s.n];
	return save(c, &s, eb);
}

int settings_delete(struct connect_call *c, const ProtobufCMessage *request, struct errbuf *eb)
{
	const Settings__V1__DeleteSettingsRequest *in = (const void *)request;
	Settings__V1__DeleteSettingsResponse *out =
		CONNECT_NEW(c, Settings__V1__DeleteSettingsResponse);
	const Settings__V1__Setting asked = {.name = in->name, .value = in->name};
	int r = check(c->q.api, &asked, eb);

	if (r || !out)
		return r ? r : arena_error(&c->arena, eb);
	lock_take(&c->q.api->settings_lock);
	r = delete_locked(c, in->name, eb);
	lock_release(&c->q.api->settings_lock);
	if (r)
		return r;
	settings__v1__delete_settings_response__init(out);
	return connect_answer(c, &out->base, eb);
}
