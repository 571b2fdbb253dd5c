/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of machine code, each once.
 */
#include "exporter/interp/v8_reading.h"
#include "lib/base/alloc.h"

int v8_function_add(struct v8_reading *r, uint64_t shared, struct v8_function *ret)
{
	struct v8_code *c = r->code;
	int error;

	if (c->n_functions == V8_MAX_FUNCTIONS)
		return -EFBIG;
	if (alloc_grow(&c->functions, &c->cap_functions, c->n_functions + 1,
		    sizeof(*c->functions)) < 0)
		return -ENOMEM;
	error = v8_function_read(&r->h, r->scripts, shared, ret);
	if (error < 0)
		return error == -ENOENT ? -EAGAIN : error;
	r->shared[c->n_functions] = shared;
	c->functions[c->n_functions] = ret->code;
	ret->code = (struct interp_code) {0};
	return (int)c->n_functions++;
}

int v8_function_of(struct v8_reading *r, uint64_t shared)
{
	_cleanup_v8_function_ struct v8_function f = {0};

	for (size_t i = 0; i < r->code->n_functions; i++)
		if (r->shared[i] == shared)
			return (int)i;
	return v8_function_add(r, shared, &f);
}
