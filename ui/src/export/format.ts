// SPDX-License-Identifier: Apache-2.0
//
// What is saved of files, and what writers say of it that their formats cannot hold.
import type { Tree } from '../flame/tree';
import { counted } from '../files/profile';

/** One tree, or the sides of a difference and both together. */
export interface Shown {
	trees: Tree[];
	whole: Tree; // of two: with sides
	names: string[]; // of the files
	scale: [number, number]; // of the sides
	isRelative: boolean; // each side as a share of its own total
	time: number; // unix seconds of a single file; 0 where it has none
	seconds: number; // that it covers; 0 where it has none
	subtitle: string;
	isFull: boolean; // names of functions as they are
}
export interface Written {
	parts: BlobPart[];
	left: string[]; // out
}

export function titleOf({ names }: Shown): string {
	return names.length > 1 ? `${names[1]} against ${names[0]}` : names[0];
}

export function frameName(t: Tree, i: number): string {
	const cut = t.cut.get(i);
	return cut === undefined ? t.functions.name[t.fn[i]] : `(${cut} frames cut)`;
}

/** What a format may have no place for: its name, and whether a tree has it. */
const PROPERTIES = {
	file: ['source files', (t: Tree) => t.functions.file.some(Boolean)],
	line: ['lines', (t: Tree) => t.line.some(Boolean)],
	binary: ['binaries', (t: Tree) => t.functions.mapping.some(Boolean)],
	build: ['build ids', (t: Tree) => t.functions.builds?.some(Boolean) ?? false],
	kind: ['kinds of code', (t: Tree) => t.kind.some((k, i) => i > 0 && !t.cut.has(i) && t.kinds[k] !== 'native')],
	type: ['the sample type', (t: Tree) => t.type !== 'samples'],
	unit: ['the unit', (t: Tree) => t.unit !== 'count'],
} as const;
type Property = keyof typeof PROPERTIES;

export function without(t: Tree, ...properties: Property[]): string[] {
	return properties.filter((p) => PROPERTIES[p][1](t)).map((p) => PROPERTIES[p][0]);
}

/* ---- whole numbers ---- */

const FINER: Record<string, [factor: number, unit: string][]> = {
	seconds: [[1e9, 'nanoseconds']], milliseconds: [[1e6, 'nanoseconds']], microseconds: [[1e3, 'nanoseconds']],
	count: [[1e3, 'thousandths'], [1e6, 'millionths'], [1e9, 'billionths']], // as lib/prof/text_folded.c
};
const EXACT = 1e-9; // of a value: what binary fractions are off

export interface Whole {
	factor: number;
	unit: string;
	left: string[];
}

/** The unit in which all values are whole numbers, for formats that have no others. */
export function wholeUnit(trees: Tree[]): Whole {
	const { unit } = trees[0], steps: [number, string][] = [[1, unit], ...(FINER[unit] ?? [])];
	const off = (factor: number) => trees.reduce((n, t) => n + t.self.reduce((k, v) => k + Number(Math.abs(Math.round(v * factor) - v * factor) > EXACT * Math.abs(v * factor)), 0), 0);
	const fits = ([factor]: [number, string]) => trees.every((t) => t.whole * factor <= Number.MAX_SAFE_INTEGER || factor === 1), possible = steps.filter(fits);
	const exact = possible.find(([factor]) => !off(factor)), [factor, name] = exact ?? possible[possible.length - 1], n = exact ? 0 : off(factor);
	return { factor, unit: name, left: n ? [`fractions of ${counted(n, 'value')}`] : [] };
}
