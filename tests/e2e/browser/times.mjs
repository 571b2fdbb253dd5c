// Times as people write them: times.mjs NODE_MODULES, where esbuild lies. Throws where one is wrong.
import assert from 'node:assert/strict';
import { load } from './load.mjs';

const { instant, stretch, split, duration, durationText, relative, setUtc, zoneText, timeText, readRange, rangeProblem, timeTicks, tickText } = await load(process.argv[2],
	"export * from './instant'; export { setUtc, zoneText } from './zone'; export { timeText, readRange, rangeProblem, timeTicks, tickText } from './time';");
const zone = (name) => {
	setUtc(false);
	process.env.TZ = name;
};
const utc = (text) => Date.parse(text) / 1e3;
const iso = (seconds) => (Number.isNaN(seconds) ? 'none' : new Date(seconds * 1e3).toISOString().replace('.000Z', 'Z'));

/* ---- one time ---- */

const NOW = utc('2026-11-26T14:07:00Z'); // a Thursday, 15:07 in Berlin
const ONE = {
	'now': '2026-11-26T14:07:00Z', 'now-1h': '2026-11-26T13:07:00Z', '-1h': '2026-11-26T13:07:00Z', '−1h30m': '2026-11-26T12:37:00Z', ' now - 90s ': '2026-11-26T14:05:30Z', 'now+1d': '2026-11-27T14:07:00Z', 'NOW-1H': '2026-11-26T13:07:00Z',
	'10:05': '2026-11-26T09:05:00Z', '15:07': '2026-11-26T14:07:00Z', '15:08': '2026-11-25T14:08:00Z', '4:05:30': '2026-11-26T03:05:30Z', '00:00': '2026-11-25T23:00:00Z', '10:05 UTC': '2026-11-26T10:05:00Z', '23:30Z': '2026-11-25T23:30:00Z',
	'today': '2026-11-25T23:00:00Z', 'Yesterday': '2026-11-24T23:00:00Z', 'yesterday 14:00': '2026-11-25T13:00:00Z', 'today, 10:05': '2026-11-26T09:05:00Z',
	'26.11. 10:05': '2026-11-26T09:05:00Z', '26.11 10:05': '2026-11-26T09:05:00Z', '27.11. 10:05': '2025-11-27T09:05:00Z', '1.7.': '2026-06-30T22:00:00Z', '29.2.': '2024-02-28T23:00:00Z', '26.11.2026 04:05': '2026-11-26T03:05:00Z', '26.11.2026': '2026-11-25T23:00:00Z',
	'2026-11-26': '2026-11-25T23:00:00Z', '2026-11-26 10:05': '2026-11-26T09:05:00Z', '2026-07-01T10:05': '2026-07-01T08:05:00Z', '2026-11-26 10:05:07.5': '2026-11-26T09:05:07.500Z', '2026-11-26T10:05:00Z': '2026-11-26T10:05:00Z', '2026-11-26T10:05:00+05:30': '2026-11-26T04:35:00Z', '2026-11-26T10:05:00-0300': '2026-11-26T13:05:00Z',
	'1795000000': '2026-11-18T11:06:40Z', '1795000000.5': '2026-11-18T11:06:40.500Z', '1795000000000': '2026-11-18T11:06:40Z', '1795000000000000': '2026-11-18T11:06:40Z', '1795000000000000000': '2026-11-18T11:06:40Z',
	'': 'none', '1h': 'none', '+1h': 'none', '-': 'none', '-1x': 'none', 'now-': 'none', 'nowhere': 'none', 'yesterdy': 'none', 'yesterday 25:00': 'none', '24:00': 'none', '10:60': 'none', '10:5': 'none', '10.05': 'none', '31.2.': 'none', '29.2.2026': 'none', '0.1.': 'none', '1.13.': 'none', '2026-02-30': 'none', '2026-13-01': 'none', '2026-1-1': 'none', '11/26/2026': 'none', '26.11. 10:05 11:05': 'none', '10:05-10:10': 'none', '12345': 'none', '04:05PM': 'none', '2026-11-26T10:05:00+0530 x': 'none',
};
zone('Europe/Berlin');
for (const [text, expected] of Object.entries(ONE)) assert.equal(iso(instant(text, NOW)), expected, `“${text}”`);
setUtc(true);
for (const [text, expected] of [['10:05', '2026-11-26T10:05:00Z'], ['yesterday', '2026-11-25T00:00:00Z'], ['2026-11-26 10:05', '2026-11-26T10:05:00Z'], ['2026-11-26T10:05:00+01:00', '2026-11-26T09:05:00Z']]) assert.equal(iso(instant(text, NOW)), expected, `“${text}” in UTC`);
assert.equal(zoneText(NOW), 'UTC');

/* ---- from, to: fields of their own, or one text ---- */

const RANGES = [
	['10:05-10:10', '2026-11-26T09:05:00Z', '2026-11-26T09:10:00Z'], ['10:05 – 10:10', '2026-11-26T09:05:00Z', '2026-11-26T09:10:00Z'], ['10:05 to 10:10', '2026-11-26T09:05:00Z', '2026-11-26T09:10:00Z'], ['10:05..10:10', '2026-11-26T09:05:00Z', '2026-11-26T09:10:00Z'],
	['15:00-15:10', '2026-11-26T14:00:00Z', '2026-11-26T14:10:00Z'], ['16:00-16:10', '2026-11-25T15:00:00Z', '2026-11-25T15:10:00Z'], ['23:50-00:10', '2026-11-25T22:50:00Z', '2026-11-25T23:10:00Z'],
	['26.11. 10:05-10:10', '2026-11-26T09:05:00Z', '2026-11-26T09:10:00Z'], ['26.11.2026 04:05-04:10', '2026-11-26T03:05:00Z', '2026-11-26T03:10:00Z'], ['2026-11-26 10:05-10:10', '2026-11-26T09:05:00Z', '2026-11-26T09:10:00Z'], ['2026-11-25 10:05 - 2026-11-26 10:05', '2026-11-25T09:05:00Z', '2026-11-26T09:05:00Z'],
	['yesterday 10:05-10:10', '2026-11-25T09:05:00Z', '2026-11-25T09:10:00Z'], ['yesterday-today', '2026-11-24T23:00:00Z', '2026-11-26T23:00:00Z'], ['24.11.-25.11.', '2026-11-23T23:00:00Z', '2026-11-25T23:00:00Z'], ['-2h--1h', '2026-11-26T12:07:00Z', '2026-11-26T13:07:00Z'], ['now-2h-now-1h', '2026-11-26T12:07:00Z', '2026-11-26T13:07:00Z'], ['10:05-now', '2026-11-26T09:05:00Z', '2026-11-26T14:07:00Z'],
	['10:05Z-10:10Z', '2026-11-26T10:05:00Z', '2026-11-26T10:10:00Z'],
];
zone('Europe/Berlin');
for (const [text, start, end] of RANGES) {
	const both = split(text, NOW);
	assert.ok(both, `“${text}” is a range`);
	const r = stretch(...both, NOW);
	assert.deepEqual([iso(r.start), iso(r.end)], [start, end], `“${text}”`);
}
for (const text of ['now-1h', '10:05', '2026-11-26', '10:05-', '-10:05', '10:05-x', '2026-11-26T10:05:00-03:00', 'a-b', '-1h', '-']) assert.equal(split(text, NOW), undefined, `“${text}” is no range`);
const PAIRS = [
	['yesterday', 'yesterday', '2026-11-24T23:00:00Z', '2026-11-25T23:00:00Z'], ['yesterday', 'now', '2026-11-24T23:00:00Z', '2026-11-26T14:07:00Z'], ['now-1d', '10:05', '2026-11-25T14:07:00Z', '2026-11-26T09:05:00Z'], ['yesterday 10:05', '09:00', '2026-11-25T09:05:00Z', '2026-11-25T08:00:00Z'],
	['10:05', 'nonsense', '2026-11-26T09:05:00Z', 'none'], ['nonsense', '10:05', 'none', '2026-11-26T09:05:00Z'],
];
for (const [from, to, start, end] of PAIRS) {
	const r = stretch(from, to, NOW);
	assert.deepEqual([iso(r.start), iso(r.end)], [start, end], `from “${from}” to “${to}”`);
}

/* ---- whatever the zone and the day ---- */

const DAYS = ['2026-11-26T14:07:00Z', '2026-03-29T00:30:00Z', '2026-03-29T10:00:00Z', '2026-10-25T00:30:00Z', '2026-10-25T01:30:00Z', '2026-10-25T10:00:00Z', '2024-02-29T23:59:59Z', '2027-01-01T00:00:00Z', '2026-04-05T03:00:00Z'].map(utc);
const HALF_HOURS = Array.from({ length: 48 }, (_, i) => `${String(i >> 1).padStart(2, '0')}:${i % 2 ? '30' : '00'}`);
for (const name of ['UTC', 'Europe/Berlin', 'Asia/Kolkata', 'America/St_Johns', 'Pacific/Kiritimati', 'Pacific/Pago_Pago', 'Australia/Lord_Howe']) for (const now of DAYS) {
	zone(name);
	const at = `${name}, ${iso(now)}`;
	for (const clock of HALF_HOURS) {
		const t = instant(clock, now), read = timeText(t);
		assert.ok(t <= now && t > now - 90000, `${clock} is the last one: ${read} at ${at}`);
		if (!read.endsWith(`${clock}:00`)) assert.equal(t - new Date(t * 1e3).setHours(0, 0, 0, 0) / 1e3 > 0, true, `${clock} is left out by the change of the clock: ${read} at ${at}`);
		for (const other of HALF_HOURS) {
			const r = stretch(clock, other, now), length = r.end - r.start;
			assert.ok(r.start === t && length > 0 && length <= 90000, `${clock}-${other} is within a day: ${length} s at ${at}`);
			assert.deepEqual(stretch(...split(`${clock}-${other}`, now), now), r);
		}
	}
	for (let t = now - 400 * 86400; t < now; t += 86400 * 3 + 12347) {
		// In the hour that stands twice the clock alone does not tell which.
		const again = instant(timeText(t), now);
		assert.ok(again === t || timeText(again) === timeText(t), `${timeText(t)} is read as it is written at ${at}`);
		assert.equal(instant(`${new Date(t * 1e3).toISOString()}`, now), t);
		assert.equal(instant(String(t), now), t);
	}
	const day = stretch('yesterday', 'yesterday', now), today = stretch('today', 'today', now);
	assert.ok(day.end === today.start && today.start <= now && now < today.end, `yesterday ends where today begins at ${at}`);
	assert.match(zoneText(now), /^UTC([+−]\d\d?(:\d\d)?)?$/);
}
for (const [name, text] of [['UTC', 'UTC'], ['Europe/Berlin', 'UTC+1'], ['Asia/Kolkata', 'UTC+5:30'], ['America/St_Johns', 'UTC−3:30']]) {
	zone(name);
	assert.equal(zoneText(NOW), text);
}
for (const s of [1, 59, 60, 3600, 5400, 86400, 604800, 90061]) assert.equal(duration(durationText(s)), s);
for (const text of ['-1h', 'now - 1h', 'now-1h', '−1h']) assert.equal(relative(text), 'now-1h');

// Nothing that is typed throws, and what is no time is one thing only: NaN.
const PIECES = ['now', '-', '1h', ' ', '10', ':', '05', '.', '26', '11', '2026', 'T', 'Z', '+', 'yesterday', '–', 'to', '99', 'é'];
let seed = 7;
const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
for (let i = 0; i < 20000; i++) {
	const text = Array.from({ length: 1 + random(7) }, () => PIECES[random(PIECES.length)]).join(''), t = instant(text, NOW), both = split(text, NOW);
	assert.ok(Number.isNaN(t) || Number.isFinite(t), text);
	assert.ok(!both || (Number.isNaN(t) && both.every((part) => Number.isFinite(instant(part, NOW)))), text);
}

/* ---- an address ---- */

zone('Europe/Berlin');
const range = (text) => readRange(new URLSearchParams(text));
assert.deepEqual(range('start=-1h'), { start: 'now-1h', end: 'now' });
assert.deepEqual(range('seconds=60'), { start: 'now-60s', end: 'now' });
assert.deepEqual(range('seconds=60&end=now-1h'), { start: 'now-3660s', end: 'now-1h' });
assert.deepEqual(range('seconds=60&end=1795000000&start=5'), { start: '1794999940', end: '1795000000' });
const PROBLEMS = {
	'': undefined, 'start=yesterday': undefined, 'start=-2h&end=-1h': undefined, 'start=10:05&end=10:10': undefined, 'seconds=60': undefined, 'start=2020-11-26T10:05:00%2B01:00&end=now%2B1h': undefined,
	'start=yesterdy': /^start=yesterdy in the address is no time\. Times are as 10:05/, 'end=soon': /^end=soon in the address is no time/, 'seconds=many': /^seconds=many in the address is no number of seconds\.$/, 'seconds=60&end=soon': /^end=soon /,
	'start=now&end=now-1h': /^start=now and end=now-1h in the address: the range begins at .* which is not before its end, /, 'start=now': /^start=now in the address: the range begins at /, 'seconds=0': /^seconds=0 in the address: the range begins at /,
};
for (const [text, expected] of Object.entries(PROBLEMS)) {
	const said = rangeProblem(new URLSearchParams(text));
	if (expected) assert.match(said ?? 'nothing', expected, text);
	else assert.equal(said, undefined, text);
}
assert.match(rangeProblem(new URLSearchParams('start_b=x'), '_b'), /^start_b=x in the address/);

/* ---- ticks of an axis: round in the zone, at midnight the date ---- */

const axis = (from, to, most) => {
	const { step, ticks } = timeTicks(utc(from), utc(to), most);
	return ticks.map((t) => tickText(t, step)).join(' ');
};
setUtc(true);
assert.equal(axis('2026-11-26T02:53:15Z', '2026-11-26T03:53:15Z', 8), '03:00 03:10 03:20 03:30 03:40 03:50');
assert.equal(axis('2026-11-26T23:58:20Z', '2026-11-27T00:00:10Z', 5), '23:58:30 23:59:00 23:59:30 11-27');
assert.equal(axis('2026-11-25T10:00:00Z', '2026-11-26T10:00:00Z', 4), '12:00 18:00 11-26 06:00');
assert.equal(axis('2026-11-01T10:00:00Z', '2026-11-26T10:00:00Z', 5), '11-06 11-11 11-16 11-21 11-26');
assert.equal(axis('2026-11-26T10:05:00Z', '2026-11-26T10:05:04Z', 9), '10:05:00 10:05:01 10:05:02 10:05:03 10:05:04');
zone('Asia/Kolkata'); // five and a half hours east
assert.equal(axis('2026-11-26T02:53:15Z', '2026-11-26T05:53:15Z', 4), '09:00 10:00 11:00');
zone('Europe/Berlin'); // the 25th of October has 25 hours
assert.equal(axis('2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z', 10), '10-25 03:00 06:00 09:00 12:00 15:00 18:00 21:00 10-26');
assert.equal(axis('2026-03-27T23:00:00Z', '2026-03-30T22:00:00Z', 5), '03-28 03-29 03-30 03-31');
