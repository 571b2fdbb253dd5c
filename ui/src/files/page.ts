// SPDX-License-Identifier: Apache-2.0
//
// The pages that Sonde writes (lib/render/page.c): a flame graph, or a difference, whose sides can be chosen.
import { decode } from '../flame/decode';
import { build, sideOf } from '../flame/tree';
import type { Profile } from './profile';

export function isPage(head: string): boolean {
	return /^\s*<!doctype html/i.test(head);
}

export function readPage(html: string): Profile {
	const found = /<script type="text\/plain" id="tree">([A-Za-z0-9+/=\s]*)<\/script>/.exec(html);
	if (!found) throw new Error('this page has no profile: of HTML only the pages that Sonde writes are read');
	const raw = decode(Uint8Array.from(atob(found[1]), (c) => c.charCodeAt(0))), { type, unit } = raw;
	if (!raw.sides) return { format: 'page of Sonde', types: [{ type, unit }], main: 0, notes: [], tree: () => build(raw) };
	return { format: 'page of a difference', types: ['A', 'B'].map((side) => ({ type: `${type}, side ${side}`, unit })), main: 1, notes: [], tree: (side) => sideOf(raw, side ? 'b' : 'a', 1) };
}
