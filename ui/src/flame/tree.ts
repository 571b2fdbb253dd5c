// SPDX-License-Identifier: Apache-2.0
//
// A call tree as flat arrays, level by level: the children of node i are first[i] … first[i + 1] - 1, widest first.
// That order makes drawing cost what is seen, not what is there: the first child that is too narrow ends its row.

export const baseName = (path: string) => path.slice(path.lastIndexOf('/') + 1);

export interface Functions {
	name: string[];
	file: string[];
	mapping: string[];
	builds?: string[]; // build ids of the code, joined by ", "
}

/** The sides of a difference, exact sums of what was stored. */
export interface Sides {
	selfA: Float64Array;
	selfB: Float64Array;
	totalA: Float64Array;
	totalB: Float64Array;
	mark: Uint8Array;
	// Of replicates; without any the arrays are empty.
	verdict: Uint8Array; // indexes the tree's verdicts
	q: Float64Array;
	seA: Float32Array; // standard errors of the totals' means, in what values are when scaled
	seB: Float32Array;
}
/** What a difference's bars are as wide as. */
export type Width = 'union' | 'a' | 'b';

export interface Tree {
	n: number;
	unit: string;
	type: string;
	whole: number; // of the query, also when only a subtree came
	functions: Functions;
	fn: Uint32Array;
	parent: Uint32Array;
	first: Uint32Array; // n + 1
	level: Uint32Array; // first node of each level, then n
	start: Float64Array;
	self: Float64Array;
	total: Float64Array;
	weight: Float64Array; // what widths are: the total, or with negative values the sum of the selfs without their signs
	kind: Uint8Array;
	line: Uint32Array; // empty when none is known
	kinds: string[];
	verdicts: string[];
	cut: Map<number, number>; // node that stands for what a limit left out → how many
	sides?: Sides;
	fnSelf: Float64Array; // per function; recursion counts once in the total
	fnTotal: Float64Array;
	kindSelf: Float64Array; // per function and kind (KINDS × fn + kind), NaN where no node is that
}
/** Room for what a tree's `kinds` may name. */
export const KINDS = 16;
/** The kind of a frame that is a value of a label: no function. */
export const GROUP = 'label';

/** As it comes: any order that puts parents first. */
export interface RawTree {
	unit: string;
	type: string;
	whole: number;
	functions: Functions;
	fn: Uint32Array;
	parent: Uint32Array;
	self: Float64Array;
	total: Float64Array;
	kind: Uint8Array;
	line: Uint32Array; // empty when none is known
	kinds: string[];
	verdicts: string[];
	cut: Map<number, number>;
	sides?: Sides;
}

const SMALL = 24;
export const UNTESTED = { verdict: new Uint8Array(0), q: new Float64Array(0), seA: new Float32Array(0), seB: new Float32Array(0) };

/** Sorts list[from … to) by ascending weight, equal ones by descending number. */
function sortRange(list: Uint32Array, from: number, to: number, weight: Float64Array): void {
	if (to - from > SMALL) {
		list.subarray(from, to).sort((a, b) => weight[a] - weight[b] || b - a);
		return;
	}
	for (let i = from + 1; i < to; i++) {
		const node = list[i], w = weight[node];
		let k = i;
		for (; k > from && (weight[list[k - 1]] > w || (weight[list[k - 1]] === w && list[k - 1] < node)); k--) list[k] = list[k - 1];
		list[k] = node;
	}
}

// One for each kind of array: a loop that sees several kinds is not compiled to what it does.
function pickWide(from: Float64Array, order: Uint32Array): Float64Array {
	const to = new Float64Array(from.length && order.length);
	for (let i = 0; i < to.length; i++) to[i] = from[order[i]];
	return to;
}

function pickFloats(from: Float32Array, order: Uint32Array): Float32Array {
	const to = new Float32Array(from.length && order.length);
	for (let i = 0; i < to.length; i++) to[i] = from[order[i]];
	return to;
}

function pickInts(from: Uint32Array, order: Uint32Array): Uint32Array {
	const to = new Uint32Array(from.length && order.length);
	for (let i = 0; i < to.length; i++) to[i] = from[order[i]];
	return to;
}

export function pickBytes(from: Uint8Array, order: Uint32Array): Uint8Array {
	const to = new Uint8Array(from.length && order.length);
	for (let i = 0; i < to.length; i++) to[i] = from[order[i]];
	return to;
}

/** Sums by function: self of all nodes, total of those without one of the same function above. */
function sumFunctions({ fn, parent, self, total, kind }: RawTree, { fnSelf, fnTotal, kindSelf }: Tree): void {
	const open = new Uint32Array(fnSelf.length), n = parent.length;
	let stack = new Uint32Array(256), depth = 0;
	for (let i = 0; i < n; i++) {
		while (depth && stack[depth - 1] !== parent[i]) open[fn[stack[--depth]]]--;
		if (depth === stack.length) {
			const more = new Uint32Array(depth * 2);
			more.set(stack);
			stack = more;
		}
		stack[depth++] = i;
		const f = fn[i], key = f * KINDS + (kind[i] & (KINDS - 1)), sum = kindSelf[key];
		kindSelf[key] = sum === sum ? sum + self[i] : self[i];
		if (open[f]++ === 0) fnTotal[f] += total[i];
	}
	for (let key = 0; key < kindSelf.length; key++) fnSelf[Math.floor(key / KINDS)] += kindSelf[key] || 0;
}

/** Does every node's subtree follow it, as the server numbers them? */
function isPreorder(parent: Uint32Array): boolean {
	for (let i = 1; i < parent.length; i++) for (let k = i - 1; k !== parent[i]; k = parent[k]) if (k <= parent[i]) return false;
	return true;
}

/** Old numbers by new ones. */
export function preorderOf(parent: Uint32Array): Uint32Array {
	const n = parent.length, offset = new Uint32Array(n + 1), children = new Uint32Array(n), out = new Uint32Array(n), todo = [0];
	for (let i = 1; i < n; i++) offset[parent[i] + 1]++;
	for (let i = 0; i < n; i++) offset[i + 1] += offset[i];
	const next = offset.slice();
	for (let i = 1; i < n; i++) children[next[parent[i]]++] = i;
	for (let k = 0; todo.length; k++) {
		const i = todo.pop()!;
		out[k] = i;
		for (let c = offset[i + 1]; c > offset[i]; ) todo.push(children[--c]);
	}
	return out;
}

function inPreorder(raw: RawTree): RawTree {
	const order = preorderOf(raw.parent), number = new Uint32Array(order.length), s = raw.sides;
	for (let k = 0; k < order.length; k++) number[order[k]] = k;
	return { ...raw, ...picked(raw, order), parent: pickInts(raw.parent, order).map((p) => number[p]), total: pickWide(raw.total, order), cut: new Map([...raw.cut].map(([node, count]) => [number[node], count])), sides: s && pickedSides(s, order) };
}

/** What is only looked up, not walked along. */
function picked(raw: RawTree, order: Uint32Array) {
	return { fn: pickInts(raw.fn, order), self: pickWide(raw.self, order), kind: pickBytes(raw.kind, order), line: pickInts(raw.line, order) };
}

function pickedSides(s: Sides, order: Uint32Array): Sides {
	return {
		selfA: pickWide(s.selfA, order), selfB: pickWide(s.selfB, order), totalA: pickWide(s.totalA, order), totalB: pickWide(s.totalB, order), mark: pickBytes(s.mark, order),
		verdict: pickBytes(s.verdict, order), q: pickWide(s.q, order), seA: pickFloats(s.seA, order), seB: pickFloats(s.seB, order),
	};
}

/** Where each node of a tree in preorder goes. */
interface Layout {
	order: Uint32Array; // old numbers by new ones
	parent: Uint32Array;
	first: Uint32Array;
	level: Uint32Array;
	total: Float64Array;
	weight: Float64Array;
	start: Float64Array;
	fn: Uint32Array;
	self: Float64Array;
	kind: Uint8Array;
	line: Uint32Array;
	cut: Map<number, number>;
}

/** The totals themselves where no value is negative. A stored difference (Go's heap?seconds=N) has values that are. */
function weightsOf({ parent, self, total }: RawTree): Float64Array {
	if (self.every((v) => v >= 0)) return total;
	const weight = self.map(Math.abs);
	for (let i = weight.length - 1; i > 0; i--) weight[parent[i]] += weight[i];
	return weight;
}

/**
 * Nodes level by level, siblings by descending total; children begin where their parent does, what is its own comes last. Memory is what
 * this costs at a million nodes: walked in preorder, it reads along what lies together and writes along one line per level.
 */
function layOut(raw: RawTree): Layout {
	const weight = weightsOf(raw), { parent: up, total: totalOf, fn: fnOf, self: selfOf, kind: kindOf, line: lineOf } = raw, n = up.length, nLines = lineOf.length, size = new Uint32Array(n).fill(1), depth = new Uint32Array(n);
	let deepest = 0, top = 1;
	for (let i = n - 1; i > 0; i--) size[up[i]] += size[i];
	for (let i = 1; i < n; i++) {
		const d = depth[up[i]] + 1;
		depth[i] = d;
		if (d > deepest) deepest = d;
	}
	const next = new Uint32Array(deepest + 2), at = new Float64Array(deepest + 2); // per level: where its next node goes, where that begins
	for (let i = 0; i < n; i++) next[depth[i] + 1]++;
	for (let d = 0; d <= deepest; d++) next[d + 1] += next[d];
	const level = next.slice(), order = new Uint32Array(n), parent = new Uint32Array(n), first = new Uint32Array(n + 1), fn = new Uint32Array(n);
	const width = new Float64Array(n), total = weight === totalOf ? width : new Float64Array(n), start = new Float64Array(n), self = new Float64Array(n), todo = new Uint32Array(n);
	const kind = new Uint8Array(n), line = new Uint32Array(nLines), isCut = new Uint8Array(n), cut = new Map<number, number>();
	for (const node of raw.cut.keys()) isCut[node] = 1;
	while (top) for (let i = todo[--top]; ; i++) {
		const d = depth[i], k = next[d]++, w = weight[i], x = at[d], end = i + size[i];
		order[k] = i;
		parent[k] = d ? next[d - 1] - 1 : 0;
		first[k] = next[d + 1];
		fn[k] = fnOf[i];
		self[k] = selfOf[i];
		kind[k] = kindOf[i];
		if (nLines) line[k] = lineOf[i];
		if (isCut[i]) cut.set(k, raw.cut.get(i)!);
		total[k] = totalOf[i];
		width[k] = w;
		start[k] = x;
		at[d] = x + w;
		at[d + 1] = x;
		if (i + 1 === end) break;
		if (i + 1 + size[i + 1] === end) continue; // an only child
		const from = top;
		for (let c = i + 1; c < end; c += size[c]) todo[top++] = c;
		sortRange(todo, from, top, weight);
		break;
	}
	first[n] = n;
	return { order, parent, first, level, total, weight: width, start, fn, self, kind, line, cut };
}

export function build(given: RawTree): Tree {
	const raw = isPreorder(given.parent) ? given : inPreorder(given), { order, ...arrays } = layOut(raw);
	const t: Tree = {
		...arrays, n: order.length, unit: raw.unit, type: raw.type, whole: raw.whole, functions: raw.functions, kinds: raw.kinds, verdicts: raw.verdicts,
		sides: raw.sides && pickedSides(raw.sides, order),
		fnSelf: new Float64Array(raw.functions.name.length), fnTotal: new Float64Array(raw.functions.name.length), kindSelf: new Float64Array(raw.functions.name.length * KINDS).fill(NaN),
	};
	sumFunctions(raw, t);
	return t;
}

/** Per function, of a part of a tree; recursion counts once in the total. */
export interface Sums {
	self: Float64Array;
	total: Float64Array;
}

/** Nodes of the subtree, level by level: those of a level stand side by side. */
export function* nodesBelow(t: Tree, node: number): Generator<number> {
	for (let from = node, to = node + 1; from < to; [from, to] = [t.first[from], t.first[to]]) for (let i = from; i < to; i++) yield i;
}

export function below(t: Tree, node: number): Sums {
	const { fn, first } = t, n = t.functions.name.length, sums = { self: new Float64Array(n), total: new Float64Array(n) };
	const open = new Uint32Array(n), path = new Uint32Array(t.level.length), next = new Uint32Array(t.level.length); // next: the child that comes then
	let depth = -1;
	const enter = (i: number) => {
		path[++depth] = i;
		next[depth] = first[i];
		const isOutermost = open[fn[i]]++ === 0;
		if (t.cut.has(i)) return;
		sums.self[fn[i]] += t.self[i];
		if (isOutermost) sums.total[fn[i]] += t.total[i];
	};
	for (enter(node); depth >= 0; ) if (next[depth] < first[path[depth] + 1]) enter(next[depth]++);
	else open[fn[path[depth--]]]--;
	return sums;
}

export function buffers(t: Tree): ArrayBuffer[] {
	// Empty ones are shared.
	const arrays = [t.fn, t.parent, t.first, t.level, t.start, t.self, t.total, ...(t.weight === t.total ? [] : [t.weight]), t.kind, t.line, t.fnSelf, t.fnTotal, t.kindSelf, ...(t.sides ? Object.values(t.sides) : [])];
	return arrays.filter((a) => a.length).map((a) => a.buffer as ArrayBuffer);
}

/** Function names from the root's child down to node i. */
export function pathOf(t: Tree, i: number): string[] {
	const path: string[] = [];
	for (let k = i; k; k = t.parent[k]) path.push(t.functions.name[t.fn[k]]);
	return path.reverse();
}

/** The node at a path, or how far it leads. */
export function follow(t: Tree, path: string[]): { node: number; found: number } {
	let node = 0;
	for (let d = 0; d < path.length; d++) {
		let next = -1;
		for (let c = t.first[node]; c < t.first[node + 1] && next < 0; c++)
			if (t.functions.name[t.fn[c]] === path[d] && !t.cut.has(c)) next = c;
		if (next < 0) return { node, found: d };
		node = next;
	}
	return { node, found: path.length };
}

export function depthOf(t: Tree, i: number): number {
	let lo = 0, hi = t.level.length - 2;
	while (lo < hi) {
		const mid = (lo + hi + 1) >> 1;
		if (t.level[mid] <= i) lo = mid;
		else hi = mid - 1;
	}
	return lo;
}

/** Is anything below node i cut off? */
export function isCutBelow(t: Tree, i: number): boolean {
	for (const node of t.cut.keys()) for (let k = node; ; k = t.parent[k]) {
		if (k === i) return true;
		if (k <= i) break;
	}
	return false;
}

/** Makes trees node by node; equal functions below one parent are one node. */
export class Builder {
	private fn: number[] = [0];
	private parent: number[] = [0];
	private self: number[] = [0];
	private kind: number[] = [0];
	private line: number[] = [0];
	private readonly child = new Map<number, number>();
	private readonly others = new Map<string, number>(); // of a child on another line
	private readonly nFunctions: number;

	/** By line, a function on two lines is two nodes; else it is one without a line. */
	constructor(private readonly functions: Functions, private readonly isByLine = false) {
		this.nFunctions = functions.name.length + 1;
	}

	get size(): number {
		return this.fn.length;
	}

	at(parent: number, fn: number, kind: number, line = 0): number {
		const key = parent * this.nFunctions + fn;
		let old = this.child.get(key);
		const isOther = old !== undefined && this.line[old] !== line;
		if (isOther && this.isByLine) old = this.others.get(`${key}:${line}`);
		else if (isOther) this.line[old!] = 0;
		if (old !== undefined) return old;
		const node = this.fn.length;
		if (isOther) this.others.set(`${key}:${line}`, node);
		else this.child.set(key, node);
		this.fn.push(fn);
		this.parent.push(parent);
		this.self.push(0);
		this.kind.push(kind);
		this.line.push(line);
		return node;
	}

	add(node: number, value: number): void {
		this.self[node] += value;
	}

	/** `selfs` of two sides, weighed, make a difference. */
	finish(like: { unit: string; type: string; kinds: string[]; whole?: number }, selfs?: number[][], weights: [number, number] = [1, 1]): Tree {
		const n = this.fn.length, parent = Uint32Array.from(this.parent);
		const dense = (list: number[]) => Float64Array.from({ length: n }, (_, i) => list[i] ?? 0);
		const sum = (self: Float64Array) => {
			const total = self.slice();
			for (let i = n - 1; i > 0; i--) total[parent[i]] += total[i];
			return total;
		};
		const [selfA, selfB] = selfs?.map(dense) ?? [];
		const self = selfs ? selfA.map((v, i) => v * weights[0] + selfB[i] * weights[1]) : dense(this.self), total = sum(self);
		return build({
			unit: like.unit, type: like.type, kinds: like.kinds, whole: selfs ? total[0] : like.whole ?? self.reduce((sum, v) => sum + Math.abs(v), 0), functions: this.functions, verdicts: [],
			fn: Uint32Array.from(this.fn), parent, self, total, kind: Uint8Array.from(this.kind), line: Uint32Array.from(this.line), cut: new Map(),
			sides: selfs && { selfA, selfB, totalA: sum(selfA), totalB: sum(selfB), mark: new Uint8Array(n), ...UNTESTED },
		});
	}
}

/** Bars of a difference are as wide as one side, or as both together, each as much as it counts. */
export function weigh(raw: RawTree, width: Width, [scaleA, scaleB]: [number, number]): void {
	const s = raw.sides!, a = width === 'b' ? 0 : scaleA, b = width === 'a' ? 0 : scaleB;
	for (let i = 0; i < raw.total.length; i++) {
		raw.total[i] = s.totalA[i] * a + s.totalB[i] * b;
		raw.self[i] = s.selfA[i] * a + s.selfB[i] * b;
	}
	raw.whole = raw.total[0];
}

/** One side of a difference by itself, without what only the other has. */
export function sideOf(raw: RawTree, which: 'a' | 'b', scale: number): Tree {
	const s = raw.sides!, totals = which === 'a' ? s.totalA : s.totalB, selfs = which === 'a' ? s.selfA : s.selfB;
	const kept: number[] = [], number = new Uint32Array(totals.length), cut = new Map<number, number>();
	for (let i = 0; i < totals.length; i++) if (!i || totals[i]) {
		number[i] = kept.length;
		if (raw.cut.has(i)) cut.set(kept.length, raw.cut.get(i)!);
		kept.push(i);
	}
	const order = Uint32Array.from(kept), self = pickWide(selfs, order).map((v) => v * scale), total = pickWide(totals, order).map((v) => v * scale);
	return build({ ...raw, fn: pickInts(raw.fn, order), parent: pickInts(raw.parent, order).map((p) => number[p]), self, total, kind: pickBytes(raw.kind, order), line: pickInts(raw.line, order), whole: total[0], cut, sides: undefined });
}

/** Two trees as one, with what each has: a difference. Bars are as wide as the sides together, each scaled. */
export function overlay(a: Tree, b: Tree, scale: [number, number], width: Width): Tree {
	const functions: Functions = { name: ['all'], file: [''], mapping: [''] }, numbers = new Map<string, number>();
	const numberOf = (t: Tree) => t.functions.name.map((name, f) => {
		const key = `${name}\0${t.functions.file[f]}\0${baseName(t.functions.mapping[f])}`, old = f ? numbers.get(key) : 0;
		if (old !== undefined) return old;
		numbers.set(key, functions.name.length);
		functions.file.push(t.functions.file[f]);
		functions.mapping.push(t.functions.mapping[f]);
		return functions.name.push(name) - 1;
	});
	const trees = [a, b], fns = trees.map(numberOf), builder = new Builder(functions), selfs: number[][] = [[], []];
	trees.forEach((t, side) => {
		const to = new Uint32Array(t.n);
		for (let i = 0; i < t.n; i++) {
			if (i) to[i] = builder.at(to[t.parent[i]], fns[side][t.fn[i]], t.kind[i], t.line[i]);
			selfs[side][to[i]] = (selfs[side][to[i]] ?? 0) + t.self[i];
		}
	});
	return builder.finish(a, selfs, [width === 'b' ? 0 : scale[0], width === 'a' ? 0 : scale[1]]);
}
