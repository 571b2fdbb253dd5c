// SPDX-License-Identifier: Apache-2.0
//
// What readers of files make: the sample types that a file has, and a tree of the one that is chosen.
import { Builder, Functions, Tree } from '../flame/tree';
import { codeOf } from '../mappings';
import { integer } from '../units';

export interface Type {
	type: string;
	unit: string;
}
export interface Profile {
	format: string; // as a person names it
	types: Type[];
	main: number; // of the types: the one to show first
	notes: string[]; // what of the file was not taken as it stands there, known once the tree is made
	time?: number; // unix seconds
	seconds?: number; // that it covers
	tree(type: number, isByLine?: boolean): Tree; // by line: a function on two lines is two nodes
}

/** Small files can stand for very much: a location of many lines in stacks of many such locations, or what gzip makes of zeros. */
const MOST_FRAMES = 1e8; // of all stacks
const MOST_NODES = 5e6;

const KINDS = ['root', 'native', 'kernel', 'jit', 'interpreter', 'inlined'] as const;
export type Kind = (typeof KINDS)[number];

/** Functions by number; 0 is the root's. */
export class Names {
	readonly functions = { name: ['all'], file: [''], mapping: [''], builds: [''] } satisfies Functions;
	private readonly numbers = new Map<string, number>();

	/** A function of several builds is one. */
	number(name: string, file = '', mapping = '', build = ''): number {
		const key = `${name}\0${file}\0${mapping}`, old = this.numbers.get(key), { builds } = this.functions;
		if (old !== undefined) {
			if (build && !builds[old].split(', ').includes(build)) builds[old] += `${builds[old] && ', '}${build}`;
			return old;
		}
		this.numbers.set(key, this.functions.name.length);
		builds.push(build);
		this.functions.file.push(file);
		this.functions.mapping.push(mapping);
		return this.functions.name.push(name) - 1;
	}
}

/** A tree of stacks. All names must be there before: how many there are decides the builder's keys. */
export class StackTree {
	private readonly builder: Builder;
	private readonly codes: Kind[]; // of functions, by their mappings
	private frames = 0;

	constructor(names: Names, isByLine = false) {
		this.builder = new Builder(names.functions, isByLine);
		this.codes = names.functions.mapping.map(codeOf);
	}

	/** `kind`: where the format says it of the frame itself. */
	at(node: number, fn: number, line = 0, kind = this.codes[fn]): number {
		if (++this.frames > MOST_FRAMES) throw new Error(`the profile's stacks have more than ${integer(MOST_FRAMES)} frames together; sonde flamegraph reads such files`);
		if (this.builder.size > MOST_NODES) throw new Error(`the profile's tree has more than ${integer(MOST_NODES)} frames; sonde flamegraph reads such files`);
		return this.builder.at(node, fn, KINDS.indexOf(kind), line);
	}

	add(node: number, value: number): void {
		this.builder.add(node, value);
	}

	finish({ type, unit }: Type): Tree {
		return this.builder.finish({ type, unit, kinds: [...KINDS] });
	}
}

export function counted(n: number, what: string): string {
	return `${integer(n)} ${what}${n === 1 ? '' : 's'}`;
}
