// SPDX-License-Identifier: Apache-2.0
//
// proto/flamegraph.proto into arrays. The message is read twice: once for its fields, then each field into the array it fits.
import { RawTree } from './tree';

/** Of a message in protobuf's encoding. What does not fit it is an error that says where; `what` is the message's name in that. */
export class Reader {
	at = 0;
	constructor(readonly data: Uint8Array, readonly end = data.length, private readonly what = 'flame graph message') {}

	/** Little-endian base 128. Values beyond 2^53 lose their last bits. */
	varint(): number {
		const d = this.data;
		let b = d[this.at++], low = b & 127, high = 0, scale = 128; // apart: a negative number near 2^64 has no room for what is below 2^28
		for (; b >= 128; scale *= 128) {
			if (this.at >= this.end || scale >= 2 ** 70) throw new Error(`${this.what}: the number at byte ${this.at - 1} does not end`);
			b = d[this.at++];
			if (scale < 2 ** 28) low += (b & 127) * scale;
			else high += (b & 127) * scale;
		}
		// Ten bytes: a negative number in two's complement.
		return low + (scale >= 2 ** 70 ? high - 2 ** 64 : high);
	}

	/** The span of a field that has a length; what follows it is next. */
	span(field: number): Span {
		const n = this.varint(), from = this.at;
		if (!(n >= 0 && from + n <= this.end)) throw new Error(`${this.what}: field ${field} of ${n} bytes at byte ${from}, ${this.end - from} are left`);
		this.at = from + n;
		return [from, this.at];
	}
}

type Span = [number, number];
const NONE: Span = [0, 0];

function fields(data: Uint8Array): { strings: Map<number, Span[]>; packed: Map<number, Span>; numbers: Map<number, number> } {
	const r = new Reader(data), strings = new Map<number, Span[]>(), packed = new Map<number, Span>(), numbers = new Map<number, number>();
	while (r.at < r.end) {
		const tag = r.varint(), field = tag >>> 3;
		if ((tag & 7) === 0) {
			numbers.set(field, r.varint());
			continue;
		}
		if ((tag & 7) !== 2) throw new Error(`flame graph message: wire type ${tag & 7} of field ${field} at byte ${r.at}, 0 or 2 expected`);
		const span = r.span(field);
		packed.set(field, span);
		const list = strings.get(field);
		if (list) list.push(span);
		else strings.set(field, [span]);
	}
	return { strings, packed, numbers };
}

function countOf(data: Uint8Array, [from, to]: Span): number {
	let n = 0;
	for (let i = from; i < to; i++) if (data[i] < 128) n++;
	return n;
}

const MOST_VARINT_BYTES = 10;

function tooLong(at: number): Error {
	return new Error(`flame graph message: the number before byte ${at} has more than ${MOST_VARINT_BYTES} bytes`);
}

/** A loop that only ever sees one kind of array is compiled to what it does; most numbers have up to four bytes, which fit an integer. */
function readInts(data: Uint8Array, [from, to]: Span, n: number): Uint32Array {
	const into = new Uint32Array(n);
	let at = from;
	for (let i = 0; i < n && at < to; i++) {
		let b = data[at++], v = b & 127;
		for (let shift = 7; b > 127 && shift < 35; shift += 7) {
			b = data[at++];
			v |= (b & 127) << shift;
		}
		for (let more = MOST_VARINT_BYTES - 5; b > 127; b = data[at++]) if (!more--) throw tooLong(at); // what a negative number has beyond 32 bits
		into[i] = v;
	}
	return whole(into, at, to);
}

function readWide(data: Uint8Array, [from, to]: Span, n: number): Float64Array {
	const into = new Float64Array(n);
	let at = from;
	for (let i = 0; i < n && at < to; i++) {
		let b = data[at++], v = b & 127;
		for (let shift = 7; b > 127 && shift < 28; shift += 7) {
			b = data[at++];
			v |= (b & 127) << shift;
		}
		let wide = v;
		if (b > 127) {
			let scale = 2 ** 28, high = 0; // apart from what is below: a negative number near 2^64 has no room for it
			do {
				if (scale >= 2 ** 70) throw tooLong(at);
				b = data[at++];
				high += (b & 127) * scale;
				scale *= 128;
			} while (b > 127);
			if (scale >= 2 ** 70) high -= 2 ** 64; // ten bytes: in two's complement
			wide += high;
		}
		into[i] = wide;
	}
	return whole(into, at, to);
}

/** Kinds and the like, of which there are few: a number of more bytes is cut. */
function readBytes(data: Uint8Array, [from, to]: Span, n: number): Uint8Array {
	if (to - from === n) return data.slice(from, to); // each is one byte, unless another is missing
	return Uint8Array.from(readInts(data, [from, to], n));
}

function isZero(data: Uint8Array, [from, to]: Span): boolean {
	for (let i = from; i < to; i++) if (data[i]) return false;
	return true;
}

function whole<T>(into: T, at: number, to: number): T {
	if (at > to) throw new Error(`flame graph message: a number is cut off at byte ${to}`);
	return into;
}

/** What is not the children's: cheaper than to read it. */
function selfOf(parent: Uint32Array, total: Float64Array): Float64Array {
	const self = total.slice();
	for (let i = 1; i < total.length; i++) self[parent[i]] -= total[i];
	return self;
}

/** Packed numbers of a fixed size, NaN where the message has too few. */
function readFixed<T extends Float64Array | Float32Array>(data: Uint8Array, [from, to]: Span, into: T): T {
	const view = new DataView(data.buffer, data.byteOffset), size = into.BYTES_PER_ELEMENT;
	for (let i = 0, at = from; i < into.length; i++, at += size) into[i] = at + size > to ? NaN : size === 8 ? view.getFloat64(at, true) : view.getFloat32(at, true);
	return into;
}

export function decode(data: Uint8Array): RawTree {
	const { strings, packed, numbers } = fields(data);
	const text = new TextDecoder();
	const list = (field: number) => (strings.get(field) ?? []).map(([a, b]) => text.decode(data.subarray(a, b)));
	const span = (field: number) => packed.get(field) ?? NONE;
	const n = countOf(data, span(7));
	if (!n) throw new Error('flame graph message: no node');
	const wide = (field: number) => readWide(data, span(field), n), ints = (field: number, count = n) => readInts(data, span(field), count), bytes = (field: number, count = n) => readBytes(data, span(field), count);
	const parent = ints(9), fn = ints(7);
	const sets = list(27), set = ints(28, countOf(data, span(28)));
	const functions = { name: list(4), file: list(5), mapping: list(6), builds: Array.from(set, (i) => sets[i] ?? '') };
	if (functions.file.length !== functions.name.length || functions.mapping.length !== functions.name.length) throw new Error(`flame graph message: ${functions.name.length} functions, ${functions.file.length} files, ${functions.mapping.length} mappings`);
	for (let i = 0; i < n; i++) {
		if (i && parent[i] >= i) throw new Error(`flame graph message: parent ${parent[i]} of node ${i} does not come before it`);
		if (fn[i] >= functions.name.length) throw new Error(`flame graph message: node ${i} has function ${fn[i]} of ${functions.name.length}`);
	}
	const cutNodes = ints(13, countOf(data, span(13)));
	const cutCounts = ints(14, cutNodes.length);
	const cut = new Map<number, number>();
	cutNodes.forEach((node, i) => node < n && cut.set(node, cutCounts[i]));
	const total = wide(11), nTested = packed.has(23) ? n : 0;
	return {
		type: list(1)[0] ?? '', unit: list(2)[0] ?? '', whole: numbers.get(3) ?? 0, functions, fn, parent,
		self: selfOf(parent, total), total, kind: bytes(12), line: isZero(data, span(8)) ? new Uint32Array(0) : ints(8),
		kinds: list(15), cut,
		sides: strings.has(21) ? {
			selfA: wide(16), selfB: wide(17), totalA: wide(18), totalB: wide(19), mark: bytes(20),
			verdict: bytes(23, nTested), q: readFixed(data, span(22), new Float64Array(nTested)),
			seA: readFixed(data, span(25), new Float32Array(nTested)), seB: readFixed(data, span(26), new Float32Array(nTested)),
		} : undefined,
		verdicts: list(24),
	};
}
