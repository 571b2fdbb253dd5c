// SPDX-License-Identifier: Apache-2.0
//
// Which functions a search matches, and how much of the whole lies in or below them.
import { escapeRegexp } from '../selector';
import { shownName } from '../names';
import type { Tree } from './tree';

export interface Found {
	matched: Uint8Array; // per function
	count: number; // of nodes
	nodes: () => Uint32Array; // widest first
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

/** As it is, or as it is shown. */
export const nameMatches = (re: RegExp, name: string) => re.test(name) || re.test(shownName(name));

export function search(t: Tree, text: string): Found {
	const { re, isLiteral } = expression(text), matched = new Uint8Array(t.functions.name.length), below = new Uint8Array(t.n);
	for (let f = 0; f < matched.length; f++) matched[f] = nameMatches(re, t.functions.name[f]) ? 1 : 0;
	const { n, fn, parent, cut } = t, hits = new Uint32Array(n);
	let total = 0, count = 0, nodes: Uint32Array | undefined;
	for (let i = 1; i < n; i++) {
		const above = below[parent[i]], hit = matched[fn[i]];
		if (hit && !(cut.size && cut.has(i))) {
			hits[count++] = i;
			if (!above) total += t.total[i];
			below[i] = 1;
		} else below[i] = above;
	}
	// Sorted when someone goes from one to the next.
	return { matched, count, nodes: () => (nodes ??= hits.slice(0, count).sort((a, b) => t.weight[b] - t.weight[a] || a - b)), total, isLiteral };
}
