// SPDX-License-Identifier: Apache-2.0
//
// A tree as the scraper answers with it: the arrays of /api/v1/flamegraph and /api/v1/diff in JSON (lib/render/json.c, lib/render/diff.c),
// and of proto/flamegraph.proto. Nodes are in preorder.
import { MARKS, markOf, rowsOf } from '../flame/diff_rows';
import { Tree, preorderOf } from '../flame/tree';
import { Shown, Written, Whole } from './format';
import { Writer } from './protobuf';

function preorder(t: Tree) {
	const order = preorderOf(t.parent), number = new Uint32Array(t.n), pick = (from: ArrayLike<number>) => Array.from(order, (i) => from[i] ?? 0);
	order.forEach((old, k) => (number[old] = k));
	return { pick, parent: Array.from(order, (i) => number[t.parent[i]]), cut: [...t.cut].map(([node, n]): [number, number] => [number[node], n]) };
}

function buildsOf({ name, builds }: Tree['functions']): { build: number[]; builds: string[] } {
	const sets = ['', ...new Set((builds ?? []).filter(Boolean))], numbers = new Map(sets.map((s, i) => [s, i]));
	return { build: name.map((_, f) => numbers.get(builds?.[f] ?? '')!), builds: sets };
}

/** Rows with what changed, the largest change first. */
function diffRows({ whole: t, scale }: Shown) {
	const rows = rowsOf(t, scale).map((r) => ({ ...r, delta_self: r.self_b * scale[1] - r.self_a * scale[0], delta_total: r.total_b * scale[1] - r.total_a * scale[0] }));
	return rows.sort((a, b) => Math.abs(b.delta_self) - Math.abs(a.delta_self) || Math.abs(b.delta_total) - Math.abs(a.delta_total));
}

export function json(shown: Shown): Written {
	const { whole: t, trees, names, scale, isRelative } = shown, s = t.sides, { pick, parent, cut } = preorder(t), { name, file, mapping } = t.functions;
	const of = { type: t.type, unit: t.unit }, functions = { name, file, mapping, ...buildsOf(t.functions) }, shape = { function: pick(t.fn), kind: pick(t.kind), cut: Object.fromEntries(cut), kinds: t.kinds };
	const side = (k: number) => ({ label: names[k], total: trees[k].total[0], scale: scale[k] });
	const data = s ? {
		mode: isRelative ? 'relative' : 'absolute', a: side(0), b: side(1), ...of, functions, parent, self_a: pick(s.selfA), self_b: pick(s.selfB), total_a: pick(s.totalA), total_b: pick(s.totalB), ...shape,
		mark: pick(t.fn.map((_, i) => markOf(s.totalA[i], s.totalB[i], scale))), marks: MARKS, rows: diffRows(shown),
	} : {
		label: names[0], ...of, total: t.total[0], ...(t.whole !== t.total[0] && { magnitude: t.whole }), functions, parent, line: pick(t.line), self: pick(t.self), total_by_node: pick(t.total), ...shape,
	};
	return { parts: [`${JSON.stringify({ status: 'success', data })}\n`], left: [] };
}

export function protobuf({ whole: t, scale }: Shown, { factor, unit }: Whole): Uint8Array {
	const w = new Writer(), { pick, parent, cut } = preorder(t), { name, file, mapping } = t.functions, { build, builds } = buildsOf(t.functions), s = t.sides;
	const whole = (from: ArrayLike<number>) => pick(from).map((v) => Math.round(v * factor)), texts = (field: number, list: string[]) => list.forEach((text) => w.text(field, text));
	// Totals of rounded values are sums of rounded values.
	const sums = (self: number[]) => {
		const total = self.slice();
		for (let i = total.length - 1; i > 0; i--) total[parent[i]] += total[i];
		return total;
	};
	const selfs = s && [whole(s.selfA), whole(s.selfB)], self = selfs ? selfs[0].map((v, i) => Math.abs(v) + Math.abs(selfs[1][i])) : whole(t.self), totals = selfs?.map(sums);
	w.text(1, t.type).text(2, unit).int(3, self.reduce((sum, v) => sum + Math.abs(v), 0));
	texts(4, name);
	texts(5, file);
	texts(6, mapping);
	w.packed(7, pick(t.fn)).packed(8, pick(t.line)).packed(9, parent).packed(10, self).packed(11, sums(self)).packed(12, pick(t.kind)).packed(13, cut.map(([node]) => node)).packed(14, cut.map(([, n]) => n));
	texts(15, t.kinds);
	if (selfs && totals) {
		w.packed(16, selfs[0]).packed(17, selfs[1]).packed(18, totals[0]).packed(19, totals[1]).packed(20, totals[0].map((a, i) => markOf(a, totals[1][i], scale)));
		texts(21, MARKS);
	}
	texts(27, builds);
	return w.packed(28, build).take();
}
