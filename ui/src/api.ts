// SPDX-License-Identifier: Apache-2.0
//
// Requests to the scraper (docs/http-api.md).
import { BASE } from './router';
import { warn } from './warnings';

export class ApiError extends Error {
	constructor(readonly type: string, readonly status: number, message: string) {
		super(message);
	}
}

export interface Stats {
	parts: number;
	profiles: number;
	seconds: number;
	source: string;
}
export interface ProfileType {
	id: string;
	name: string;
	sample_type: string;
	sample_unit: string;
	kind: 'delta' | 'instant';
}
export interface Line {
	metric: Record<string, string>;
	values: [number, string][];
}
export interface Matrix {
	profile_type: string;
	unit: string;
	step: number;
	n_series: number;
	result: Line[];
}
export interface TopRow {
	function: string;
	file: string;
	line: number;
	mapping: string;
	build?: string; // of a row that is of one build
	kind: string;
	self: number;
	total: number;
}

export type Query = [string, string][];

export function address(path: string, query: Query = []): string {
	const text = new URLSearchParams(query).toString();
	return `${BASE}${path}${text ? `?${text}` : ''}`;
}

const TYPES: Record<number, string> = { 400: 'bad_data', 422: 'execution', 503: 'unavailable' };

/** The error in an answer: JSON has its type, other formats say it in plain text. */
export function failure(status: number, body: string): ApiError {
	try {
		const j = JSON.parse(body);
		if (j.error) return new ApiError(j.errorType ?? 'internal', status, j.error);
	} catch {
		// plain text
	}
	return new ApiError(TYPES[status] ?? 'internal', status, body.trim().slice(0, 2000) || `the server answered ${status}`);
}

/** Of a request that got no answer, or a part of one: the scraper is gone, or the document is, which ends its requests before anything is aborted. */
export function unanswered(): ApiError {
	return new ApiError('network', 0, `The scraper at ${BASE} does not answer.`);
}

/** Long selectors do not fit an address, so queries are posted as forms. */
export async function get<T>(path: string, query: Query = [], signal?: AbortSignal, method = 'GET'): Promise<T> {
	let r: Response, body: string;
	try {
		r = method === 'GET' ? await fetch(address(path, query), { signal }) : await fetch(BASE + path, { method, body: new URLSearchParams(query), signal });
		body = await r.text();
	} catch (e) {
		throw signal?.aborted ? e : unanswered();
	}
	if (!r.ok) throw failure(r.status, body);
	warn(path, r.headers.get('Sonde-Warnings'));
	return JSON.parse(body).data as T;
}

export function series(query: Query, signal?: AbortSignal): Promise<Matrix> {
	return get<Matrix>('api/v1/query_series', query, signal, 'POST');
}

/** Answers that completion asks for again and again. */
const remembered = new Map<string, { at: number; answer: Promise<unknown> }>();
const REMEMBER_MS = 15_000;

export function recall<T>(path: string, query: Query): Promise<T> {
	const key = address(path, query);
	const old = remembered.get(key);
	if (old && Date.now() - old.at < REMEMBER_MS) return old.answer as Promise<T>;
	const answer = get<T>(path, query);
	remembered.set(key, { at: Date.now(), answer });
	answer.catch(() => remembered.delete(key));
	return answer;
}
