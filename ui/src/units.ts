// SPDX-License-Identifier: Apache-2.0
//
// Values as a person reads them: rounded, never truncated, always with their unit.
// lib/base/units.c once more, for the web; tests/data/units.txt holds them together.

type Step = [number, string];
interface Family {
	steps: Step[];
	exact: number; // whole values below it keep all digits
	units: Record<string, number>; // how many of the smallest step each is
}
const GAP = '\u202f';
const SIZES: Family = { steps: [...'PTGMK'].map((k, i): Step => [1024 ** (5 - i), `${k}iB`]).concat([[1, 'B']]), exact: 1024, units: { bytes: 1, byte: 1, b: 1, kilobytes: 1024, kb: 1024, megabytes: 1024 ** 2, mb: 1024 ** 2, gigabytes: 1024 ** 3, gb: 1024 ** 3 } };
const TIMES: Family = { steps: [[86400e9, 'd'], [3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']], exact: 1e3, units: { nanoseconds: 1, ns: 1, microseconds: 1e3, us: 1e3, milliseconds: 1e6, ms: 1e6, seconds: 1e9, s: 1e9 } };
const COUNTS: Family = { steps: [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']], exact: 1e5, units: { count: 1, '': 1, thousandths: 1e-3, millionths: 1e-6, billionths: 1e-9 } };
const FAMILIES: Family[] = [TIMES, SIZES, COUNTS, { steps: [[1, ' cores']], exact: 0, units: { nanocores: 1e-9, cores: 1 } }, { steps: [[1, '%']], exact: 0, units: { ppm: 1e-4 } }];
const familyOf = (unit: string) => FAMILIES.find((f) => Object.hasOwn(f.units, unit));
const PER_SECOND = '/second';
const MAX_DECIMALS = 15;

/** Three digits, halves away from 0, no exponent; below 1 without zeros at the end. */
export function digits(v: number): string {
	const size = Math.abs(v);
	let power = 1, decimals = 0;
	for (; size > 0 && size * power < 99.95 && decimals < MAX_DECIMALS; decimals++) power *= 10;
	const rounded = Math.floor(size * power + 0.5) / power;
	if (!rounded) return '0';
	const text = rounded.toFixed(decimals);
	return `${v < 0 ? '-' : ''}${size < 0.9995 ? text.replace(/0+$/, '') : text}`;
}

/** A value with its unit. `/second` behind a unit ends the text in `/s`. */
export function value(v: number, of: string): string {
	const isRate = of.endsWith(PER_SECOND), name = isRate ? of.slice(0, -PER_SECOND.length) : of, family = familyOf(name), { steps, exact } = family ?? COUNTS, x = v * (family?.units[name] ?? 1);
	const isExact = Math.abs(x) < exact && Number.isInteger(x), last = steps[steps.length - 1];
	const [size, suffix] = isExact ? last : (steps.find(([d]) => Math.abs(x) >= d * 0.9995) ?? last);
	return `${isExact ? x || 0 : digits(x / size)}${x && /^\w|µ/.test(suffix) ? GAP : ''}${x || !steps[1] ? suffix : ''}${family ? '' : GAP + name}${isRate ? '/s' : ''}`;
}

export function percent(share: number): string {
	if (!Number.isFinite(share)) return '–';
	const p = share * 100;
	return `${Math.abs(p) >= 99.95 ? p.toFixed(0) : Math.abs(p) >= 0.0995 || p === 0 ? p.toFixed(1) : digits(Number(p.toPrecision(1)))}%`;
}

/** Of a text of `value` or `percent` what a column has room for: so many decimals, and what is below them says that it is. */
export function brief(text: string, decimals: number): string {
	const [, number, suffix] = /^(0\.\d+)(\D*)$/.exec(text) ?? [], least = 10 ** -decimals;
	if (!number || number.length <= decimals + 2) return text;
	return Number(number) < least ? `<${least.toFixed(decimals)}${suffix}` : `${Number(number).toFixed(decimals).replace(/0+$/, '')}${suffix}`;
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

/** The unit of a value per second: of CPU time cores; what is in use (an instant type) is no rate and keeps its unit. */
export function rateUnit({ unit: of, profile_type }: { unit: string; profile_type: string }, isInstant: boolean): string {
	return isInstant ? of : isCpuTime(profile_type) ? 'nanocores' : `${of}${PER_SECOND}`;
}

/** What an amount per second of a type is: CPU time cores, other time (waiting) as much a second, what is in use as it is. */
export function perSecond(of: { unit: string; profile_type: string }, isInstant: boolean): Rate {
	const shown = rateUnit(of, isInstant);
	if (shown === 'nanocores') return { factor: 1e-9, text: (v) => value(v, 'cores'), name: 'cores' };
	return { factor: 1, text: (v) => value(v, shown), name: isInstant ? of.unit : `${of.unit} per second` };
}

/** A unit's name in a sentence. */
export function unitName(of: string): string {
	return of === 'nanocores' ? 'cores' : of === 'ppm' ? 'shares' : of;
}

/** The same of a sum per step, as graphs over time have it. */
export function rateOf(of: { unit: string; profile_type: string }, isInstant: boolean, step: number): Rate {
	const rate = perSecond(of, isInstant);
	return isInstant ? rate : { ...rate, factor: rate.factor / step };
}

/** How far apart ticks of an axis may be, so that they are round in what `value` shows; undefined: decimal. */
export function ticks(of: string): number[] | undefined {
	const family = familyOf(of);
	if (family !== TIMES && family !== SIZES) return undefined;
	const powers = (base: number, n: number, list: number[]) => Array.from({ length: n }, (_, k) => list.map((m) => m * base ** k)).flat();
	const steps = family === SIZES ? [...powers(1024, 6, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])]
		: [...powers(10, 10, [1, 2, 5]), 10e9, 15e9, 30e9, ...[1, 2, 5, 10, 15, 30].map((m) => m * 60e9), ...[1, 2, 3, 6, 12].map((m) => m * 3600e9), ...powers(10, 5, [1, 2, 5]).map((m) => m * 86400e9)];
	return steps.map((step) => step / family.units[of]);
}
