// SPDX-License-Identifier: Apache-2.0
//
// What the tooltip says of a frame of a difference.
import { h } from '../dom';
import { signedPercent } from '../units';
import { nodeName } from './draw';
import { moduleOf, tipRow } from './describe';
import type { Tree } from './tree';

export interface DiffText {
	scale: [number, number];
	text: (v: number) => string; // of scaled values
	labels?: [string, string];
	n?: [number, number]; // runs a side
}

export const VERDICTS: Record<string, string> = { '~': 'not significant', few: 'too few samples', moved: 'moved among its siblings' };

/** They say nothing of a direction: what has one of these is grey wherever it stands. */
export const INSIGNIFICANT = ['~', 'few'];

export function qText(q: number): string {
	return q < 0.001 ? 'q < 0.001' : `q = ${q.toFixed(3)}`;
}

/** What stands above a panel: its name, both sides, how much changed. */
export function panelTitle(t: Tree, i: number, o: DiffText): Node[] {
	const s = t.sides!, a = s.totalA[i] * o.scale[0], b = s.totalB[i] * o.scale[1], [labelA, labelB] = o.labels ?? ['A', 'B'];
	return [h('strong', { class: 'mono' }, nodeName(t, i)), h('span', { class: 'muted num' }, `${labelA} ${o.text(a)}, ${labelB} ${o.text(b)}`),
		h('span', { class: `num ${VERDICTS[t.verdicts[s.verdict[i]]] ? 'muted' : b > a ? 'more' : b < a ? 'less' : 'muted'}` }, a ? (b ? signedPercent(b / a - 1) : 'gone') : 'new')];
}

export function describeDiff(t: Tree, i: number, o: DiffText): Node[] {
	const s = t.sides!, [scaleA, scaleB] = o.scale, labels = o.labels ?? ['A', 'B'];
	const error = (se: number) => (se > 0 ? ` ± ${o.text(se)}` : '');
	const row = (label: string, a: number, b: number, errors = ['', '']) => tipRow(label, `${o.text(a * scaleA)}${errors[0]}`, `${o.text(b * scaleB)}${errors[1]}`, a ? signedPercent((b * scaleB) / (a * scaleA) - 1) : b ? 'new' : '–');
	const said = [VERDICTS[t.verdicts[s.verdict[i]]], s.q[i] >= 0 ? qText(s.q[i]) : ''].filter(Boolean);
	return [h('strong', { class: 'mono' }, nodeName(t, i)), h('div', { class: 'muted path' }, moduleOf(t.functions, t.fn[i])),
		h('table', {}, h('tr', {}, h('th', {}), [...labels.map((l, k) => (o.n ? `${l} (n = ${o.n[k]})` : l)), 'change'].map((c) => h('td', { class: 'muted' }, c))),
			row('total', s.totalA[i], s.totalB[i], [error(s.seA[i]), error(s.seB[i])]), row('self', s.selfA[i], s.selfB[i])),
		h('div', { class: 'muted' }, said.join(', '))];
}
