/* SPDX-License-Identifier: Apache-2.0
 *
 * The log level, format and component are the only globals of lib/.
 */
#include "lib/base/log.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static enum log_level min_level = LOG_INFO;
static enum log_format format = LOG_LOGFMT;
static const char *component;

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"logfmt", "json"};

int log_set_level(const char *name, struct errbuf *eb)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
		if (!strcmp(name, level_names[i])) {
			min_level = (enum log_level)i;
			return 0;
		}
	return err_set(
		eb, -EINVAL, "unknown log level \"%s\": expected debug, info, warn or error", name);
}

int log_set_format(const char *name, struct errbuf *eb)
{
	for (size_t i = 0; i < ARRAY_SIZE(format_names); i++)
		if (!strcmp(name, format_names[i])) {
			format = (enum log_format)i;
			return 0;
		}
	return err_set(eb, -EINVAL, "unknown log format \"%s\": expected logfmt or json", name);
}

void log_set_component(const char *name)
{
	component = name;
}

bool log_enabled(enum log_level level)
{
	return level >= min_level;
}

struct line {
	char buf[2048];
	size_t len;
};

static void line_put(struct line *l, const char *s, size_t n)
{
	size_t room = sizeof(l->buf) - 2 - l->len;

	n = MIN(n, room);
	memcpy(l->buf + l->len, s, n);
	l->len += n;
}

static bool needs_quotes(const char *s)
{
	if (!*s)
		return true;
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == '"' || *s == '=' || *s == '\\' || *s == 127)
			return true;
	return false;
}

static void line_put_quoted(struct line *l, const char *s)
{
	line_put(l, "\"", 1);
	for (; *s; s++) {
		char esc[8];

		if (*s == '"' || *s == '\\')
			snprintf(esc, sizeof(esc), "\\%c", *s);
		else if (*s == '\n')
			snprintf(esc, sizeof(esc), "\\n");
		else if ((unsigned char)*s < ' ')
			snprintf(esc, sizeof(esc), "\\u%04x", (unsigned char)*s);
		else
			snprintf(esc, sizeof(esc), "%c", *s);
		line_put(l, esc, strlen(esc));
	}
	line_put(l, "\"", 1);
}

static void line_pair(struct line *l, const char *key, const char *value)
{
	if (format == LOG_JSON) {
		line_put(l, l->len ? "," : "{", 1);
		line_put_quoted(l, key);
		line_put(l, ":", 1);
		line_put_quoted(l, value);
		return;
	}
	if (l->len)
		line_put(l, " ", 1);
	line_put(l, key, strlen(key));
	line_put(l, "=", 1);
	if (needs_quotes(value))
		line_put_quoted(l, value);
	else
		line_put(l, value, strlen(value));
}

static void write_line(enum log_level level, const char *msg, va_list *pairs)
{
	struct line l = {.len = 0};
	struct timespec ts;
	struct tm tm;
	char when[64], ms[48];
	const char *key;

	/* Log lines carry wall time read directly: they must work where no struct clock exists yet.
	 */
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ms, sizeof(ms), ".%03ldZ", ts.tv_nsec / 1000000);
	strncat(when, ms, sizeof(when) - strlen(when) - 1);
	line_pair(&l, "ts", when);
	line_pair(&l, "level", level_names[level]);
	if (component)
		line_pair(&l, "component", component);
	line_pair(&l, "msg", msg);
	while (pairs && (key = va_arg(*pairs, const char *)) != NULL) {
		const char *value = va_arg(*pairs, const char *);

		line_pair(&l, key, value ? value : "");
	}
	if (format == LOG_JSON)
		l.buf[l.len++] = '}';
	l.buf[l.len++] = '\n';
	if (write(STDERR_FILENO, l.buf, l.len) < 0)
		return; /* nowhere left to say it */
}

void log_write(enum log_level level, const char *msg, ...)
{
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, msg);
	write_line(level, msg, &ap);
	va_end(ap);
}

void log_printf(enum log_level level, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	write_line(level, msg, NULL);
}

bool log_rate_allows(struct log_rate *rate, uint32_t *ret_suppressed)
{
	struct timespec ts;
	int64_t now_ms, next;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now_ms = ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
	next = rate->next_ms;
	*ret_suppressed = 0;
	if (now_ms < next ||
		!atomic_compare_exchange_strong(&rate->next_ms, &next, now_ms + 10000)) {
		rate->suppressed++;
		return false;
	}
	*ret_suppressed = atomic_exchange(&rate->suppressed, 0);
	return true;
}
