// SPDX-License-Identifier: Apache-2.0
//
// Ranges as the API and the address write them: "now-1h", unix seconds or RFC 3339.

export interface Range {
	start: string;
	end: string;
}

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400, w: 604800, y: 31536000 };
export const DEFAULT_RANGE: Range = { start: 'now-1h', end: 'now' };
export const PRESETS: [string, string][] = [
	['now-5m', 'Last 5 minutes'], ['now-15m', 'Last 15 minutes'], ['now-30m', 'Last 30 minutes'], ['now-1h', 'Last hour'], ['now-3h', 'Last 3 hours'],
	['now-6h', 'Last 6 hours'], ['now-12h', 'Last 12 hours'], ['now-24h', 'Last 24 hours'], ['now-2d', 'Last 2 days'], ['now-7d', 'Last 7 days'],
];

/** Seconds of "90s", "1h30m"; NaN for anything else. */
export function duration(text: string): number {
	if (!/^(\d+[smhdwy])+$/.test(text)) return NaN;
	return [...text.matchAll(/(\d+)([smhdwy])/g)].reduce((sum, m) => sum + Number(m[1]) * UNITS[m[2]], 0);
}

/** As duration() reads it, in the largest unit that goes into it. */
export function durationText(seconds: number): string {
	const unit = (['w', 'd', 'h', 'm'] as const).find((u) => seconds && seconds % UNITS[u] === 0) ?? 's';
	return `${seconds / UNITS[unit]}${unit}`;
}

/** Unix seconds of what a person or a link wrote; NaN when it is no time. */
export function instant(text: string, now: number): number {
	const t = text.trim();
	const m = /^now(?:\s*([+-])\s*(\w+))?$/.exec(t);
	if (m) return m[1] ? now + (m[1] === '-' ? -1 : 1) * duration(m[2]) : now;
	if (/^\d{9,11}(\.\d+)?$/.test(t)) return Number(t);
	if (/^\d{13}$/.test(t)) return Number(t) / 1e3;
	if (!/^\d{4}-\d\d-\d\d/.test(t)) return NaN;
	// A date with time but without zone is local; a date alone would be UTC.
	const d = Date.parse(/^\d{4}-\d\d-\d\d$/.test(t) ? `${t}T00:00` : t.replace(' ', 'T'));
	return d / 1e3;
}

export function isRelative(text: string): boolean {
	return text.startsWith('now');
}

/** Whole seconds: a range that is asked for twice is the same query. */
export function resolve(r: Range, now = Date.now() / 1e3): { start: number; end: number } {
	const start = instant(r.start, now), end = instant(r.end, now);
	return { start: Math.floor(start), end: Math.ceil(end) };
}

export function readRange(p: URLSearchParams, suffix = ''): Range {
	const seconds = p.get(`seconds${suffix}`);
	if (seconds && /^\d+$/.test(seconds)) return { start: `now-${seconds}s`, end: p.get(`end${suffix}`) ?? 'now' };
	return { start: p.get(`start${suffix}`) ?? DEFAULT_RANGE.start, end: p.get(`end${suffix}`) ?? DEFAULT_RANGE.end };
}

const two = (n: number) => String(n).padStart(2, '0');

export function dateText(seconds: number): string {
	const d = new Date(seconds * 1e3);
	return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
}

export function clockText(seconds: number): string {
	const d = new Date(seconds * 1e3);
	return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export function timeText(seconds: number): string {
	return `${dateText(seconds)} ${clockText(seconds)}`;
}

export function rangeText(r: Range): string {
	const preset = r.end === 'now' && PRESETS.find(([start]) => start === r.start);
	if (preset) return preset[1];
	if (isRelative(r.start) && r.end === 'now') return `Last ${r.start.slice(4)}`;
	if (isRelative(r.start) || isRelative(r.end)) return `${r.start} to ${r.end}`;
	const { start, end } = resolve(r);
	return `${timeText(start)} – ${dateText(start) === dateText(end) ? clockText(end) : timeText(end)}`;
}

export function agoText(seconds: number): string {
	if (seconds < 1) return `${Math.round(seconds * 1e3)} ms ago`;
	if (seconds < 90) return `${Math.round(seconds)} s ago`;
	if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
	if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
	return `${Math.round(seconds / 86400)} days ago`;
}

/** Points a graph has room for. */
export function stepFor(seconds: number): number {
	const nice = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
	return nice.find((s) => seconds / s <= 240) ?? Math.ceil(seconds / 240 / 86400) * 86400;
}
