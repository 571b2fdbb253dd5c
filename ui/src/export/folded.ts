// SPDX-License-Identifier: Apache-2.0
//
// Folded stacks, as lib/render/text.c and lib/render/diff.c write them: of a difference with two numbers.
import { Builder, KINDS, Tree } from '../flame/tree';
import { Names, counted } from '../files/profile';
import { Shown, Written, frameName, without } from './format';

const NO_STACK = '[no stack]', NO_NAME = '[no name]';
/** As readers understand them (files/folded.ts). */
const SUFFIXES: Record<string, string> = { kernel: '_[k]', jit: '_[j]', inlined: '_[i]' };
const HELD = ['native', ...Object.keys(SUFFIXES)];

/** A line of which no reader takes a part for anything else; they leave empty frames out. */
function line(path: string, values: string): string {
	return `${/^[# ]/.test(path) ? ';' : ''}${path}${/ [0-9.eE+-]+$/.test(path) ? ';' : ''} ${values}\n`;
}

export function folded({ whole: t }: Shown): Written {
	const names = new Names(), text = new Uint32Array(t.n), selfs: [number[], number[]] = [[], []], columns = t.sides ? [t.sides.selfA, t.sides.selfB] : [t.self];
	const known = new Map<number, number>(), changed = new Set<string>(); // known: by function and kind
	for (let i = 1; i < t.n; i++) {
		const key = t.fn[i] * KINDS + t.kind[i], old = t.cut.has(i) ? undefined : known.get(key);
		if (old !== undefined) {
			text[i] = old;
			continue;
		}
		const name = frameName(t, i) || NO_NAME, plain = name.replace(/;/g, ':').replace(/[\0-\x1f\x7f]/g, ' ');
		if (plain !== name) changed.add(name);
		text[i] = names.number(plain + (t.cut.has(i) ? '' : SUFFIXES[t.kinds[t.kind[i]]] ?? ''));
		if (!t.cut.has(i)) known.set(key, text[i]);
	}
	// Functions of one name in two files are one.
	const builder = new Builder(names.functions), node = new Uint32Array(t.n), paths = [''], lines: string[] = [];
	for (let i = 0; i < t.n; i++) {
		if (i) {
			const above = paths[node[t.parent[i]]], k = (node[i] = builder.at(node[t.parent[i]], text[i], 0));
			paths[k] ??= `${above}${above && ';'}${names.functions.name[text[i]]}`;
		}
		columns.forEach((of, side) => (selfs[side][node[i]] = (selfs[side][node[i]] ?? 0) + of[i]));
	}
	for (let k = 0; k < builder.size; k++) if (selfs[0][k] || selfs[1][k]) lines.push(line(k ? paths[k] : NO_STACK, columns.map((_, side) => String(selfs[side][k])).join(' ')));
	return { parts: lines, left: [...without(t, 'file', 'line', 'binary', 'build', 'type', 'unit'), ...(otherKinds(t) ? without(t, 'kind') : []), ...(changed.size ? [`semicolons and control characters in ${counted(changed.size, 'name')}`] : [])] };
}

function otherKinds(t: Tree): boolean {
	return t.kind.some((k, i) => i > 0 && !t.cut.has(i) && !HELD.includes(t.kinds[k]));
}
