/* SPDX-License-Identifier: Apache-2.0
 *
 * Machine code of a Java VM as readers of names know that of any runtime.
 */
#include "exporter/interp/hotspot_code.h"
#include "lib/base/alloc.h"
#include <errno.h>
#include <string.h>

static size_t text_bytes(const struct interp_code *c)
{
	return strlen(c->name) + strlen(c->file) + (c->raw ? strlen(c->raw) : 0) + c->lines_bytes;
}

static size_t used_bytes(const struct hotspot_code *c)
{
	size_t n = sizeof(*c) + c->n_pcs * sizeof(*c->pcs) + c->scopes_bytes +
		   c->cap_methods * sizeof(*c->methods);

	for (size_t i = 0; i < c->n_methods; i++)
		n += text_bytes(&c->methods[i].code);
	return c->own.name ? n + text_bytes(&c->own) : n;
}

static void done(struct interp_machine *m)
{
	struct hotspot_code *c = m->code;

	if (c)
		hotspot_code_done(c);
	free(c);
	*m = (struct interp_machine) {0};
}

static int read_code(const struct interp_memory *m, const struct runtime_record *r, uint64_t pc,
	uint64_t check, struct interp_machine *ret)
{
	struct hotspot_code *c = try_calloc(1, sizeof(*c));
	const struct hotspot_vm *vm;
	struct hotspot_vm own;
	int error = c ? hotspot_vm_of(m, r, &own, &vm) : -ENOMEM;

	if (error == 0)
		error = hotspot_code_read(m, vm, pc, check, c);
	if (error < 0) {
		free(c);
		return error;
	}
	*ret = (struct interp_machine) {.code = c,
		.start = c->blob,
		.bytes = c->end - c->blob,
		.used_bytes = used_bytes(c)};
	return 0;
}

static int is_still(const struct interp_memory *m, const struct runtime_record *r,
	const struct interp_machine *c)
{
	const struct hotspot_vm *vm;
	struct hotspot_vm own;
	int error = hotspot_vm_of(m, r, &own, &vm);

	return error < 0 ? error : hotspot_code_is_still(m, vm, c->code);
}

static size_t frames_of(const struct interp_machine *m, uint64_t pc, _unused_ bool is_return,
	struct interp_frame *ret, size_t max)
{
	struct hotspot_scope scopes[INTERP_MAX_MACHINE_FRAMES];
	const struct hotspot_code *c = m->code;
	size_t n;

	if (c->stub[0]) {
		ret[0] = (struct interp_frame) {.name = c->stub, .raw = c->stub, .file = ""};
		return 1;
	}
	max = MIN(max, ARRAY_SIZE(scopes));
	n = hotspot_code_scopes(c, pc, scopes, max);
	for (size_t i = 0; i < MIN(n, max); i++) {
		const struct interp_code *f = scopes[i].method;

		ret[i] = (struct interp_frame) {.name = f->name,
			.raw = f->raw ? f->raw : f->name,
			.file = f->file,
			.line = hotspot_line(f, scopes[i].position),
			.first_line = f->first_line};
	}
	return n;
}

static uint64_t method_of(uint64_t check)
{
	return check >> 16;
}

const struct interp_machine_reader hotspot_machine = {.read = read_code,
	.is_still = is_still,
	.frames = frames_of,
	.done = done,
	.function = method_of};
