// SPDX-License-Identifier: Apache-2.0
//
// The page's side of the worker.
import { ApiError, Query, failure, unanswered } from '../api';
import { BASE } from '../router';
import { warn } from '../warnings';
import type { DiffRow } from './diff_rows';
import type { Answer, DerivationJob, Failure, FileFacts, FilesJob, Job, Message, Save } from './worker';
import type { Derivation } from './derive';
import type { Tree } from './tree';

export interface Loaded {
	tree: Tree;
	decodeMs: number;
	arrived: number; // Date.now() when its last byte came
	stats: string;
	warnings?: string | null;
	rows?: DiffRow[]; // of two files
	facts?: FileFacts[]; // of files
	scale?: [number, number]; // of two files
}
interface Waiting {
	resolve: (answer: never) => void;
	reject: (e: Error) => void;
	onBytes?: (n: number) => void;
}

let worker: Worker | undefined;
let nextId = 1;
const waiting = new Map<number, Waiting>();

function errorOf({ status, text }: Failure): ApiError {
	if (status) return failure(status, text);
	return text ? new ApiError('internal', 0, `The decoder failed: ${text}`) : unanswered();
}

function start(): Worker {
	const w = new Worker(`${BASE}assets/worker.js`, { type: 'module' });
	w.onmessage = (e: MessageEvent<Answer>) => {
		const a = e.data, job = waiting.get(a.id);
		if (!job) return;
		if ('bytes' in a) {
			job.onBytes?.(a.bytes);
			return;
		}
		waiting.delete(a.id);
		if ('error' in a) job.reject(errorOf(a.error));
		else {
			if ('tree' in a) performance.mark('sonde-decoded');
			job.resolve(a as never);
		}
	};
	w.onerror = (e) => {
		for (const job of waiting.values()) job.reject(new ApiError('internal', 0, `The decoder failed: ${e.message || 'its script did not load'}`));
		waiting.clear();
		worker = undefined;
	};
	return w;
}

/** Asks the worker that all share; an abort ends what it does for this. */
function ask<T>(job: (id: number) => Message, signal: AbortSignal, onBytes?: (n: number) => void): Promise<T> {
	const id = nextId++;
	worker ??= start();
	const w = worker;
	return new Promise<T>((resolve, reject) => {
		waiting.set(id, { resolve, reject, onBytes });
		signal.addEventListener('abort', () => {
			if (!waiting.delete(id)) return;
			w.postMessage({ id, cancel: true } satisfies Message);
			reject(new DOMException('cancelled', 'AbortError'));
		});
		w.postMessage(job(id));
	});
}

/** A flame graph or a difference. */
export async function load(path: string, query: Query, options: Pick<Job, 'width' | 'scale'>, signal: AbortSignal, onBytes?: (n: number) => void): Promise<Loaded> {
	const body = new URLSearchParams([...query, ['format', 'protobuf']]).toString();
	const loaded = await ask<Loaded>((id) => ({ id, url: BASE + path, body, ...options }) satisfies Job, signal, onBytes);
	warn(path, loaded.warnings ?? null);
	return loaded;
}

/** Trees made of another one, beside the page. Names stay here: a hundred thousand of them are slower to copy than the nodes. */
export async function deriveAside(of: Tree, derivations: Derivation[], signal: AbortSignal): Promise<Tree[]> {
	const { name, file, mapping, builds } = of.functions, n = name.length;
	const { made } = await ask<{ made: Tree[] }>((id) => ({ id, of: { ...of, functions: { name: new Array(n), file: new Array(n), mapping: new Array(n) } }, derivations }) satisfies DerivationJob, signal);
	for (const tree of made) {
		const more = tree.functions.name.slice(n), none = more.map(() => '');
		tree.functions = more.length ? { name: [...name, ...more], file: [...file, ...none], mapping: [...mapping, ...none], builds } : of.functions;
	}
	return made;
}

/** Profiles of files, by a worker of their own: it can be stopped whatever it is at, and what it needed goes with it. */
export function read(files: FilesJob['files'], isRelative: boolean, signal: AbortSignal): Promise<Loaded> {
	return readAside({ id: 0, files, isRelative }, signal);
}

/** The same as a file of a format, and what that has no place for. */
export function readAndSave(files: FilesJob['files'], isRelative: boolean, save: Save, signal: AbortSignal): Promise<{ saved: Blob; left: string[] }> {
	return readAside({ id: 0, files, isRelative, save }, signal);
}

function readAside<T>(job: FilesJob, signal: AbortSignal): Promise<T> {
	const w = new Worker(`${BASE}assets/worker.js`, { type: 'module' });
	return new Promise<T>((resolve, reject) => {
		w.onmessage = ({ data }: MessageEvent<Answer>) => {
			if ('tree' in data || 'saved' in data) resolve(data as T);
			else if ('error' in data) reject(new Error(data.error.text));
		};
		w.onerror = (e) => reject(new Error(e.message || 'the script that reads files did not load'));
		signal.addEventListener('abort', () => reject(new DOMException('cancelled', 'AbortError')));
		w.postMessage(job);
	}).finally(() => w.terminate());
}
