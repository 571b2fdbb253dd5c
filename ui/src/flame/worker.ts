// SPDX-License-Identifier: Apache-2.0
//
// Fetches flame graphs, or reads files, and decodes them beside the page's thread.
import { Format, write } from '../export/write';
import type { Profile, Type } from '../files/profile';
import { readProfile } from '../files/read';
import { chooseNames } from '../names';
import { decode } from './decode';
import { Derivation, derive } from './derive';
import { DiffRow, rowsOf } from './diff_rows';
import { Tree, Width, buffers, build, overlay, weigh } from './tree';

export interface Job {
	id: number;
	url: string;
	body: string;
	width?: Width; // what a difference's bars are as wide as
	scale?: [number, number];
}
/** One file is a flame graph, two are a difference. */
export interface FilesJob {
	id: number;
	files: { file: Blob; type?: number }[]; // of its sample types; else its main one
	isRelative?: boolean; // each side as a share of its own total
	save?: Save; // in place of the tree
}
export interface Save {
	format: Format;
	names: string[]; // of the files
	subtitle: string;
	isFull: boolean; // names of functions as they are
}
/** What a file is. */
export interface FileFacts {
	format: string;
	types: Type[];
	main: number;
	notes: string[];
	time: number; // unix seconds; 0 where it has none
	seconds: number; // that it covers; 0 where it has none
}
/** Trees made of one that the page has. Names stay there: the answer has only those that are new, behind gaps. */
export interface DerivationJob {
	id: number;
	of: Tree;
	derivations: Derivation[];
}
export type Message = Job | FilesJob | DerivationJob | { id: number; cancel: true };
export type Answer =
	| { id: number; bytes: number }
	| { id: number; tree: Tree; decodeMs: number; arrived: number; stats: string; warnings?: string | null; rows?: DiffRow[]; facts?: FileFacts[]; scale?: [number, number] }
	| { id: number; made: Tree[] }
	| { id: number; saved: Blob; left: string[] }
	| { id: number; error: Failure };
/** An answer that says why there is none; without a status what the decoder says; without either there was no answer, or a part of one. */
export interface Failure {
	status: number;
	text: string;
}

const running = new Map<number, AbortController>();

async function readAll(r: Response, onBytes: (n: number) => void): Promise<Uint8Array> {
	const chunks: Uint8Array[] = [];
	let n = 0;
	for (const reader = r.body!.getReader(); ; ) {
		const { done, value } = await reader.read();
		if (done) break;
		chunks.push(value);
		n += value.length;
		onBytes(n);
	}
	const all = new Uint8Array(n);
	let at = 0;
	for (const c of chunks) {
		all.set(c, at);
		at += c.length;
	}
	return all;
}

async function receive({ id, url, body }: Job, signal: AbortSignal): Promise<{ data: Uint8Array; stats: string; warnings: string | null } | Failure> {
	try {
		const r = await fetch(url, { method: 'POST', body, headers: { 'Content-Type': 'application/x-www-form-urlencoded' }, signal });
		if (!r.ok) return { status: r.status, text: await r.text() };
		let said = 0;
		const data = await readAll(r, (bytes) => {
			if (bytes - said > 1 << 18) send({ id, bytes: (said = bytes) });
		});
		return { data, stats: r.headers.get('Sonde-Stats') ?? '', warnings: r.headers.get('Sonde-Warnings') };
	} catch (e) {
		if (!(e instanceof TypeError)) throw e; // what `fetch` and its bodies make of a lost connection
		return { status: 0, text: '' };
	}
}

async function run(job: Job, signal: AbortSignal): Promise<void> {
	const got = await receive(job, signal);
	if ('status' in got) {
		send({ id: job.id, error: got });
		return;
	}
	const began = performance.now(), arrived = Date.now();
	performance.mark('sonde-arrived');
	const raw = decode(got.data);
	if (raw.sides) weigh(raw, job.width ?? 'union', job.scale ?? [1, 1]);
	const tree = build(raw);
	send({ id: job.id, tree, decodeMs: performance.now() - began, arrived, stats: got.stats, warnings: got.warnings }, buffers(tree));
}

async function read({ id, files, isRelative = false, save }: FilesJob): Promise<void> {
	const began = performance.now(), arrived = Date.now(), profiles: Profile[] = [];
	for (const { file } of files) profiles.push(await readProfile(new Uint8Array(await file.arrayBuffer())));
	// Lines of a function are one node for all but pprof, which has them in its locations.
	const trees = profiles.map((p, i) => p.tree(files[i].type ?? p.main, save?.format === 'pprof')), [a, b] = trees, scale: [number, number] = isRelative && b ? [1 / (a.whole || 1), 1 / (b.whole || 1)] : [1, 1], tree = b ? overlay(a, b, scale, 'union') : a, rows = b && rowsOf(tree, scale);
	const facts = profiles.map(({ format, types, main, notes, time = 0, seconds = 0 }): FileFacts => ({ format, types, main, notes, time, seconds }));
	if (save) {
		const { format, isFull, ...said } = save, { time, seconds } = b ? { time: 0, seconds: 0 } : facts[0];
		chooseNames(new URLSearchParams(isFull ? { names: 'full' } : {}));
		const { blob, left } = await write(format, { trees, whole: tree, scale, isRelative, time, seconds, isFull, ...said });
		send({ id, saved: blob, left });
		return;
	}
	send({ id, tree, decodeMs: performance.now() - began, arrived, stats: '', rows, facts, scale }, buffers(tree));
}

async function make({ id, of, derivations }: DerivationJob): Promise<void> {
	const made = derivations.map((d) => derive(of, d));
	send({ id, made }, made.flatMap(buffers));
}

function send(a: Answer, transfer: ArrayBuffer[] = []): void {
	(self as unknown as Worker).postMessage(a, transfer);
}

self.onmessage = (e: MessageEvent<Message>) => {
	const m = e.data;
	if ('cancel' in m) {
		running.get(m.id)?.abort();
		return;
	}
	const abort = new AbortController();
	running.set(m.id, abort);
	('files' in m ? read(m) : 'of' in m ? make(m) : run(m, abort.signal))
		.catch((error: Error) => abort.signal.aborted || send({ id: m.id, error: { status: 0, text: error.message } }))
		.finally(() => running.delete(m.id));
};
