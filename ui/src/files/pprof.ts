// SPDX-License-Identifier: Apache-2.0
//
// A pprof profile, read in the browser: any of its value columns, stacks with inlined calls.
import { Reader } from '../flame/decode';
import { Names, Profile, StackTree, Type, counted } from './profile';

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

interface Frame {
	fn: number;
	line: number;
}

class Pprof {
	private readonly top: Message;
	private readonly strings: string[];
	private readonly names = new Names();

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

	/** Outermost first, as inlined calls of a location are written innermost first. */
	private locations(): Map<number, Frame[]> {
		const mappings = new Map(this.all(3, 'mapping').map((m) => [one(m, 1), [this.string(one(m, 5)), this.string(one(m, 6))]]));
		const names = new Map(this.all(5, 'function').map((m) => [one(m, 1), [this.string(one(m, 2)) || this.string(one(m, 3)), this.string(one(m, 4))]]));
		return new Map(this.all(4, 'location').map((m) => {
			const [mapping, build] = mappings.get(one(m, 2)) ?? ['', ''];
			const frames = (m.parts.get(4) ?? []).map((b): Frame => {
				const line = message(b, 'line'), [name, file] = names.get(one(line, 1)) ?? ['', ''];
				return { fn: this.names.number(name || '(unknown)', file, mapping, build), line: Math.max(one(line, 2), 0) };
			});
			if (!frames.length) frames.push({ fn: this.names.number(`0x${one(m, 3).toString(16)}`, '', mapping, build), line: 0 });
			return [one(m, 1), frames.reverse()];
		}));
	}

	profile(): Profile {
		const types = this.all(1, 'sample type').map((m): Type => ({ type: this.string(one(m, 1)), unit: this.string(one(m, 2)) }));
		if (!types.length) throw new Error('profile: no sample type; this is no pprof profile');
		const wanted = this.string(one(this.top, 14)), named = types.findIndex(({ type }) => type === wanted), notes: string[] = [];
		return { format: 'pprof', types, main: named < 0 ? types.length - 1 : named, notes, time: one(this.top, 9) / 1e9, seconds: one(this.top, 10) / 1e9, tree: (column, isByLine) => {
			const locations = this.locations(), tree = new StackTree(this.names, isByLine), labels = new Set<number>(); // after the locations: all functions are known
			let nLabelled = 0;
			for (const s of this.all(2, 'sample')) {
				const value = list(s, 2)[column] ?? 0;
				if (s.parts.has(3)) nLabelled++;
				for (const label of s.parts.get(3) ?? []) labels.add(one(message(label, 'label'), 1));
				let node = 0;
				for (const id of list(s, 1).reverse()) {
					const frames = locations.get(id);
					if (!frames) throw new Error(`profile: a sample names location ${id}, which is not there`);
					for (const f of frames) node = tree.at(node, f.fn, f.line);
				}
				tree.add(node, value);
			}
			if (nLabelled) notes.push(`${counted(nLabelled, 'sample')} ${nLabelled === 1 ? 'has' : 'have'} labels, which are left out: ${[...labels].map((key) => this.string(key)).join(', ')}`);
			return tree.finish(types[column]);
		} };
	}
}

export function readPprof(data: Uint8Array): Profile {
	return new Pprof(data).profile();
}
