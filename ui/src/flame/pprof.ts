// SPDX-License-Identifier: Apache-2.0
//
// A pprof profile, read in the browser: the value column that it names as its main one, stacks with inlined calls.
import { Reader } from './decode';
import { integer } from '../units';
import { Builder, Functions, Tree } from './tree';

interface Message {
	numbers: Map<number, number[]>;
	parts: Map<number, Uint8Array[]>;
}

function message(data: Uint8Array, what: string): Message {
	const r = new Reader(data, data.length, what), m: Message = { numbers: new Map(), parts: new Map() };
	const put = <T>(map: Map<number, T[]>, field: number, v: T) => (map.get(field)?.push(v) ?? map.set(field, [v]));
	while (r.at < r.end) {
		const tag = r.varint(), field = tag >>> 3, type = tag & 7;
		if (type === 0) put(m.numbers, field, r.varint());
		else if (type === 2) put(m.parts, field, data.subarray(...r.span(field)));
		else throw new Error(`${what}: wire type ${type} of field ${field}; this is no pprof profile`);
	}
	return m;
}

const one = (m: Message, field: number) => m.numbers.get(field)?.[0] ?? 0;

/** Repeated numbers come packed or one by one. */
function list(m: Message, field: number): number[] {
	const out = [...(m.numbers.get(field) ?? [])];
	for (const part of m.parts.get(field) ?? []) for (const r = new Reader(part); r.at < r.end; ) out.push(r.varint());
	return out;
}

/** Small files can stand for very much: a location of many lines in stacks of many such locations, or what gzip makes of zeros. */
const MOST_FRAMES = 1e8; // of all stacks
const MOST_NODES = 5e6;
const MOST_BYTES = 2 ** 30; // inflated

class Walk {
	private frames = 0;

	constructor(private readonly b: Builder) {}

	at(node: number, fn: number, line = 0): number {
		if (++this.frames > MOST_FRAMES) throw new Error(`the profile's stacks have more than ${integer(MOST_FRAMES)} frames together; sonde flamegraph reads such files`);
		if (this.b.size > MOST_NODES) throw new Error(`the profile's tree has more than ${integer(MOST_NODES)} frames; sonde flamegraph reads such files`);
		return this.b.at(node, fn, 1, line);
	}
}

interface Frame {
	fn: number;
	line: number;
}

class Profile {
	private readonly top: Message;
	private readonly strings: string[];
	readonly functions: Functions = { name: ['all'], file: [''], mapping: [''] };
	private readonly numbers = new Map<string, number>();

	constructor(data: Uint8Array) {
		this.top = message(data, 'profile');
		const text = new TextDecoder();
		this.strings = (this.top.parts.get(6) ?? []).map((b) => text.decode(b));
		if (this.strings[0] !== '') throw new Error('profile: its table of strings does not begin with an empty one; this is no pprof profile');
	}

	private string(i: number): string {
		const s = this.strings[i];
		if (s === undefined) throw new Error(`profile: string ${i} of ${this.strings.length}`);
		return s;
	}

	private all(field: number, what: string): Message[] {
		return (this.top.parts.get(field) ?? []).map((b) => message(b, what));
	}

	private fn(name: string, file: string, mapping: string): number {
		const key = `${name}\0${file}\0${mapping}`, old = this.numbers.get(key);
		if (old !== undefined) return old;
		this.numbers.set(key, this.functions.name.length);
		this.functions.file.push(file);
		this.functions.mapping.push(mapping);
		return this.functions.name.push(name) - 1;
	}

	/** Outermost first, as inlined calls of a location are written innermost first. */
	private locations(): Map<number, Frame[]> {
		const mappings = new Map(this.all(3, 'mapping').map((m) => [one(m, 1), this.string(one(m, 5))]));
		const names = new Map(this.all(5, 'function').map((m) => [one(m, 1), [this.string(one(m, 2)) || this.string(one(m, 3)), this.string(one(m, 4))]]));
		return new Map(this.all(4, 'location').map((m) => {
			const mapping = mappings.get(one(m, 2)) ?? '';
			const frames = (m.parts.get(4) ?? []).map((b): Frame => {
				const line = message(b, 'line'), [name, file] = names.get(one(line, 1)) ?? ['', ''];
				return { fn: this.fn(name || '(unknown)', file, mapping), line: Math.max(one(line, 2), 0) };
			});
			if (!frames.length) frames.push({ fn: this.fn(`0x${one(m, 3).toString(16)}`, '', mapping), line: 0 });
			return [one(m, 1), frames.reverse()];
		}));
	}

	tree(): Tree {
		const types = this.all(1, 'sample type').map((m) => [this.string(one(m, 1)), this.string(one(m, 2))]);
		if (!types.length) throw new Error('profile: no sample type; this is no pprof profile');
		const wanted = this.string(one(this.top, 14)), named = types.findIndex(([type]) => type === wanted), column = named < 0 ? types.length - 1 : named;
		const locations = this.locations(), b = new Builder(this.functions), walk = new Walk(b); // after the locations: all functions are known
		for (const s of this.all(2, 'sample')) {
			const value = list(s, 2)[column] ?? 0;
			let node = 0;
			for (const id of list(s, 1).reverse()) {
				const frames = locations.get(id);
				if (!frames) throw new Error(`profile: a sample names location ${id}, which is not there`);
				for (const f of frames) node = walk.at(node, f.fn, f.line);
			}
			b.add(node, Math.max(value, 0));
		}
		return b.finish({ type: types[column][0], unit: types[column][1], kinds: ['root', 'native'] });
	}
}

export function readPprof(data: Uint8Array): Tree {
	return new Profile(data).tree();
}

/** "main;work;leaf 12" per line. */
export function readFolded(text: string): Tree {
	const functions: Functions = { name: ['all'], file: [''], mapping: [''] }, numbers = new Map<string, number>();
	const stacks: [number[], number][] = [];
	text.split('\n').forEach((line, i) => {
		if (!line.trim()) return;
		const m = /^(.*\S)\s+(\d+(?:\.\d+)?)\s*$/.exec(line);
		if (!m || !(Number(m[2]) <= Number.MAX_SAFE_INTEGER)) throw new Error(`line ${i + 1}: "${line.slice(0, 60)}" is no folded stack: frames separated by ";", a space and a number expected`);
		stacks.push([m[1].split(';').map((name) => {
			const old = numbers.get(name);
			if (old !== undefined) return old;
			numbers.set(name, functions.name.length);
			functions.file.push('');
			functions.mapping.push('');
			return functions.name.push(name) - 1;
		}), Number(m[2])]);
	});
	if (!stacks.length) throw new Error('the file is empty');
	// Which functions there are decides the builder's keys.
	const filled = new Builder(functions), walk = new Walk(filled);
	for (const [stack, value] of stacks) filled.add(stack.reduce((node, f) => walk.at(node, f), 0), value);
	return filled.finish({ type: 'samples', unit: 'count', kinds: ['root', 'native'] });
}

async function inflate(data: Uint8Array): Promise<Uint8Array> {
	const chunks: Uint8Array[] = [];
	let n = 0;
	try {
		for (const reader = new Blob([data as BlobPart]).stream().pipeThrough(new DecompressionStream('gzip')).getReader(); n <= MOST_BYTES; ) {
			const { done, value } = await reader.read();
			if (done) break;
			chunks.push(value);
			n += value.length;
		}
	} catch {
		throw new Error(`what gzip compressed is damaged after ${integer(n)} bytes`);
	}
	if (n > MOST_BYTES) throw new Error(`inflated, it has more than ${integer(MOST_BYTES)} bytes`);
	const all = new Uint8Array(n);
	chunks.reduce((at, c) => (all.set(c, at), at + c.length), 0);
	return all;
}

export async function readProfile(data: Uint8Array): Promise<Tree> {
	const plain = data[0] === 0x1f && data[1] === 0x8b ? await inflate(data) : data;
	const head = new TextDecoder().decode(plain.subarray(0, 4096));
	// Text has no control characters but those that end lines.
	return /[\0-\x08\x0e-\x1f]/.test(head) ? readPprof(plain) : readFolded(new TextDecoder().decode(plain));
}
