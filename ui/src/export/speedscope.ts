// SPDX-License-Identifier: Apache-2.0
//
// speedscope's file format (https://www.speedscope.app/file-format-schema.json), as lib/render/speedscope.c writes it. Sides of a
// difference are two profiles over the same frames.
import type { Tree } from '../flame/tree';
import { Shown, Written, frameName, titleOf, without } from './format';

const UNITS = ['nanoseconds', 'microseconds', 'milliseconds', 'seconds', 'bytes'];

/** The line of each function that has one alone; a frame there is a function. */
function linesOf(t: Tree): { lines: Map<number, number>; hasOthers: boolean } {
	const lines = new Map<number, number>(), several = new Set<number>();
	for (let i = 1; i < t.n && t.line.length; i++) if (t.line[i]) {
		if ((lines.get(t.fn[i]) ?? t.line[i]) !== t.line[i]) several.add(t.fn[i]);
		lines.set(t.fn[i], t.line[i]);
	}
	for (const f of several) lines.delete(f);
	return { lines, hasOthers: several.size > 0 };
}

function profile(t: Tree, name: string, self: Float64Array, total: number, frame: Uint32Array) {
	const samples: number[][] = [], weights: number[] = [];
	for (let i = 0; i < t.n; i++) if (self[i]) {
		const stack: number[] = [];
		for (let k = i; k; k = t.parent[k]) stack.push(frame[k]);
		samples.push(stack.reverse());
		weights.push(self[i]);
	}
	return { type: 'sampled', name, unit: UNITS.includes(t.unit) ? t.unit : 'none', startValue: 0, endValue: total, samples, weights };
}

export function speedscope(shown: Shown): Written {
	const { whole: t, names } = shown, { lines, hasOthers } = linesOf(t), numbers = new Map<number, number>(), frame = new Uint32Array(t.n), frames: object[] = [];
	for (let i = 1; i < t.n; i++) {
		const f = t.fn[i], isCut = t.cut.has(i), old = isCut ? undefined : numbers.get(f);
		if (old !== undefined) {
			frame[i] = old;
			continue;
		}
		const file = t.functions.file[f] || t.functions.mapping[f];
		frame[i] = frames.push({ name: frameName(t, i) || '(unknown)', ...(file && { file }), ...(lines.has(f) && { line: lines.get(f) }) }) - 1;
		if (!isCut) numbers.set(f, frame[i]);
	}
	const profiles = t.sides ? [profile(t, names[0], t.sides.selfA, t.sides.totalA[0], frame), profile(t, names[1], t.sides.selfB, t.sides.totalB[0], frame)] : [profile(t, t.type || 'samples', t.self, t.total[0], frame)];
	const top = { $schema: 'https://www.speedscope.app/file-format-schema.json', name: titleOf(shown), exporter: 'sonde', activeProfileIndex: 0, shared: { frames }, profiles };
	const left = [...(hasOthers ? ['lines of functions that have several'] : []), ...(t.functions.file.some((file, f) => file && t.functions.mapping[f]) ? without(t, 'binary') : []), ...without(t, 'build', 'kind', ...(t.sides ? ['type' as const] : [])), ...(UNITS.includes(t.unit) ? [] : without(t, 'unit'))];
	return { parts: [`${JSON.stringify(top)}\n`], left };
}
