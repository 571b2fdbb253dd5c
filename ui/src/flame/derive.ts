// SPDX-License-Identifier: Apache-2.0
//
// Trees made of another one: what a function calls, who calls it, what repeats folded together. Each is one walk over flat arrays, so that
// a million nodes take as long as laying out the result does.
import { Functions, Tree, UNTESTED, build, pickBytes } from './tree';

/** Nodes in preorder, each like one of another tree. */
class Preorder {
	n = 0;
	readonly cut = new Map<number, number>();
	private fn = new Uint32Array(1024);
	private parent = new Uint32Array(1024);
	private like = new Uint32Array(1024);
	private line = new Uint32Array(1024);
	private values: Float64Array[]; // self; of a difference also those of both sides

	constructor(private readonly t: Tree) {
		this.values = Array.from({ length: t.sides ? 3 : 1 }, () => new Float64Array(1024));
	}

	begin(parent: number, fn: number, like: number): number {
		const k = this.n++;
		if (k === this.fn.length) this.grow();
		this.fn[k] = fn;
		this.parent[k] = parent;
		this.like[k] = like;
		this.line[k] = this.t.line.length ? this.t.line[like] : 0;
		return k;
	}

	/** Another one that node k stands for. */
	join(k: number, node: number): void {
		const { t } = this;
		if (t.line.length && this.line[k] !== t.line[node]) this.line[k] = 0;
		if (t.cut.size && t.cut.has(node)) this.cut.set(k, (this.cut.get(k) ?? 0) + t.cut.get(node)!);
	}

	/** What node k has by itself, by what node `of` has in these arrays: self or total, and of a difference of A and of B. */
	add(k: number, of: number, arrays: Float64Array[]): void {
		for (let v = 0; v < arrays.length; v++) this.values[v][k] += arrays[v][of];
	}

	private grow(): void {
		const more = <T extends Uint32Array | Float64Array>(old: T): T => {
			const wider = new (old.constructor as new (n: number) => T)(2 * old.length);
			wider.set(old);
			return wider;
		};
		[this.fn, this.parent, this.like, this.line] = [this.fn, this.parent, this.like, this.line].map(more) as Uint32Array<ArrayBuffer>[];
		this.values = this.values.map(more);
	}

	finish(functions: Functions): Tree {
		const { t, n } = this, parent = this.parent.slice(0, n), like = this.like.slice(0, n), [self, selfA, selfB] = this.values.map((v) => v.slice(0, n));
		const sum = (own: Float64Array) => {
			const total = own.slice();
			for (let i = n - 1; i > 0; i--) total[parent[i]] += total[i];
			return total;
		};
		return build({
			unit: t.unit, type: t.type, whole: t.whole, kinds: t.kinds, verdicts: [], functions, fn: this.fn.slice(0, n), parent, self, total: sum(self), kind: pickBytes(t.kind, like),
			line: t.line.length ? this.line.slice(0, n) : t.line, cut: this.cut, sides: t.sides && { selfA, selfB, totalA: sum(selfA), totalB: sum(selfB), mark: new Uint8Array(n), ...UNTESTED },
		});
	}
}

/** Divides what it is told of by function, in the order in which functions come: counted first, then each gets its place. */
class Groups {
	n = 0;
	ends = new Uint32Array(256);
	private readonly met: Uint32Array; // per function: the round
	private readonly number: Uint32Array;
	private round = 0;

	constructor(nFunctions: number) {
		this.met = new Uint32Array(nFunctions);
		this.number = new Uint32Array(nFunctions);
	}

	begin(): void {
		this.round++;
		this.n = 0;
	}

	count(fn: number): void {
		if (this.met[fn] === this.round) {
			this.ends[this.number[fn]]++;
			return;
		}
		if (this.n === this.ends.length) {
			const more = new Uint32Array(2 * this.n);
			more.set(this.ends);
			this.ends = more;
		}
		this.met[fn] = this.round;
		this.number[fn] = this.n;
		this.ends[this.n++] = 1;
	}

	/** The groups lie one after the other, from `at` on; when all have got their places, `ends` are their ends. */
	layOut(at: number): void {
		for (let g = 0; g < this.n; g++) {
			const size = this.ends[g];
			this.ends[g] = at;
			at += size;
		}
	}

	placeOf(fn: number): number {
		return this.ends[this.number[fn]]++;
	}
}

/** Parts of a list, each to become a node below one that is there. */
class Jobs {
	from = 0;
	to = 0;
	parent = 0;
	private list = new Uint32Array(1024);
	private n = 0;

	/** The groups that lie from `from` on; the first is taken next. */
	push(groups: Groups, from: number, parent: number): void {
		while (this.n + 3 * groups.n > this.list.length) {
			const more = new Uint32Array(2 * this.list.length);
			more.set(this.list);
			this.list = more;
		}
		for (let g = groups.n - 1; g >= 0; g--) {
			this.list[this.n++] = g ? groups.ends[g - 1] : from;
			this.list[this.n++] = groups.ends[g];
			this.list[this.n++] = parent;
		}
	}

	/** False when none is left. */
	take(): boolean {
		if (!this.n) return false;
		this.parent = this.list[--this.n];
		this.to = this.list[--this.n];
		this.from = this.list[--this.n];
		return true;
	}
}

const JOINED = -1; // with its parent

/** What lies below `roots` as one tree: a node's children that are shown as the same function are one. */
function mergeBelow(t: Tree, roots: Uint32Array, shownAs: Int32Array, functions: Functions): Tree {
	const { first } = t, arrays = t.sides ? [t.self, t.sides.selfA, t.sides.selfB] : [t.self];
	const out = new Preorder(t), groups = new Groups(functions.name.length), jobs = new Jobs(), list = new Uint32Array(t.n), members = new Uint32Array(t.n);
	list.set(roots);
	let top = (jobs.to = roots.length);
	do {
		const { from, to } = jobs, node = out.begin(jobs.parent, shownAs[list[from]], list[from]), begin = top;
		let m = 0;
		for (let k = from; k < to; k++) members[m++] = list[k];
		groups.begin();
		for (let k = 0; k < m; k++) {
			const member = members[k];
			out.join(node, member);
			out.add(node, member, arrays);
			for (let c = first[member]; c < first[member + 1]; c++) {
				if (shownAs[c] === JOINED) members[m++] = c;
				else groups.count(shownAs[c]);
			}
		}
		groups.layOut(begin);
		for (let k = 0; k < m; k++) for (let c = first[members[k]]; c < first[members[k] + 1]; c++) if (shownAs[c] !== JOINED) {
			list[groups.placeOf(shownAs[c])] = c;
			top++;
		}
		jobs.push(groups, begin, node);
	} while (jobs.take());
	return out.finish(functions);
}

/** Nodes of function f that have none of it above. */
function outermost(t: Tree, f: number): Uint32Array {
	const inside = new Uint8Array(t.n), found: number[] = [];
	for (let i = 0; i < t.n; i++) {
		const isBelow = i ? inside[t.parent[i]] : 0, isOne = t.fn[i] === f;
		inside[i] = isBelow || isOne ? 1 : 0;
		if (isOne && !isBelow) found.push(i);
	}
	return Uint32Array.from(found);
}

/** What function f calls: the subtrees below its outermost occurrences, as one. */
export function calleesOf(t: Tree, f: number): Tree {
	return mergeBelow(t, outermost(t, f), new Int32Array(t.fn), t.functions);
}

/** Who calls function f: the way up from its outermost occurrences, f as the root. */
export function callersOf(t: Tree, f: number): Tree {
	const nodes = outermost(t, f), at = nodes.slice(), list = Uint32Array.from(nodes, (_, k) => k), members = new Uint32Array(nodes.length);
	const out = new Preorder(t), groups = new Groups(t.functions.name.length), jobs = new Jobs(), arrays = t.sides ? [t.total, t.sides.totalA, t.sides.totalB] : [t.total];
	jobs.to = nodes.length;
	do {
		const { from, to } = jobs, node = out.begin(jobs.parent, t.fn[at[list[from]]], at[list[from]]);
		let m = 0;
		groups.begin();
		for (let k = from; k < to; k++) {
			const way = list[k], up = t.parent[at[way]];
			out.join(node, at[way]);
			if (up) {
				at[way] = up;
				members[m++] = way;
				groups.count(t.fn[up]);
			} else out.add(node, nodes[way], arrays);
		}
		groups.layOut(from);
		for (let k = 0; k < m; k++) list[groups.placeOf(t.fn[at[members[k]]])] = members[k];
		jobs.push(groups, from, node);
	} while (jobs.take());
	return out.finish(t.functions);
}

const TRIVIAL = 0.99; // of its parent
const SHORTEST_CHAIN = 4;

/** Direct recursion becomes one frame; of a chain of frames that only call one another its ends stay. */
export function collapse(t: Tree, recursion: boolean, chains: boolean): Tree {
	const functions: Functions = { name: [...t.functions.name], file: [...t.functions.file], mapping: [...t.functions.mapping], builds: t.functions.builds };
	const hidden = chains ? chainsOf(t) : undefined, named = new Map<number, number>(), shownAs = new Int32Array(t.fn);
	const nameOf = (k: number) => {
		const old = named.get(k);
		if (old !== undefined) return old;
		functions.file.push('');
		functions.mapping.push('');
		named.set(k, functions.name.push(`${k} frames`) - 1);
		return functions.name.length - 1;
	};
	for (let i = 1; i < t.n; i++) {
		if (recursion && t.fn[i] === t.fn[t.parent[i]]) shownAs[i] = JOINED;
		else if (hidden?.inside[i]) shownAs[i] = hidden.length[i] ? nameOf(hidden.length[i]) : JOINED;
	}
	return mergeBelow(t, new Uint32Array(1), shownAs, functions);
}

/** A tree made of another one. */
export type Derivation = { what: 'callers' | 'callees'; f: number } | { what: 'collapsed'; recursion: boolean; chains: boolean };

/** Here or beside the page; `again` is what "Try again" does. */
export type Derive = (t: Tree, wanted: Derivation[], then: (made: Tree[]) => void, again: () => void) => void;

export function derive(t: Tree, d: Derivation): Tree {
	switch (d.what) {
	case 'callers': return callersOf(t, d.f);
	case 'callees': return calleesOf(t, d.f);
	case 'collapsed': return collapse(t, d.recursion, d.chains);
	}
}

/** Which nodes lie inside of a chain; the first of each has its length. */
function chainsOf(t: Tree): { inside: Uint8Array; length: Uint32Array } {
	const inside = new Uint8Array(t.n), length = new Uint32Array(t.n), seen = new Uint8Array(t.n);
	const isLink = (i: number) => i > 0 && t.first[i + 1] > t.first[i] && t.weight[t.first[i]] >= TRIVIAL * t.weight[i] && !t.cut.has(t.first[i]);
	for (let i = 1; i < t.n; i++) {
		if (seen[i] || !isLink(i)) continue;
		const chain = [i];
		for (let k = i; isLink(k); k = t.first[k]) chain.push(t.first[k]);
		for (const k of chain) seen[k] = 1;
		if (chain.length < SHORTEST_CHAIN) continue;
		for (const k of chain.slice(1, -1)) inside[k] = 1;
		length[chain[1]] = chain.length - 2;
	}
	return { inside, length };
}
