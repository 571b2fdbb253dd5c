// SPDX-License-Identifier: Apache-2.0
//
// Ranges of the address, and how times are written.
import { TIME_EXAMPLES, duration, instant, isRelative, relative, stretch } from './instant';
import { fieldsOf, secondsOf } from './zone';

export interface Range {
	start: string;
	end: string;
}

export const DEFAULT_RANGE: Range = { start: 'now-1h', end: 'now' };
export const PRESETS: [string, string][] = [
	['now-5m', 'Last 5 minutes'], ['now-15m', 'Last 15 minutes'], ['now-30m', 'Last 30 minutes'], ['now-1h', 'Last hour'], ['now-3h', 'Last 3 hours'],
	['now-6h', 'Last 6 hours'], ['now-12h', 'Last 12 hours'], ['now-24h', 'Last 24 hours'], ['now-2d', 'Last 2 days'], ['now-7d', 'Last 7 days'],
];

/** Whole seconds: a range that is asked for twice is the same query. */
export function resolve(r: Range, now = Date.now() / 1e3): { start: number; end: number } {
	const { start, end } = stretch(r.start, r.end, now);
	return { start: Math.floor(start), end: Math.ceil(end) };
}

/** `seconds` goes before `start`, as in the API: so many before the end. */
export function readRange(p: URLSearchParams, suffix = ''): Range {
	const seconds = p.get(`seconds${suffix}`), written = p.get(`end${suffix}`) ?? DEFAULT_RANGE.end, end = relative(written) ?? written;
	if (!seconds) {
		const start = p.get(`start${suffix}`) ?? DEFAULT_RANGE.start;
		return { start: relative(start) ?? start, end };
	}
	if (!/^\d+$/.test(seconds)) return { start: seconds, end };
	if (!isRelative(end)) return { start: String(instant(end, Date.now() / 1e3) - Number(seconds)), end };
	const before = Number(seconds) + (end === 'now' ? 0 : duration(end.slice(4)) * (end[3] === '-' ? 1 : -1));
	return { start: `now${before < 0 ? '+' : '-'}${Math.abs(before)}s`, end };
}

/** What is wrong with the times of an address, for a person; undefined when nothing is. */
export function rangeProblem(p: URLSearchParams, suffix = ''): string | undefined {
	const names = p.get(`seconds${suffix}`) ? [`seconds${suffix}`, `end${suffix}`] : [`start${suffix}`, `end${suffix}`], now = Date.now() / 1e3;
	const said = names.map((n) => (p.has(n) ? `${n}=${p.get(n)}` : '')).filter(Boolean);
	for (const name of names) {
		const text = p.get(name), isTime = name.startsWith('seconds') ? /^\d+$/.test(text ?? '') : !Number.isNaN(instant(text ?? 'now', now));
		if (!isTime) return `${name}=${text} in the address is no ${name.startsWith('seconds') ? 'number of seconds' : `time. Times are as ${TIME_EXAMPLES}`}.`;
	}
	const r = readRange(p, suffix), { start, end } = stretch(r.start, r.end, now);
	return start < end ? undefined : `${said.join(' and ')} in the address: the range begins at ${timeText(start)}, which is not before its end, ${timeText(end)}.`;
}

const two = (n: number) => String(n).padStart(2, '0');

export function dateText(seconds: number): string {
	const f = fieldsOf(seconds);
	return `${f.year}-${two(f.month)}-${two(f.day)}`;
}

export function clockText(seconds: number): string {
	const f = fieldsOf(seconds);
	return `${two(f.hour)}:${two(f.minute)}:${two(f.second)}`;
}

export function timeText(seconds: number): string {
	return `${dateText(seconds)} ${clockText(seconds)}`;
}

const TICK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400]; // seconds
const CLOCK_CHANGE = 7200; // seconds, the most that a day is longer or shorter

/** Round times of a range in the zone in use, at most so many. */
export function timeTicks(start: number, end: number, most: number): { step: number; ticks: number[] } {
	const step = TICK_STEPS.find((s) => (end - start) / s <= most) ?? Math.ceil((end - start) / Math.max(most, 1) / 86400) * 86400, ticks: number[] = [];
	const midnight = { ...fieldsOf(start), hour: 0, minute: 0, second: 0 }, into = start - secondsOf(midnight) - CLOCK_CHANGE;
	for (let second = Math.max(0, Math.floor(into / step) * step); ; second += step) {
		const t = secondsOf({ ...midnight, second }); // the clock's time, whatever its changes do to the day
		if (t > end) return { step, ticks };
		if (t >= start && t !== ticks[ticks.length - 1]) ticks.push(t);
	}
}

/** At midnight a date. */
export function tickText(t: number, step: number): string {
	const clock = clockText(t);
	return step >= 86400 || clock === '00:00:00' ? dateText(t).slice(5) : step >= 60 ? clock.slice(0, 5) : clock;
}

export function rangeText(r: Range): string {
	const preset = r.end === 'now' && PRESETS.find(([start]) => start === r.start);
	if (preset) return preset[1];
	if (isRelative(r.start) && r.end === 'now') return `Last ${r.start.slice(4)}`;
	if (isRelative(r.start) || isRelative(r.end)) return `${r.start} to ${r.end}`;
	const { start, end } = resolve(r);
	if (!(start < end)) return `${r.start} – ${r.end}`; // as it was written: the page says what is wrong
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
