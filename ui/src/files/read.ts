// SPDX-License-Identifier: Apache-2.0
//
// A file's format is known by its content.
import { integer } from '../units';
import { readFolded } from './folded';
import { readJson } from './json';
import { isPage, readPage } from './page';
import { isPerfScript, readPerfScript } from './perf_script';
import { readPprof } from './pprof';
import type { Profile } from './profile';

const MOST_BYTES = 2 ** 30; // inflated

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

export async function readProfile(data: Uint8Array): Promise<Profile> {
	const plain = data[0] === 0x1f && data[1] === 0x8b ? await inflate(data) : data;
	const head = new TextDecoder().decode(plain.subarray(0, 4096));
	// Text has no control characters but those that end lines.
	if (/[\0-\x08\x0e-\x1f]/.test(head)) return readPprof(plain);
	const text = new TextDecoder().decode(plain);
	if (/^\s*\{/.test(text)) return readJson(text);
	if (isPage(head)) return readPage(text);
	return isPerfScript(text) ? readPerfScript(text) : readFolded(text);
}
