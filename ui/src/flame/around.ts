// SPDX-License-Identifier: Apache-2.0
//
// The lines around a flame graph: the way from the root to what is zoomed into, what the colours mean, how large the answer is.
import { Child, h } from '../dom';
import { shownName } from '../names';
import { integer, percent, value } from '../units';
import type { FlameAddress } from './address';
import type { FlameAnswer } from './answer';
import type { Palette } from './colours';
import { Tree, follow } from './tree';

const FIRST = 2, LAST = 5, MOST = 8; // names of a long way: those between are left out

/** `path` is what there is of it in the tree that is shown. */
export function crumbs(path: string[], shown: Tree, answer: FlameAnswer, address: FlameAddress): Child[] {
	const base = answer.base!.tree, go = (n: number) => address.set({ at: path.slice(0, n) }), { node, found } = follow(base, path);
	const here = node && found === path.length ? base.total[node] : shown.total[follow(shown, path).node];
	const steps = path.map((name, i) => ({ name, i })), seen = path.length > MOST ? [...steps.slice(0, FIRST), null, ...steps.slice(-LAST)] : steps;
	return [h('button', { type: 'button', class: 'crumb', onclick: () => go(0), title: 'The whole graph (0)' }, 'all'),
		seen.map((c) => (c === null ? h('span', { class: 'crumb-gap' }, '…') : h('button', { type: 'button', class: 'crumb', title: c.name, onclick: () => go(c.i + 1), 'aria-current': c.i === path.length - 1 ? 'location' : undefined }, shownName(c.name)))),
		h('span', { class: 'muted num' }, `${answer.text(here)} · ${percent(here / base.whole)}`)];
}

export function legend(p: Palette, whole: number, isDiff: boolean): Child[] {
	return [p.legend.map(([text, colour, self, mark]) => h('span', { class: 'legend-key', title: text }, h('span', { class: 'swatch', style: { background: colour } }, mark), text && h('span', { class: 'legend-text' }, text), self ? h('span', { class: 'muted num' }, percent(self / whole)) : null)),
		isDiff ? null : h('span', { class: 'muted' }, 'by self')];
}

export function facts(answer: FlameAnswer): Child[] {
	const { tree, decodeMs, stats } = answer.base!, { text, local, summary } = answer.source!, read = new Map(stats.split(' ').map((kv) => kv.split('=') as [string, string]));
	const n = Number(read.get('profiles')), how = read.get('source') === 'run' ? `${integer(n)} ${n === 1 ? 'profile' : 'profiles'} read` : 'an answer that the scraper had';
	const work = read.size > 1 ? ` · ${how} in ${value(Number(read.get('seconds')), 'seconds')}, decoded in ${value(decodeMs, 'milliseconds')}` : '';
	let hidden = 0;
	for (const frames of tree.cut.values()) hidden += frames;
	return [`${text ? '' : `${value(tree.whole, tree.unit)} · `}${integer(tree.n)} frames`, hidden ? `, ${integer(hidden)} narrow ones ${local ? 'were left out' : 'are loaded when you zoom in'}` : '',
		work, summary ? ` · ${summary}` : ''];
}
