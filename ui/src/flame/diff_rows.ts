// SPDX-License-Identifier: Apache-2.0
//
// Functions before and after, as the scraper tells them or as a tree of both has them.
import { GROUP, Tree, nodesBelow } from './tree';

export interface DiffRow {
	function: string;
	file?: string;
	mapping: string;
	build?: string; // of a row that is of one build
	kind: string;
	self_a: number;
	self_b: number;
	total_a: number;
	total_b: number;
	delta_self: number;
	delta_total: number;
	mark: string;
	// With replicates.
	self_q?: number | null;
	self_verdict?: string;
	self_effect_low?: number | null;
	self_effect_high?: number | null;
	self_min_effect?: number | null;
	total_q?: number | null;
	total_verdict?: string;
	total_effect_low?: number | null;
	total_effect_high?: number | null;
	total_min_effect?: number | null;
}

export const MARKS = ['same', 'changed', 'new', 'gone'];
const EQUAL = 1e-9; // of the larger: lib/tree/diff.c

/** Which of the marks two totals have, each multiplied with its side's scale. */
export function markOf(a: number, b: number, scale: [number, number]): number {
	const [x, y] = [a * scale[0], b * scale[1]];
	if (!a !== !b) return a ? 3 : 2;
	return Math.abs(x - y) > EQUAL * Math.max(Math.abs(x), Math.abs(y)) ? 1 : 0;
}

/** The rows of a difference that was made here, or of what lies below a node of one. */
export function rowsOf(t: Tree, scale: [number, number], node = 0): DiffRow[] {
	const s = t.sides!, rows = new Map<number, DiffRow>();
	for (const i of nodesBelow(t, node)) {
		if (!i || t.cut.has(i) || t.kinds[t.kind[i]] === GROUP) continue;
		const f = t.fn[i];
		let row = rows.get(f), isOutermost = true;
		if (!row) rows.set(f, (row = { function: t.functions.name[f], file: t.functions.file[f], mapping: t.functions.mapping[f], kind: '', self_a: 0, self_b: 0, total_a: 0, total_b: 0, delta_self: 0, delta_total: 0, mark: '' }));
		for (let k = i; k !== node && isOutermost; ) isOutermost = t.fn[(k = t.parent[k])] !== f;
		row.self_a += s.selfA[i];
		row.self_b += s.selfB[i];
		if (isOutermost) {
			row.total_a += s.totalA[i];
			row.total_b += s.totalB[i];
		}
	}
	for (const r of rows.values()) r.mark = MARKS[markOf(r.total_a, r.total_b, scale)];
	return [...rows.values()];
}
