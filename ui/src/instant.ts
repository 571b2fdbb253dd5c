// SPDX-License-Identifier: Apache-2.0
//
// Times as people and links write them. What the API reads it reads alike; the rest is a person's: clocks, days, ranges.
import { Fields, fieldsOf, secondsOf } from './zone';

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400, w: 604800, y: 31536000 };
const DAY = 86400;
const EPOCHS: Record<number, number> = { 13: 1e3, 16: 1e6, 19: 1e9 }; // digits of milli-, micro- and nanoseconds

/** Said where a time is asked for. */
export const TIME_EXAMPLES = '10:05, yesterday 14:00, 26.11. 10:05, 2026-11-26 10:05, -1h or now';

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

export function isRelative(text: string): boolean {
	return text.startsWith('now');
}

/** "now-1h" of "now - 1h", "-1h" and "−1h"; undefined when it is none of those. */
export function relative(text: string): string | undefined {
	const m = /^(now)?(?:\s*([+\-−])\s*(\w+))?$/.exec(text.trim().toLowerCase());
	if (!m || (!m[1] && (!m[2] || m[2] === '+'))) return undefined;
	if (m[2] && Number.isNaN(duration(m[3]))) return undefined;
	return m[2] ? `now${m[2] === '+' ? '+' : '-'}${m[3]}` : 'now';
}

/** A time that was read. `seconds` is NaN when it is none. */
interface Read {
	seconds: number;
	length: number; // that of a day for a day, else 0
	isClock?: boolean; // without a day: the last one that is not after now
	offset?: number;
}

const NONE: Read = { seconds: NaN, length: 0 };

interface Day {
	year: number;
	month: number;
	day: number;
}

/** Of "2026-11-26", "26.11.2026", "26.11." (the last such day), "today", "yesterday"; undefined when it is none. */
function readDay(text: string, now: number, offset?: number): Day | undefined {
	const today = fieldsOf(now, offset), onDays = (n: number) => {
		const noon = secondsOf({ ...today, hour: 12, minute: 0, second: 0 }, offset) + n * DAY;
		return fieldsOf(noon, offset);
	};
	if (text === 'today') return today;
	if (text === 'yesterday') return onDays(-1);
	const iso = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text), german = /^(\d\d?)\.(\d\d?)(?:\.(\d{4})?)?$/.exec(text);
	if (!iso && !german) return undefined;
	const [year, month, day] = (iso ? iso.slice(1) : [german![3], german![2], german![1]]).map((n) => (n === undefined ? NaN : Number(n)));
	const exists = (y: number) => month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(2000 + (y % 400), month, 0)).getUTCDate();
	if (!Number.isNaN(year)) return exists(year) ? { year, month, day } : undefined;
	// Not after today, and the 29th of February is one of a leap year.
	for (let y = today.year; y > today.year - 9; y--) if (exists(y) && (y < today.year || month < today.month || (month === today.month && day <= today.day))) return { year: y, month, day };
	return undefined;
}

function readClock(text: string): Pick<Fields, 'hour' | 'minute' | 'second'> | undefined {
	const m = /^(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?$/.exec(text);
	if (!m) return undefined;
	const [hour, minute, second] = m.slice(1).map((n) => Number(n ?? 0));
	return hour < 24 && minute < 60 && second < 60 ? { hour, minute, second } : undefined;
}

function read(written: string, now: number): Read {
	const text = written.trim().toLowerCase(), near = relative(text);
	if (near) return { seconds: now + (near === 'now' ? 0 : (near[3] === '-' ? -1 : 1) * duration(near.slice(4))), length: 0 };
	if (/^\d{9,11}(\.\d+)?$/.test(text)) return { seconds: Number(text), length: 0 };
	if (/^\d+$/.test(text) && EPOCHS[text.length]) return { seconds: Number(text) / EPOCHS[text.length], length: 0 };
	// Hours behind the clock are a zone in RFC 3339 alone: a person who writes "26.11. 10:05-10:10" means a range.
	const zoned = /^(.*\d)\s*(?:z|utc)$/.exec(text) ?? /^(\d{4}-\d\d-\d\dt\d\d:\d\d(?::\d\d(?:\.\d+)?)?)([+-])(\d\d):?(\d\d)$/.exec(text);
	const offset = zoned ? (zoned[2] ? (zoned[2] === '-' ? -1 : 1) * (Number(zoned[3]) * 60 + Number(zoned[4])) : 0) : undefined;
	const [first, second, ...rest] = (zoned ? zoned[1] : text).split(/[\s,]+|(?<=\d)t(?=\d)/);
	if (rest.length) return NONE;
	const alone = second === undefined ? readClock(first) : undefined;
	if (alone) {
		const today = { ...fieldsOf(now, offset), ...alone }, seconds = secondsOf(today, offset);
		return { seconds: seconds <= now ? seconds : secondsOf({ ...today, day: today.day - 1 }, offset), length: 0, isClock: true, offset };
	}
	// "10.05" alone may be a clock or a day.
	const day = second === undefined && /^\d\d?\.\d\d?$/.test(first) ? undefined : readDay(first, now, offset), clock = second === undefined ? undefined : readClock(second);
	if (!day || (second !== undefined && !clock)) return NONE;
	const at = { ...day, hour: 0, minute: 0, second: 0 }, begin = secondsOf({ ...at, ...clock }, offset);
	return { seconds: begin, length: clock ? 0 : secondsOf({ ...at, day: day.day + 1 }, offset) - begin };
}

/** Unix seconds of what a person or a link wrote, of a day its first; NaN when it is no time. */
export function instant(text: string, now: number): number {
	return read(text, now).seconds;
}

/** What lies between two times; NaN for what is no time. A day ends with its last second; a clock after a time is that day's, or past midnight the next. */
export function stretch(from: string, to: string, now: number): { start: number; end: number } {
	const a = read(from, now), b = read(to, now);
	let end = b.seconds + b.length;
	if (b.isClock && !relative(from) && !Number.isNaN(a.seconds)) {
		const f = fieldsOf(b.seconds, b.offset), onDay = (by: number) => {
			const d = fieldsOf(a.seconds, b.offset);
			return secondsOf({ ...f, year: d.year, month: d.month, day: d.day + by, second: f.second + (b.seconds % 1) }, b.offset);
		};
		end = onDay(0);
		if (end <= a.seconds && a.isClock) end = onDay(1);
	}
	return { start: a.seconds, end };
}

/** Both ends of "10:05-10:10", "26.11. 10:05 – 10:10", "yesterday to now"; undefined when it is no range. */
export function split(text: string, now: number): [string, string] | undefined {
	if (!Number.isNaN(instant(text, now))) return undefined;
	for (const m of text.matchAll(/\s+to\s+|\.\.\.?|[-–—]/gi)) {
		const from = text.slice(0, m.index).trim(), to = text.slice(m.index! + m[0].length).trim();
		if (!Number.isNaN(instant(from, now)) && !Number.isNaN(instant(to, now))) return [from, to];
	}
	return undefined;
}
