// SPDX-License-Identifier: Apache-2.0
//
// Values as a person reads them: rounded, never truncated, always with their unit.

type Step = [number, string];
const TIME: Step[] = [[86400e9, 'd'], [3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const BYTES: Step[] = [[2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];
const COUNT: Step[] = [[1e12, ' T'], [1e9, ' G'], [1e6, ' M'], [1e3, ' k'], [1, '']];
const SCALES: Record<string, { steps: Step[]; factor: number; gap: string }> = {
	nanoseconds: { steps: TIME, factor: 1, gap: '\u202f' },
	microseconds: { steps: TIME, factor: 1e3, gap: '\u202f' },
	milliseconds: { steps: TIME, factor: 1e6, gap: '\u202f' },
	seconds: { steps: TIME, factor: 1e9, gap: '\u202f' },
	bytes: { steps: BYTES, factor: 1, gap: '\u202f' },
};

/** Three significant digits, no exponent. */
export function digits(v: number): string {
	const a = Math.abs(v);
	if (v === 0) return '0';
	return a >= 99.95 ? String(Math.round(v)) : a >= 9.995 ? v.toFixed(1) : a >= 0.9995 ? v.toFixed(2) : String(Number(v.toPrecision(3)));
}

export function value(v: number, unit: string): string {
	const scale = SCALES[unit] ?? { steps: COUNT, factor: 1, gap: '' };
	const x = v * scale.factor;
	const [divisor, name] = scale.steps.find(([d]) => Math.abs(x) >= d * 0.9995) ?? scale.steps[scale.steps.length - 1];
	const text = `${divisor === 1 && Number.isInteger(x) ? x : digits(x / divisor)}${scale.gap}${name}`;
	return SCALES[unit] || unit === 'count' || unit === '' ? text : `${text}\u202f${unit}`;
}

export function percent(share: number): string {
	if (!Number.isFinite(share)) return '–';
	const p = share * 100;
	return `${Math.abs(p) >= 99.95 ? p.toFixed(0) : Math.abs(p) >= 0.0995 || p === 0 ? p.toFixed(1) : p.toPrecision(1)}%`;
}

export function signedPercent(share: number): string {
	return share === Infinity ? 'new' : `${share > 0 ? '+' : ''}${percent(share)}`.replace('-', '−');
}

export function integer(n: number): string {
	return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** Is a profile type (name:sample_type:unit:…) CPU time? A second of it a second is a core; waiting, though in the same unit, is none. */
export function isCpuTime(profileType: string): boolean {
	const [, sampleType, unit] = profileType.split(':');
	return sampleType === 'cpu' && unit === 'nanoseconds';
}

export interface Rate {
	factor: number; // by which an amount per second is multiplied
	text: (v: number) => string;
	name: string;
}

/** What an amount per second of a type is: CPU time cores, other time (waiting) as much a second, what is in use as it is. */
export function perSecond({ unit, profile_type }: { unit: string; profile_type: string }, isInstant: boolean): Rate {
	if (isInstant) return { factor: 1, text: (v) => value(v, unit), name: unit };
	if (isCpuTime(profile_type)) return { factor: 1e-9, text: (v) => `${digits(v)} cores`, name: 'cores' };
	return { factor: 1, text: (v) => `${value(v, unit)}/s`, name: `${unit} per second` };
}

/** The same of a sum per step, as graphs over time have it. */
export function rateOf(of: { unit: string; profile_type: string }, isInstant: boolean, step: number): Rate {
	const rate = perSecond(of, isInstant);
	return isInstant ? rate : { ...rate, factor: rate.factor / step };
}

/** How far apart ticks of an axis may be, so that they are round in what `value` shows; undefined: decimal. */
export function ticks(unit: string): number[] | undefined {
	const scale = SCALES[unit];
	if (!scale) return undefined;
	const powers = (base: number, n: number, of: number[]) => Array.from({ length: n }, (_, k) => of.map((m) => m * base ** k)).flat();
	const steps = scale.steps === BYTES ? [...powers(1024, 6, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])]
		: [...powers(10, 10, [1, 2, 5]), 10e9, 20e9, 30e9, ...[1, 2, 5, 10, 20, 30].map((m) => m * 60e9), ...[1, 2, 3, 6, 12].map((m) => m * 3600e9), ...powers(10, 5, [1, 2, 5]).map((m) => m * 86400e9)];
	return steps.map((step) => step / scale.factor);
}
