// SPDX-License-Identifier: Apache-2.0
//
// Lines over time that stand for the values of labels: what they are called, which selector they are, what is not among them.
import type { Line } from '../api';

/** Values of the labels that lines are grouped by; what lacks a label is said to. */
export function lineLabel(l: Line, groups: string[]): string {
	return groups.map((name) => l.metric[name] || `without ${name}`).join(', ') || 'all series';
}

/** Groups that are the same in all lines say nothing in a legend. */
export function tellingGroups(lines: Line[], groups: string[]): string[] {
	const telling = groups.filter((name) => lines.some((l) => (l.metric[name] ?? '') !== (lines[0].metric[name] ?? '')));
	return telling.length ? telling : groups;
}

/** All of a group's labels, so that they can be matchers: those that it lacks are empty. */
export const groupOf = (l: Line, groups: string[]) => Object.fromEntries(groups.map((name) => [name, l.metric[name] ?? '']));
/** Of a line in the address. */
export const idOf = (l: Line, groups: string[]) => Object.entries(groupOf(l, groups)).map(([name, v]) => `${name}=${v}`).join(', ') || 'all series';

/** What a limit left out of the lines, from the sums of all. */
export function othersOf(lines: Line[], all: Line): [number, number][] {
	const left = new Map(all.values.map(([t, v]) => [t, Number(v)]));
	for (const l of lines) for (const [t, v] of l.values) left.set(t, (left.get(t) ?? 0) - Number(v));
	return [...left].map(([t, v]): [number, number] => [t, Math.max(v, 0)]);
}
