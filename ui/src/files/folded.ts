// SPDX-License-Identifier: Apache-2.0
//
// Folded stacks: "main;work;leaf 12" a line. As in lib/prof/text_folded.c, a line that is none costs itself.
import { Kind, Names, Profile, StackTree, counted } from './profile';

interface Stack {
	frames: [fn: number, kind?: Kind][];
	value: number;
}

/** What stackcollapse-perf.pl and async-profiler put behind a name: no part of it. */
const SUFFIXES: Record<string, Kind> = { k: 'kernel', j: 'jit', 0: 'jit', 1: 'jit', i: 'inlined', w: 'native' };

export function readFolded(text: string): Profile {
	const names = new Names(), stacks: Stack[] = [], notes: string[] = [];
	const frame = (name: string): [number, Kind?] => {
		const m = /^([^]+)_\[([kj01iw])\]$/.exec(name);
		return [names.number(m ? m[1] : name), m ? SUFFIXES[m[2]] : undefined];
	};
	let nBad = 0, firstBad = '';
	text.split('\n').forEach((line, i) => {
		if (!/[^ \t\r]/.test(line) || line.startsWith('# ')) return;
		const m = /^([^]*[^ \t])[ \t]+([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[ \t\r]*$/.exec(line); // names may have other blanks, such as U+2028
		if (m && Math.abs(Number(m[2])) <= Number.MAX_SAFE_INTEGER) stacks.push({ frames: m[1].split(';').filter((name) => name).map(frame), value: Number(m[2]) });
		else if (!nBad++) firstBad = `line ${i + 1}: "${line.slice(0, 60)}" is no folded stack: frames separated by ";", a space and a number expected`;
	});
	if (nBad && nBad >= stacks.length) throw new Error(firstBad);
	if (!stacks.length) throw new Error('the file has no stacks');
	if (nBad) notes.push(`${counted(nBad, 'line')} ${nBad === 1 ? 'is' : 'are'} left out. ${firstBad}`);
	return { format: 'folded stacks', types: [{ type: 'samples', unit: 'count' }], main: 0, notes, tree: () => {
		const tree = new StackTree(names);
		for (const s of stacks) tree.add(s.frames.reduce((node, [fn, kind]) => tree.at(node, fn, 0, kind), 0), s.value);
		return tree.finish({ type: 'samples', unit: 'count' });
	} };
}
