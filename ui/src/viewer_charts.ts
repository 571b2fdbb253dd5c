// SPDX-License-Identifier: Apache-2.0
//
// One chart for each thing that was measured of runs: both sides in it, a dot a run in the order they ran, the median as a line, from the
// least to the most as a band.
import { h } from './dom';
import { percent, signedPercent, value } from './units';

export interface Metric {
	name: string;
	unit: string;
	a: number[];
	b: number[];
	p: number | null; // Mann-Whitney's
}

const NS = 'http://www.w3.org/2000/svg';
const WIDTH = 300, HEIGHT = 110, PAD = 8;

export function svg(tag: string, attributes: Record<string, string | number>, ...children: Element[]): Element {
	const el = document.createElementNS(NS, tag);
	for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, String(v));
	el.append(...children);
	return el;
}

export function median(list: number[]): number {
	const sorted = [...list].sort((x, y) => x - y), half = sorted.length >> 1;
	return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

function side(letter: string, list: number[], label: string, m: Metric, { most, runs }: { most: number; runs: number }): Element[] {
	const x = (i: number) => PAD + (runs > 1 ? (i / (runs - 1)) * (WIDTH - 2 * PAD) : (WIDTH - 2 * PAD) / 2), y = (v: number) => HEIGHT - PAD - (v / most) * (HEIGHT - 2 * PAD);
	const low = Math.min(...list), high = Math.max(...list), mid = y(median(list));
	return [
		svg('rect', { class: 'band', x: PAD, width: WIDTH - 2 * PAD, y: y(high), height: Math.max(y(low) - y(high), 1) }),
		svg('line', { class: 'median', x1: PAD, x2: WIDTH - PAD, y1: mid, y2: mid }),
		svg('polyline', { points: list.map((v, i) => `${x(i)},${y(v)}`).join(' ') }),
		...list.map((v, i) => {
			const title = svg('title', {});
			title.textContent = `${label}, run ${i + 1}: ${value(v, m.unit)}`;
			return svg('circle', { cx: x(i), cy: y(v), r: 3 }, title);
		}),
	].map((el) => {
		el.classList.add(`chart-${letter}`);
		return el;
	});
}

export function chartKey(letter: string, label: string, text: string): HTMLElement {
	return h('span', { class: 'chart-key' }, h('span', { class: `file-letter ${letter}` }, letter.toUpperCase()), letter.toUpperCase() === label ? ' ' : ` ${label} `, h('span', { class: 'num' }, text));
}

const ALPHA = 0.05; // as the summary of a page has it

/** How much the median changed, in colour where the runs support it. */
export function changeOf(m: Metric): { text: string; kind: 'more' | 'less' | 'muted'; note: string } {
	const [a, b] = [median(m.a), median(m.b)], isSure = m.p !== null && m.p <= ALPHA;
	return { text: a ? signedPercent(b / a - 1) : b ? 'new' : percent(0), kind: isSure && b > a ? 'more' : isSure && b < a ? 'less' : 'muted',
		note: m.p === null ? '' : `${isSure ? '' : 'not significant, '}p ${m.p < 0.001 ? '< 0.001' : `= ${m.p.toFixed(3)}`}` };
}

/** Do so many runs a side suffice for "all of one side lie above all of the other" to be no accident? */
export function canSeparate(n: number, m: number): boolean {
	let arrangements = 1;
	for (let i = 1; i <= n; i++) arrangements *= (m + i) / i;
	return 2 / arrangements <= ALPHA;
}

function chart(m: Metric, labels: [string, string]): HTMLElement {
	const most = Math.max(...m.a, ...m.b) || 1, runs = Math.max(m.a.length, m.b.length), [a, b] = [median(m.a), median(m.b)];
	const name = m.name.replace(/_/g, ' '), change = changeOf(m);
	const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `${name}: median of ${labels[0]} ${value(a, m.unit)}, of ${labels[1]} ${value(b, m.unit)}` },
		svg('line', { class: 'axis', x1: PAD, x2: WIDTH - PAD, y1: HEIGHT - PAD, y2: HEIGHT - PAD }), ...side('a', m.a, labels[0], m, { most, runs }), ...side('b', m.b, labels[1], m, { most, runs }));
	return h('figure', { class: 'chart' }, h('figcaption', {}, h('strong', {}, name), h('span', { class: `num ${change.kind}`, title: change.note }, change.text)), picture, h('div', { class: 'muted' }, chartKey('a', labels[0], value(a, m.unit)), chartKey('b', labels[1], value(b, m.unit)), change.note && h('span', { class: 'num' }, change.note)));
}

export function charts(metrics: Metric[], labels: [string, string]): HTMLElement {
	const measured = metrics.filter((m) => [...m.a, ...m.b].some((v) => v > 0));
	return h('div', { class: 'charts' }, measured.map((m) => chart(m, labels)), h('p', { class: 'facts' }, 'A dot is a run, in the order they ran; lines are medians, bands reach from the least to the most. A change is grey where the Mann-Whitney test of the runs does not support it (p > 0.05). Axes begin at 0.'));
}
