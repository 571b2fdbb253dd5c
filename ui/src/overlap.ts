// SPDX-License-Identifier: Apache-2.0
//
// CPU time that two jobs have: an exporter profiles all processes of a machine, and another job asks one of these processes itself. Their
// sum counts that process twice.
import { Query, recall } from './api';
import { parse, print } from './selector';
import { isCpuTime } from './units';

export interface Overlap {
	machine: string[]; // jobs of whole machines
	own: string[]; // jobs of single processes on these
}

type Labels = Record<string, string>;

const MOST_SERIES = '2000'; // that are looked at

const hostOf = (instance = '') => instance.replace(/:\d+$/, '');

/** Exporters give each series the command's name; where both kinds are on one node, or host, they overlap. */
export function overlapOf(series: Labels[]): Overlap | undefined {
	const machines = series.filter((s) => s.comm && s.job), places = new Set(machines.flatMap((s) => [s.node, hostOf(s.instance)]).filter(Boolean));
	const own = new Set(series.filter((s) => !s.comm && s.job && (places.has(s.node) || places.has(hostOf(s.instance)))).map((s) => s.job));
	const jobs = [...new Set(machines.map((s) => s.job))].filter((job) => !own.has(job));
	return own.size && jobs.length ? { machine: jobs, own: [...own] } : undefined;
}

export async function findOverlap(query: string, range: Query): Promise<Overlap | undefined> {
	const s = parse(query);
	if (!s || !isCpuTime(s.type)) return undefined;
	return overlapOf(await recall<Labels[]>('api/v1/series', [['query', query], ...range, ['limit', MOST_SERIES]]).catch(() => []));
}

/** The selector with the jobs of machines alone: they have all processes. */
export function withoutOverlap(query: string, { machine, own }: Overlap): string {
	const s = parse(query)!;
	return print({ ...s, matchers: [...s.matchers, ...(machine.length === 1 ? [{ name: 'job', op: '=' as const, value: machine[0] }] : own.map((job) => ({ name: 'job', op: '!=' as const, value: job })))] });
}
