// SPDX-License-Identifier: Apache-2.0
//
// What runs used over their time, a chart for each metric with both sides in it: a thin line a run, the median as a thick one, from the least
// to the most as a band, and below them where the bands lie apart. Aligned at the start of the runs, or by how far they said to be.
import { fill, h, segmented } from './dom';
import { Changes } from './router';
import { integer, percent, value } from './units';
import { canSeparate, chartKey, median, svg } from './viewer_charts';

interface Run {
	seconds: number[];
	progress: (number | null)[];
	values: (number | null)[][]; // per metric; each is of the time since the point before
}
export interface OverTime {
	metrics: { name: string; unit: string }[];
	a: Run[];
	b: Run[];
}
type Align = 'seconds' | 'progress';
type Line = [at: number, value: number][];
interface Band {
	low: number;
	mid: number;
	high: number;
}
interface Side {
	letter: 'a' | 'b';
	label: string;
	lines: Line[];
	bands: (Band | undefined)[]; // per step; none where not all runs of the side go on
}

const WIDTH = 480, HEIGHT = 150, PAD = 6, STRIP = 5;
const STEPS = 120;

/** Amounts are per second; memory is what is in use, CPU time per second is cores. */
function textOf({ name, unit }: { name: string; unit: string }): (v: number) => string {
	return (v) => value(v, name === 'rss' || unit === 'cores' ? unit : `${unit}/second`);
}

/** The points of a run of which place and value are known; what went on while it stood at one place is one point, their mean. */
function lineOf(run: Run, metric: number, align: Align): Line {
	const line: Line = [];
	let n = 0;
	run.values[metric].forEach((v, i) => {
		const at = run[align][i], last = line[line.length - 1];
		if (v === null || at === null) return;
		n = last?.[0] === at ? n + 1 : 1;
		if (n > 1) last[1] += (v - last[1]) / n;
		else line.push([at, v]);
	});
	return line;
}

/** A point stands for what is between it and the one before. */
function valueAt(line: Line, at: number): number | undefined {
	return line.find(([t]) => t >= at)?.[1];
}

function bandAt(lines: Line[], at: number): Band | undefined {
	const values = lines.map((l) => valueAt(l, at)).filter((v): v is number => v !== undefined);
	return lines.length && values.length === lines.length ? { low: Math.min(...values), mid: median(values), high: Math.max(...values) } : undefined;
}

/** The chance that the median of all runs like these lies between the least and the most of n. */
function confidence(n: number): number {
	return 1 - 2 ** (1 - n);
}

class Chart {
	private readonly sides: Side[];
	private readonly text: (v: number) => string;
	private readonly most: number;
	private readonly cursor = svg('line', { class: 'cursor', y1: PAD, y2: HEIGHT - PAD, visibility: 'hidden' });
	private readonly keys = h('div', { class: 'muted' });
	private readonly picture: Element;
	readonly root: HTMLElement;

	constructor(over: OverTime, metric: number, labels: [string, string], private readonly end: number, private readonly place: (at: number) => string, align: Align, private readonly move: (step: number) => void) {
		this.text = textOf(over.metrics[metric]);
		this.sides = (['a', 'b'] as const).map((letter, s): Side => {
			const lines = over[letter].map((run) => lineOf(run, metric, align));
			return { letter, label: labels[s], lines, bands: Array.from({ length: STEPS }, (_, i) => bandAt(lines, this.atStep(i))) };
		});
		this.most = Math.max(...this.sides.flatMap((s) => s.lines.flatMap((l) => l.map(([, v]) => v))), 0);
		const name = over.metrics[metric].name.replace(/_/g, ' ');
		this.picture = svg('svg', {
			viewBox: `0 0 ${WIDTH} ${HEIGHT + 2 * STRIP}`, tabindex: 0, role: 'slider', 'aria-label': `${name} over the runs, up to ${this.text(this.most)}`, 'aria-valuemin': 0, 'aria-valuemax': end, 'aria-valuenow': 0, 'aria-valuetext': 'arrow keys read the medians',
		}, svg('line', { class: 'axis', x1: PAD, x2: WIDTH - PAD, y1: HEIGHT - PAD, y2: HEIGHT - PAD }), ...this.sides.flatMap((s) => this.draw(s)), ...this.apart(), this.cursor);
		this.listen();
		this.root = h('figure', { class: 'chart' }, h('figcaption', {}, h('strong', {}, name), h('span', { class: 'num muted' }, `up to ${this.text(this.most)}`)),
			this.picture, h('div', { class: 'chart-ends muted num' }, h('span', {}, place(0)), h('span', {}, place(end))), this.keys);
		this.show(undefined);
	}

	get isKnown(): boolean {
		return this.most > 0;
	}

	private atStep(i: number): number {
		return ((i + 0.5) / STEPS) * this.end;
	}

	private x(at: number): number {
		return PAD + (at / this.end) * (WIDTH - 2 * PAD);
	}

	private y(v: number): number {
		return HEIGHT - PAD - (v / (this.most || 1)) * (HEIGHT - 2 * PAD);
	}

	private draw({ letter, lines, bands }: Side): Element[] {
		const known = bands.map((band, i) => ({ band, from: this.x((i / STEPS) * this.end), to: this.x(((i + 1) / STEPS) * this.end) })).filter((s): s is { band: Band; from: number; to: number } => s.band !== undefined);
		const along = (y: (b: Band) => number, list = known) => list.map(({ band, from, to }) => `${from},${y(band)} ${to},${y(band)}`).join(' ');
		const back = known.slice().reverse().map(({ from, to, band }) => ({ from: to, to: from, band }));
		const parts = [
			svg('polygon', { class: 'band', points: `${along((b) => this.y(b.high))} ${along((b) => this.y(b.low), back)}` }),
			...lines.map((line) => svg('polyline', { points: line.map(([at, v], i) => `${this.x(i ? line[i - 1][0] : 0)},${this.y(v)} ${this.x(at)},${this.y(v)}`).join(' ') })),
			svg('polyline', { class: 'over-median', points: along((b) => this.y(b.mid)) }),
		];
		for (const el of parts) el.classList.add(`chart-${letter}`);
		return parts;
	}

	/** Where each run of B is above, or below, each of A. */
	private apart(): Element[] {
		const [a, b] = this.sides, width = (WIDTH - 2 * PAD) / STEPS;
		if (a.lines.length < 2 || b.lines.length < 2) return [];
		const [more, less] = canSeparate(a.lines.length, b.lines.length) ? ['strip-more', 'strip-less'] : ['strip-unsure', 'strip-unsure'];
		return a.bands.flatMap((of, i) => {
			const to = b.bands[i], isMore = of && to && to.low > of.high, isLess = of && to && to.high < of.low;
			return isMore || isLess ? [svg('rect', { class: isMore ? more : less, x: PAD + i * width, y: HEIGHT, width: width + 0.3, height: STRIP })] : [];
		});
	}

	/** At a step the medians there, else their means. */
	show(step: number | undefined): void {
		const mean = (s: Side) => {
			const known = s.bands.filter((b) => b !== undefined);
			return known.length ? known.reduce((sum, b) => sum + b!.mid, 0) / known.length : undefined;
		};
		const values = this.sides.map((s) => (step === undefined ? mean(s) : s.bands[step]?.mid)), texts = values.map((v) => (v === undefined ? '–' : this.text(v)));
		fill(this.keys, this.sides.map((s, k) => chartKey(s.letter, s.label, texts[k])), step === undefined ? 'means of the medians' : `at ${this.place(this.atStep(step))}`);
		this.cursor.setAttribute('visibility', step === undefined ? 'hidden' : 'visible');
		if (step === undefined) return;
		for (const end of ['x1', 'x2']) this.cursor.setAttribute(end, String(this.x(this.atStep(step))));
		this.picture.setAttribute('aria-valuenow', String(this.atStep(step)));
		this.picture.setAttribute('aria-valuetext', `${this.place(this.atStep(step))}: ${this.sides.map((s, k) => `${s.label} ${texts[k]}`).join(', ')}`);
	}

	private listen(): void {
		let at = -1;
		const go = (step: number) => this.move((at = Math.min(Math.max(step, 0), STEPS - 1)));
		this.picture.addEventListener('pointermove', (e) => {
			const box = this.picture.getBoundingClientRect(), x = (((e as PointerEvent).clientX - box.left) / box.width) * WIDTH;
			go(Math.floor(((x - PAD) / (WIDTH - 2 * PAD)) * STEPS));
		});
		this.picture.addEventListener('keydown', (e) => {
			const steps: Record<string, number> = { ArrowLeft: at - 1, ArrowRight: at + 1, PageDown: at - 10, PageUp: at + 10, Home: 0, End: STEPS - 1 }, { key } = e as KeyboardEvent;
			if (!(key in steps)) return;
			e.preventDefault();
			go(steps[key]);
		});
		for (const leaves of ['pointerleave', 'blur']) this.picture.addEventListener(leaves, () => this.move(-1));
	}
}

function legend(over: OverTime, labels: [string, string]): HTMLElement {
	const [a, b] = [over.a.length, over.b.length], least = Math.min(a, b);
	const tests = least > 1 ? ` Where all runs of one side lie above or below all of the other, a strip below the axis says so: ${canSeparate(a, b) ? `red is more in ${labels[1]}, blue is less` : 'grey, as so few runs do that by accident too'}. A band holds the median of all runs like these with ${percent(confidence(least))} confidence${a === b ? '' : ', of the side with fewer'}.` : ' With one run a side nothing says how much runs differ anyway.';
	return h('p', { class: 'facts' }, `A thin line is a run (${integer(a)} of ${labels[0]}, ${integer(b)} of ${labels[1]}), a thick one their median, a band reaches from the least to the most, as far as all runs of the side go. Axes begin at 0.${tests}`);
}

/** Undefined when no run has points. */
export function overTime(over: OverTime, labels: [string, string], shown: URLSearchParams, set: (c: Changes) => void): HTMLElement | undefined {
	const runs = [...over.a, ...over.b], farthest = (align: Align) => Math.max(0, ...runs.flatMap((r) => r[align].map((v) => v ?? 0)));
	const hasProgress = runs.every((r) => r.progress.some((v) => v !== null)) && farthest('progress') > 0;
	const align: Align = hasProgress && shown.get('align') === 'progress' ? 'progress' : 'seconds', end = farthest(align);
	if (!(end > 0)) return undefined;
	const move = (step: number) => charts.forEach((c) => c.show(step < 0 ? undefined : step)), place = (at: number) => (at ? value(at, align === 'seconds' ? 'seconds' : 'count') : '0');
	const charts = over.metrics.map((_, m) => new Chart(over, m, labels, end, place, align, move)).filter((c) => c.isKnown);
	return h('div', {}, h('div', { class: 'charts-head' }, h('h2', {}, 'Over the time of the runs'), hasProgress && segmented('Runs are aligned by', [['seconds', 'Time', 'Since each run’s start'], ['progress', 'Progress', 'What each run said of how far it is']], align, (to) => set({ align: to === 'seconds' ? null : to }))),
		h('div', { class: 'charts over-time' }, charts.map((c) => c.root), legend(over, labels)));
}
