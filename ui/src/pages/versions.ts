// SPDX-License-Identifier: Apache-2.0
//
// When each version of a program ran, from its values over time: what a version is compared with is what came before it.
import type { Line, Query } from '../api';

export interface Stretch {
	value: string;
	first: number; // unix seconds
	last: number;
}
export interface Pair {
	before: Stretch;
	after: Stretch;
}
type Ask = (query: Query) => Promise<Line[]>;
type Span = [from: number, to: number, isFine: boolean];

const LOOK_BACK_S = 7 * 86400, COARSE_S = 3600, FINE_S = 15;
const MOST_VALUES = '50', MOST_HOURS = 8; // hours that are looked at closely: those in which versions came or went last
const LEAST_GAP_S = 300, GAP_SCRAPES = 3; // a version that another one replaced is away for longer than a few scrapes

const spansOf = (l: Line, step: number, isFine: boolean): Span[] => l.values.filter(([, v]) => Number(v)).map(([t]) => [t - step, t, isFine]);

/** How long a version is silent between two scrapes. */
function silence(spans: Span[]): number {
	const gaps = spans.slice(1).flatMap((s, i) => (s[2] && spans[i][2] ? [s[0] - spans[i][0]] : [])).sort((a, b) => a - b);
	return Math.max(LEAST_GAP_S, GAP_SCRAPES * (gaps[gaps.length >> 1] ?? 0));
}

/** Spans become one where nothing else ran between them: then it was not replaced, there was nothing to see. */
function stretchesOf(value: string, spans: Span[], others: Span[]): Stretch[] {
	const out: Stretch[] = [], most = silence(spans);
	for (const [first, last] of spans) {
		const open = out[out.length - 1];
		if (open && (first - open.last < most || !others.some(([from, to]) => from < first && to > open.last))) open.last = Math.max(open.last, last);
		else out.push({ value, first, last });
	}
	return out;
}

/** The hours in which a version was seen first or last, before or after one without it: the newest. */
function turns(lines: Line[]): number[] {
	const hours = new Set<number>();
	for (const { values } of lines) values.forEach(([t], i) => {
		if (!i || t - values[i - 1][0] > COARSE_S) hours.add(t);
		if (i + 1 === values.length || values[i + 1][0] - t > COARSE_S) hours.add(t);
	});
	return [...hours].sort((a, b) => b - a).slice(0, MOST_HOURS);
}

/** All stretches in which the values of a label ran in the week before `end`, the newest first; to 15 s where they began or ended of late. */
export async function stretches(ask: Ask, label: string, query: string, end: number): Promise<Stretch[]> {
	const group: Query = [['query', query], ['group_by', label], ['limit', MOST_VALUES]], from = Math.floor(end / COARSE_S) * COARSE_S - LOOK_BACK_S, to = Math.ceil(end / COARSE_S) * COARSE_S;
	const range = (start: number, stop: number, step: number): Query => [...group, ['start', String(start)], ['end', String(stop)], ['step', String(step)]];
	const known = (lines: Line[]) => lines.filter((l) => l.metric[label]);
	const coarse = known(await ask(range(from, to, COARSE_S))), hours = turns(coarse), close = new Set(hours);
	const fine = await Promise.all(hours.map((t) => ask(range(t - COARSE_S, t, FINE_S))));
	const spans = new Map<string, Span[]>(), add = (lines: Line[], step: number, isFine: boolean, skip?: Set<number>) => {
		for (const l of known(lines)) spans.set(l.metric[label], [...(spans.get(l.metric[label]) ?? []), ...spansOf(l, step, isFine).filter(([, t]) => !skip?.has(t))]);
	};
	add(coarse, COARSE_S, false, close);
	for (const lines of fine) add(lines, FINE_S, true);
	for (const list of spans.values()) list.sort((a, b) => a[0] - b[0]);
	return [...spans].flatMap(([value, own]) => stretchesOf(value, own, [...spans].flatMap(([v, list]) => (v === value ? [] : list)))).map((s) => ({ ...s, last: Math.min(s.last, end) })).sort((a, b) => b.first - a.first);
}

/** Each stretch with that of another version that began before it, the newest first. Of what began at once nothing is known. */
export function pairs(newestFirst: Stretch[], most: number): Pair[] {
	return newestFirst.flatMap((after, i) => {
		const before = newestFirst.slice(i + 1).find((s) => s.value !== after.value && after.first - s.first > FINE_S);
		return before ? [{ before, after }] : [];
	}).slice(0, most);
}

/** The last stretch of at most `length` seconds of each side's own time. */
export function ranges({ before, after }: Pair, length: number): Record<'start_a' | 'end_a' | 'start_b' | 'end_b', string> {
	const of = (s: Stretch) => [Math.floor(Math.max(s.last - length, s.first)), Math.ceil(s.last)].map(String), [start_a, end_a] = of(before), [start_b, end_b] = of(after);
	return { start_a, end_a, start_b, end_b };
}
