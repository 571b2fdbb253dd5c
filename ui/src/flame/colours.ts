// SPDX-License-Identifier: Apache-2.0
//
// What a bar's colour says: its binary, its kind, its package, or in a difference how much it changed.
import { languageOf, languageTitle } from '../mappings';
import { baseName, KINDS, Tree } from './tree';

export type ColourBy = 'binary' | 'kind' | 'package' | 'function';
export const COLOURS: [ColourBy, string][] = [['binary', 'Binary'], ['kind', 'Kind of code'], ['package', 'Package'], ['function', 'Function']];
export interface Palette {
	fills: string[];
	dim: number; // index of what a search does not match
	match: number;
	rest: number;
	of: (node: number) => number; // index of its fill
	mark?: (node: number) => string; // a letter before its name, or ''
	legend: Key[];
}
type Key = [text: string, colour: string, self: number, mark?: string];

/** Hue, chroma-like saturation: apart for most eyes, and calm. */
const HUES: [number, number][] = [[211, 62], [28, 72], [152, 42], [265, 46], [345, 58], [186, 52], [48, 70], [300, 36], [96, 42], [230, 48], [12, 62], [172, 40]];
const SHADES = 3;
const KIND_HUES: Record<string, [number, number]> = {
	native: [211, 62], kernel: [28, 72], jit: [152, 42], interpreter: [265, 46], unknown: [220, 8], label: [220, 14], cut: [220, 6], root: [220, 10], inlined: [186, 52], truncated: [345, 40],
};
/** Frames of languages. The first four differ for eyes that lack a colour about as much as kernel, native and JIT code do, in both themes. PHP is like Python to them. */
const LANGUAGE_HUES: Record<string, [number, number]> = {
	python: [56, 90], java: [240, 85], javascript: [348, 85], ruby: [180, 75], php: [42, 95], dotnet: [285, 70], erlang: [325, 65], perl: [200, 90], lua: [96, 70],
};
const NEAR = 20; // degrees between hues that look alike
const NEUTRAL: [number, number] = [220, 8];

export function isDark(): boolean {
	const chosen = document.documentElement.dataset.theme;
	return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

export function hash(text: string): number {
	let x = 2166136261;
	for (let i = 0; i < text.length; i++) x = Math.imul(x ^ text.charCodeAt(i), 16777619);
	return (x ^ (x >>> 15)) >>> 0;
}

/** Yellow and green are brighter than blue of the same lightness: light names have to be legible on all of them (4.5 to 1). */
const darkest = (hue: number) => (hue < 15 || hue > 195 ? 33 : hue < 40 ? 31 : hue < 76 ? 24 : 28);

function shade([hue, saturation]: [number, number], step: number, dark: boolean): string {
	return dark ? `hsl(${hue} ${Math.round(saturation * 0.62)}% ${darkest(hue) + step * 4}%)` : `hsl(${hue} ${saturation}% ${77 - step * 4}%)`;
}

/** "runtime" of "runtime.mallocgc", "net/http" of "net/http.(*conn).serve", "java.util" of "java.util.List.add", "std" of "std::sort". */
export function packageOf(name: string): string {
	const plain = name.replace(/<[^>]*>|\(.*$/g, '');
	const colons = plain.lastIndexOf('::');
	if (colons > 0) return plain.slice(0, colons).split('::')[0].replace(/^.* /, '');
	const slash = plain.lastIndexOf('/'), dot = plain.indexOf('.', slash + 1);
	if (slash >= 0 && dot > 0) return plain.slice(0, dot);
	const parts = plain.split('.');
	return parts.length > 2 ? parts.slice(0, -2).join('.') : parts.length === 2 ? parts[0] : '';
}

function groupOf(t: Tree, by: ColourBy, f: number, kind: string): string {
	switch (by) {
	case 'kind': return languageOf(t.functions.mapping[f]) || kind;
	case 'binary': return t.functions.mapping[f] ? baseName(t.functions.mapping[f]) : kind === 'unknown' || kind === 'native' ? '' : kind;
	case 'package': return packageOf(t.functions.name[f]) || baseName(t.functions.mapping[f]);
	default: return t.functions.name[f];
	}
}

/** The hue of a kind or of a language, which no other group's name decides. */
function fixedHue(by: ColourBy, group: string): [number, number] | undefined {
	if (by === 'kind') return KIND_HUES[group] ?? LANGUAGE_HUES[group] ?? NEUTRAL;
	return by === 'binary' ? KIND_HUES[group] ?? LANGUAGE_HUES[languageOf(group)] : undefined;
}

/** The groups that weigh most get the colours of their own, in an order that does not change with the values; none is like that of a language that is there. */
function hueTable(weights: Map<string, number>, by: ColourBy): Map<string, [number, number]> {
	const top = [...weights].sort((a, b) => b[1] - a[1]).map(([g]) => g), out = new Map<string, [number, number]>();
	const languages = by === 'binary' ? top.flatMap((g) => LANGUAGE_HUES[languageOf(g)]?.[0] ?? []) : [], isNear = HUES.map(([hue]) => languages.some((l) => Math.abs(l - hue) < NEAR)), taken = new Set([...isNear.keys()].filter((i) => isNear[i]));
	for (const g of top) {
		let i = hash(g) % HUES.length;
		for (let tries = 0; (isNear[i] || (taken.has(i) && taken.size < HUES.length)) && tries < HUES.length; tries++) i = (i + 1) % HUES.length;
		taken.add(i);
		out.set(g, fixedHue(by, g) ?? (g === '' ? NEUTRAL : HUES[i]));
	}
	return out;
}

function base(dark: boolean): { fills: string[]; dim: number; match: number; rest: number } {
	return {
		fills: dark ? ['hsl(220 8% 24%)', 'hsl(322 62% 45%)', 'hsl(220 8% 20%)', 'hsl(220 9% 30%)', 'hsl(220 8% 26%)'] : ['hsl(220 12% 92%)', 'hsl(322 78% 76%)', 'hsl(220 12% 94%)', 'hsl(220 14% 84%)', 'hsl(220 10% 89%)'],
		dim: 0, match: 1, rest: 2,
	};
}
const ROOT = 3, CUT = 4;

/** Binaries tell a whole machine's stacks apart; those of one program differ by package, or where names have none by function. */
export function defaultColours(t: Tree): ColourBy {
	const self = new Map<string, number>();
	for (let f = 0; f < t.fnSelf.length; f++) self.set(t.functions.mapping[f], (self.get(t.functions.mapping[f]) ?? 0) + t.fnSelf[f]);
	if (![...self.values()].some((v) => v > 0.97 * t.total[0])) return 'binary';
	const unknown = t.fnSelf.reduce((sum, v, f) => (t.functions.mapping[f] || packageOf(t.functions.name[f]) ? sum : sum + v), 0);
	return unknown > t.total[0] / 2 ? 'function' : 'package';
}

export function paint(t: Tree, by: ColourBy, dark = isDark()): Palette {
	const p = base(dark), weights = new Map<string, number>(), groups = new Map<number, string>(), { fn, kind, cut, kindSelf } = t;
	for (let key = 0; key < kindSelf.length; key++) if (!Number.isNaN(kindSelf[key])) {
		const f = Math.floor(key / KINDS), name = t.kinds[key % KINDS] ?? 'unknown';
		if (name === 'root') continue;
		const g = groupOf(t, by, f, name);
		groups.set(key, g);
		weights.set(g, (weights.get(g) ?? 0) + kindSelf[key]);
	}
	const hues = hueTable(weights, by), at = new Map<string, number>();
	const fillOf = (hue: [number, number], step: number) => {
		const css = shade(hue, step, dark), old = at.get(css);
		if (old !== undefined) return old;
		at.set(css, p.fills.length);
		return p.fills.push(css) - 1;
	};
	const index = new Uint16Array(kindSelf.length);
	for (const [key, g] of groups) index[key] = fillOf(hues.get(g) ?? NEUTRAL, hash(t.functions.name[Math.floor(key / KINDS)]) % SHADES);
	const of = (i: number) => (!i ? ROOT : cut.size && cut.has(i) ? CUT : index[fn[i] * KINDS + (kind[i] & (KINDS - 1))]);
	const legend = [...weights].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([g, self]): Key => [g === 'cut' && by !== 'function' ? 'not loaded' : by === 'kind' ? languageTitle(g) : g || 'unknown', shade(hues.get(g)!, 1, dark), self]);
	return { ...p, of, legend };
}

const DIFF_STEPS = 9;
const MARKS = ['', '+', '−', '↔'], NEW = 1, GONE = 2, MOVED = 3;
/** Not significant, too few samples. */
const UNCOLOURED = new Set(['~', 'few']);
const LEAST_SCALE = 0.05; // of a panel's colours: a tenth more
const SAMPLING = 2; // standard errors that a change of single runs has to exceed

function diffFill(step: number, dark: boolean): string {
	const share = Math.abs(step) / DIFF_STEPS, hue = step > 0 ? 8 : 214;
	if (!step) return dark ? 'hsl(220 6% 34%)' : 'hsl(220 8% 88%)';
	return dark ? `hsl(${hue} ${Math.round(20 + 45 * share)}% ${Math.round(34 + 12 * share)}%)` : `hsl(${hue} ${Math.round(30 + 55 * share)}% ${Math.round(89 - 30 * share)}%)`;
}

export interface DiffColours {
	scale: [number, number];
	isTested?: boolean; // of replicates: grey is not significant
	panels?: boolean; // each child of the root has a scale of its own, else one from gone to new
	labels?: [string, string];
}

/** From −1, gone, to 1, new; 0 of what is not significant or, of single runs, no more than sampling error. */
function changeOf(t: Tree, i: number, o: DiffColours): number {
	const s = t.sides!, a = s.totalA[i] * o.scale[0], b = s.totalB[i] * o.scale[1], verdict = t.verdicts[s.verdict[i]];
	if (!(a + b) || (o.isTested && UNCOLOURED.has(verdict))) return 0;
	if (verdict === 'untested' && Math.abs(b - a) < SAMPLING * Math.hypot(s.seA[i], s.seB[i])) return 0;
	const change = (b - a) / (a + b);
	return Math.abs(change) < 0.005 ? 0 : change;
}

/** Red is more in B, blue is less, violet moved among siblings, the shade how much; by the change of the node's values, scaled. */
export function paintDiff(t: Tree, o: DiffColours): Palette {
	const dark = isDark(), p = base(dark), s = t.sides!, fills = new Uint8Array(t.n), first = p.fills.length, labels = o.labels ?? ['A', 'B'];
	for (let k = -DIFF_STEPS; k <= DIFF_STEPS; k++) p.fills.push(diffFill(k, dark));
	const violet = dark ? 'hsl(275 32% 46%)' : 'hsl(275 45% 80%)', moved = p.fills.push(violet) - 1;
	const panel = new Uint32Array(t.n), largest = new Float64Array(t.n).fill(o.panels ? LEAST_SCALE : 1);
	const marks = new Uint8Array(t.n), has = new Uint8Array(MARKS.length);
	for (let i = 1; i < t.n && o.panels; i++) {
		panel[i] = t.parent[i] ? panel[t.parent[i]] : i;
		largest[panel[i]] = Math.max(largest[panel[i]], Math.abs(changeOf(t, i, o)));
	}
	for (let i = 1; i < t.n; i++) {
		const change = changeOf(t, i, o) / largest[panel[i]], isMoved = change !== 0 && t.verdicts[s.verdict[i]] === 'moved';
		marks[i] = t.cut.has(i) ? 0 : isMoved ? MOVED : !s.totalA[i] && s.totalB[i] ? NEW : s.totalA[i] && !s.totalB[i] ? GONE : 0;
		has[marks[i]] = 1;
		fills[i] = t.cut.has(i) ? CUT : isMoved ? moved : first + DIFF_STEPS + Math.round(Math.sign(change) * Math.sqrt(Math.abs(change)) * DIFF_STEPS);
	}
	fills[0] = ROOT;
	const legend = [-9, -5, -2, 0, 2, 5, 9].map((k): Key => [k === -9 ? `less in ${labels[1]}` : k === 9 ? `more in ${labels[1]}` : !k && o.isTested ? 'not significant' : '', diffFill(k, dark), 0]);
	if (has[NEW]) legend.push([`new in ${labels[1]}`, diffFill(DIFF_STEPS, dark), 0, MARKS[NEW]]);
	if (has[GONE]) legend.push([`gone in ${labels[1]}`, diffFill(-DIFF_STEPS, dark), 0, MARKS[GONE]]);
	if (has[MOVED]) legend.push(['moved among siblings', violet, 0, MARKS[MOVED]]);
	return { ...p, of: (i) => fills[i], mark: (i) => MARKS[marks[i]], legend };
}
