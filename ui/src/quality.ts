// SPDX-License-Identifier: Apache-2.0
//
// How good the samples behind a number are, as a badge beside it: their rate, and which shares were lost or cut.
import { h } from './dom';
import { digits, percent } from './units';

export interface Quality {
	n_targets?: number;
	n_exporters?: number;
	cut?: number; // shares; absent: not known
	lost?: number;
	frequency_hz?: { least: number; most: number };
}

const MUCH = 0.05; // of the samples, from which on a share stands out; sonde diff gives up there (--max-lost)

export function qualityTexts(q: Quality): { text: string; isMuch: boolean }[] {
	const parts: { text: string; isMuch: boolean }[] = [], hz = q.frequency_hz;
	if (hz) parts.push({ text: `${hz.least === hz.most ? '' : `${digits(hz.least)} to `}${digits(hz.most)}\u202fHz`, isMuch: false });
	if (q.lost !== undefined) parts.push({ text: `${percent(q.lost)} lost`, isMuch: q.lost > MUCH });
	if (q.cut !== undefined) parts.push({ text: `${percent(q.cut)} cut`, isMuch: q.cut > MUCH });
	return parts;
}

/** Undefined where nothing is known. */
export function qualityBadge(q: Quality): HTMLElement | undefined {
	const parts = qualityTexts(q);
	return parts.length ? h('span', { class: 'badge quality num', title: 'Rate of sampling, lost samples, cut stacks' }, parts.map((p, i) => [i ? ' · ' : '', h('span', { class: p.isMuch ? 'is-much' : '' }, p.text)])) : undefined;
}
