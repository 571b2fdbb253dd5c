/* SPDX-License-Identifier: Apache-2.0
 *
 * How the stacks of each process ended.
 */
#include "exporter/proc/table.h"

void proc_count_stack(struct process *p, enum abi_cut cut)
{
	if (cut == ABI_CUT_NONE) {
		p->stacks_whole++;
		return;
	}
	p->stacks_cut++;
	p->last_cut = (uint8_t)cut;
}

static bool comes_before(const struct process *p, const struct proc_stacks *than)
{
	if (p->stacks_cut != than->cut)
		return p->stacks_cut > than->cut;
	return p->stacks_whole > than->whole;
}

size_t proc_top_stacks(const struct proc_table *t, struct proc_stacks *ret, size_t max)
{
	size_t n = 0;

	assert_table_held(t);
	for (const struct process *p = t->all; p; p = p->next) {
		size_t at = n;

		if (!(p->stacks_whole || p->stacks_cut) ||
			(n == max && !comes_before(p, &ret[n - 1])))
			continue;
		at = n < max ? n++ : max - 1;
		for (; at && comes_before(p, &ret[at - 1]); at--)
			ret[at] = ret[at - 1];
		ret[at] = (struct proc_stacks) {
			.pid = p->pid,
			.comm = p->comm,
			.executable = proc_text_str(p->executable),
			.exited = p->exited,
			.whole = p->stacks_whole,
			.cut = p->stacks_cut,
			.last_cut = p->last_cut,
		};
	}
	return n;
}
