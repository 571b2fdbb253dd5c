// SPDX-License-Identifier: Apache-2.0
//
// Which functions a search matches, and how much of the whole lies in or below them.
import { escapeRegexp } from '../selector';
import type { Tree } from './tree';

export interface Found {
	matched: Uint8Array; // per function
	nodes: number[]; // widest first
	total: number; // of the outermost matches
	isLiteral: boolean; // the text is no regular expression: searched as it stands
}

export function expression(text: string): { re: RegExp; isLiteral: boolean } {
	const flags = /[A-Z]/.test(text.replace(/\\./g, '')) ? '' : 'i';
	try {
		return { re: new RegExp(text, flags), isLiteral: false };
	} catch {
		return { re: new RegExp(escapeRegexp(text), flags), isLiteral: true };
	}
}

export function search(t: Tree, text: string): Found {
	const { re, isLiteral } = expression(text), matched = new Uint8Array(t.functions.name.length), below = new Uint8Array(t.n);
	for (let f = 0; f < matched.length; f++) matched[f] = re.test(t.functions.name[f]) ? 1 : 0;
	let total = 0;
	const nodes: number[] = [];
	for (let i = 1; i < t.n; i++) {
		const hit = matched[t.fn[i]] && !t.cut.has(i) ? 1 : 0;
		if (hit) nodes.push(i);
		if (hit && !below[t.parent[i]]) total += t.total[i];
		below[i] = hit | below[t.parent[i]];
	}
	nodes.sort((a, b) => t.total[b] - t.total[a]);
	return { matched, nodes, total, isLiteral };
}
