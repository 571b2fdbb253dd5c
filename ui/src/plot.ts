// SPDX-License-Identifier: Apache-2.0
//
// Lines over time. Dragging selects a range, a click one point; a box beside the pointer has the largest values there, the legend all of them.
import uPlot from 'uplot';
import { fill, h } from './dom';
import { isDark } from './flame/colours';
import { areaColour, translucent, lineColours } from './line_colours';
import { clockText, tickText, timeText } from './time';
import { SHEET, isPrinting, onPrint } from './print';
import { integer } from './units';
import { isUtc } from './zone';

export interface PlotLine {
	label: string;
	id?: string; // by which it is hidden and has its colour; without: the label
	points: [number, number][]; // unix seconds, value
	colour?: string;
	mean?: number; // where it is known better than from points, which may be partly filled
	pick?: () => void; // what a double click on its legend does
}
export interface PlotOptions {
	step: number;
	start: number;
	end: number;
	text: (v: number) => string;
	stacked?: boolean;
	zeros?: boolean; // where another line has a point, one without has nothing; else its value is not known there
	ticks?: number[]; // how far apart those of the value axis may be; without: decimal
	top?: number; // of the value axis; without: above the largest value
	onRange?: (start: number, end: number) => void;
	/** Lines are hidden and shown by the legend. Who is told hides them by `hide`. */
	onHide?: (ids: string[]) => void;
	mark?: [number, number]; // a stretch of time that stands out
	/** A click: the point's time, and the line that is near, if there are several. */
	onPoint?: (time: number, line: number | undefined) => void;
}

const LIGHT = ['#2f6fb3', '#d9772b', '#3d9b70', '#8a63c9', '#cc4b63', '#2a96a5', '#b3902f', '#a65aa8', '#6d9a3a', '#5b6fc4', '#c25a3a', '#3aa088'];
const DARK = ['#6aa9e9', '#eba061', '#6cc79b', '#b295ec', '#ee8196', '#63c4d1', '#dcbc63', '#d394d5', '#a3cb74', '#93a3f0', '#ed9274', '#70cfb8'];
const HEIGHT = 168;
const NEAR_PX = 16;
const TIP_LINES = 5, TIP_GAP = 14; // of the box beside the pointer: how many lines it has, pixels from there
const SEARCHED = 8; // a legend of more lines has a search

const idOf = (l: PlotLine) => l.id ?? l.label;

export function seriesColour(i: number): string {
	const colours = isDark() ? DARK : LIGHT;
	return colours[i % colours.length];
}

function css(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * One time axis for all lines. A point stands for the step before it: where that step has no point of its own, the line begins there. What is
 * stacked is nothing there, and begins as that; what is hidden is no part of the stack.
 */
function table(lines: PlotLine[], o: PlotOptions, isHidden: (l: PlotLine) => boolean): uPlot.AlignedData {
	const times = new Set<number>();
	for (const l of lines) for (const [t] of l.points) times.add(t).add(t - o.step);
	const axis = [...times].sort((a, b) => a - b), at = new Map(axis.map((t, i) => [t, i]));
	const columns = lines.map((l) => {
		const column: (number | null)[] = new Array(axis.length).fill(o.stacked ? 0 : null);
		for (const [t, v] of l.points) column[at.get(t)!] = v;
		const has = new Set(l.points.map(([t]) => t));
		if (!o.stacked) for (const [t, v] of l.points) if (!has.has(t - o.step)) column[at.get(t - o.step)!] = v;
		return column;
	});
	let below: (number | null)[] | undefined;
	if (o.stacked) for (let i = columns.length - 1; i >= 0; i--) if (!isHidden(lines[i])) {
		if (below) for (let k = 0; k < axis.length; k++) columns[i][k] = (columns[i][k] ?? 0) + (below[k] ?? 0);
		below = columns[i];
	}
	return [axis, ...columns] as uPlot.AlignedData;
}

export class Plot {
	private readonly host = h('div', { class: 'plot-host' });
	private readonly search = h('input', { class: 'input legend-search', type: 'search', placeholder: 'Search series', 'aria-label': 'Search the legend', oninput: () => this.filterLegend() });
	private readonly total = h('span', { class: 'legend-total num' });
	private readonly time = h('span', { class: 'legend-time muted num' });
	private readonly legend = h('div', { class: 'plot-legend', role: 'group', 'aria-label': 'Legend' });
	private readonly tip = h('div', { class: 'tooltip plot-tip', role: 'tooltip', hidden: true });
	readonly root = h('div', { class: 'plot' }, this.host, h('div', { class: 'legend-head' }, this.search, this.total, this.time), this.legend, this.tip);
	private u?: uPlot;
	private lines: PlotLine[] = [];
	private colours: string[] = [];
	private values: Map<number, number>[] = []; // of each line, by time
	private options?: PlotOptions;
	private hidden = new Set<string>();
	private readonly isHidden = (l: PlotLine) => this.hidden.has(idOf(l));
	private readonly ending = new AbortController();
	private readonly observer = new ResizeObserver(() => this.u && !isPrinting() && this.u.setSize({ width: this.host.clientWidth, height: this.height }));

	constructor(private readonly height = HEIGHT) {
		this.observer.observe(this.host);
		onPrint(this.ending.signal, () => this.redraw());
		(this.root as HTMLElement & { plot?: Plot }).plot = this; // for tests
	}

	leave(): void {
		this.ending.abort();
		this.observer.disconnect();
		this.u?.destroy();
	}

	show(lines: PlotLine[], o: PlotOptions): void {
		// A point at the begin of the range stands for the step before it.
		const isInside = ([t]: [number, number]) => t > o.start, hasInside = lines.some((l) => l.points.some(isInside));
		this.lines = hasInside ? lines.map((l) => ({ ...l, points: l.points.filter(isInside) })) : lines;
		this.options = o;
		this.values = lines.map((l) => new Map(l.points));
		this.draw();
	}

	/** Those lines and no others. */
	hide(ids: string[]): void {
		if (ids.length === this.hidden.size && ids.every((id) => this.hidden.has(id))) return;
		this.hidden = new Set(ids);
		if (!this.u) return;
		if (this.options!.stacked) this.u.setData(table(this.lines, this.options!, this.isHidden));
		this.lines.forEach((l, i) => {
			this.u!.setSeries(i + 1, { show: !this.isHidden(l) });
			this.legend.children[i]?.setAttribute('aria-pressed', String(!this.isHidden(l)));
		});
		this.read(null);
	}

	redraw(): void {
		if (this.options) this.draw();
	}

	mark(stretch: [number, number] | undefined): void {
		if (!this.options || String(this.options.mark) === String(stretch)) return;
		this.options.mark = stretch;
		this.u?.redraw(false);
	}

	private draw(): void {
		const o = this.options!, free = this.lines.filter((l) => !l.colour).map(idOf), stable = this.lines.length > 1 ? lineColours(free, isDark()) : [seriesColour(0)];
		this.colours = this.lines.map((l) => l.colour ?? stable[free.indexOf(idOf(l))]);
		const colour = (i: number) => this.colours[i];
		const axis = { stroke: css('--muted'), grid: { stroke: css('--grid'), width: 1 }, ticks: { stroke: css('--grid'), width: 1, size: 4 }, font: '11px system-ui, sans-serif' };
		const stepped = uPlot.paths.stepped!({ align: -1 });
		this.u?.destroy();
		this.u = new uPlot({
			width: isPrinting() ? SHEET : Math.max(this.host.clientWidth, 100), height: this.height, padding: [8, 30, 0, 0],
			legend: { show: false }, ...(isUtc() && { tzDate: (t: number) => uPlot.tzDate(new Date(t * 1e3), 'Etc/UTC') }),
			cursor: { x: true, y: false, drag: { x: true, y: false, dist: 4 }, points: { show: !o.stacked, size: 6 }, dataIdx: (u, _series, closest, x) => (u.data[0][closest] < x ? Math.min(closest + 1, u.data[0].length - 1) : closest) },
			scales: { x: { time: true, range: [o.start, o.end] }, y: { range: (_u, _min, max) => [0, o.top ?? (max > 0 ? max * 1.08 : 1)] } },
			axes: [{ ...axis, size: 30, values: (_u, splits, _axis, _space, incr) => splits.map((t) => tickText(t, incr)) }, { ...axis, ...(o.ticks ? { incrs: o.ticks } : {}), size: (_u, texts) => Math.max(74, 16 + 6.3 * Math.max(0, ...(texts ?? []).map((t) => t.length))), values: (_u, splits) => splits.map((v) => o.text(v).replace(/\.0+(?!\d)|(\.\d*[1-9])0+(?!\d)/, '$1')) }],
			series: [{}, ...this.lines.map((l, i) => ({
				label: l.label, stroke: colour(i), width: o.stacked ? 1 : 1.5, paths: stepped, show: !this.isHidden(l), points: { show: false },
				fill: o.stacked ? areaColour(colour(i)) : this.lines.length === 1 ? translucent(colour(i)) : undefined,
			}))],
			hooks: { drawClear: [(u) => this.drawMark(u)], setCursor: [(u) => this.read(u.cursor.idx === null || u.cursor.idx === undefined ? null : this.pointAt(u, u.cursor.idx))], setSelect: [(u) => this.selected(u)], ready: [(u) => this.clicks(u)] },
		}, table(this.lines, o, this.isHidden), this.host);
		this.drawLegend();
	}

	private selected(u: uPlot): void {
		if (u.select.width < 2) return;
		const from = u.posToVal(u.select.left, 'x'), to = u.posToVal(u.select.left + u.select.width, 'x');
		u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
		this.options?.onRange?.(Math.floor(from), Math.ceil(Math.max(to, from + 1)));
	}

	private clicks(u: uPlot): void {
		let x = -1;
		u.over.addEventListener('pointerdown', (e) => (x = e.clientX));
		u.over.addEventListener('click', (e) => {
			if (Math.abs(e.clientX - x) > 3 || u.cursor.idx === null || u.cursor.idx === undefined) return;
			const at = this.pointAt(u, u.cursor.idx);
			this.options?.onPoint?.(u.data[0][at], this.lineNear(u, at));
		});
	}

	/** A point stands for the step before it, so it is the first that is not before the pointer. */
	private pointAt(u: uPlot, closest: number): number {
		return u.data[0][closest] < u.posToVal(u.cursor.left ?? 0, 'x') ? Math.min(closest + 1, u.data[0].length - 1) : closest;
	}

	/** The area that the pointer is in, or the line that is near; undefined: none, or there is only one. */
	private lineNear(u: uPlot, idx: number): number | undefined {
		const top = u.cursor.top ?? 0;
		if (this.lines.length < 2) return undefined;
		if (this.options!.stacked) {
			const y = u.posToVal(top, 'y'); // each column is the sum of those that come behind it
			for (let i = this.lines.length - 1; i >= 0; i--) if (!this.isHidden(this.lines[i]) && y <= (u.data[i + 1][idx] ?? 0)) return i;
			return undefined;
		}
		let best: number | undefined, least = NEAR_PX;
		this.lines.forEach((l, i) => {
			const v = u.data[i + 1][idx], off = v === null || v === undefined || this.isHidden(l) ? Infinity : Math.abs(u.valToPos(v, 'y') - top);
			if (off < least) [best, least] = [i, off];
		});
		return best;
	}

	private drawMark(u: uPlot): void {
		const mark = this.options?.mark;
		if (!mark) return;
		const [left, right] = mark.map((t) => u.valToPos(t, 'x', true)), { top, height } = u.bbox;
		u.ctx.fillStyle = css('--accent-soft');
		u.ctx.fillRect(left, top, Math.max(right - left, 2), height);
	}

	private drawLegend(): void {
		fill(this.legend, this.lines.map((l, i) => h('button', {
			type: 'button', class: 'legend-item', 'aria-pressed': String(!this.isHidden(l)), title: l.pick ? `${l.label}\nClick: hide or show. Double click: only this one.` : l.label,
			onclick: () => this.toggle(l), ondblclick: l.pick,
		}, h('span', { class: 'swatch', style: { background: this.colours[i] } }), h('span', { class: 'legend-label' }, l.label), h('span', { class: 'legend-value num' }))));
		this.search.hidden = this.lines.length <= SEARCHED;
		if (this.search.hidden) this.search.value = '';
		this.filterLegend();
		this.read(null);
	}

	/** Without a match all stay: what is typed may be on its way to one. */
	private filterLegend(): void {
		const text = this.search.value.trim().toLowerCase(), has = this.lines.map((l) => l.label.toLowerCase().includes(text)), some = has.includes(true);
		has.forEach((yes, i) => ((this.legend.children[i] as HTMLElement).hidden = some && !yes));
		this.search.classList.toggle('is-unmatched', !some);
	}

	private toggle(line: PlotLine): void {
		const ids = this.lines.filter((l) => this.isHidden(l) !== (l === line)).map(idOf);
		if (this.options?.onHide) this.options.onHide(ids);
		else this.hide(ids);
	}

	/** The values under the pointer, else the means. */
	private read(idx: number | null): void {
		const o = this.options!, time = idx === null || !this.u ? undefined : this.u.data[0][idx];
		const times = o.zeros ? new Set(this.lines.flatMap((l) => l.points.map(([t]) => t))).size : 0;
		let total = 0;
		this.lines.forEach((l, i) => {
			const cell = this.legend.children[i]?.querySelector('.legend-value'), point = time === undefined ? undefined : this.values[i].get(time);
			const mean = l.mean ?? l.points.reduce((sum, [, v]) => sum + v, 0) / Math.max(times || l.points.length, 1);
			if (!this.isHidden(l)) total += time === undefined ? mean : point ?? 0;
			if (cell) cell.textContent = time === undefined ? `mean ${o.text(mean)}` : point === undefined ? '–' : o.text(point);
		});
		this.total.textContent = o.stacked && this.lines.length > 1 ? `total ${time === undefined ? 'mean ' : ''}${o.text(total)}` : '';
		this.time.textContent = time === undefined ? '' : this.timesOf(time);
		this.drawTip(idx, time, total);
	}

	private timesOf(time: number): string {
		return `${timeText(time - this.options!.step)} – ${clockText(time)}`;
	}

	/** The largest lines there, what the others have together, and the sum where it is one. */
	private drawTip(idx: number | null, time: number | undefined, total: number): void {
		const { u, lines } = this, o = this.options!;
		const all = time === undefined ? [] : lines.flatMap((l, i) => (this.isHidden(l) || !this.values[i].has(time) ? [] : [{ i, v: this.values[i].get(time)! }])).sort((a, b) => b.v - a.v);
		this.tip.hidden = !all.length || !u;
		if (this.tip.hidden) return;
		const rest = all.slice(TIP_LINES), near = this.lineNear(u!, idx!), row = (swatch: string, label: string, v: string, kind = '') => h('tr', { class: kind }, h('th', {}, swatch && h('span', { class: 'swatch', style: { background: swatch } }), h('span', { class: 'tip-label' }, label)), h('td', { class: 'num' }, v));
		fill(this.tip, h('div', { class: 'muted num' }, this.timesOf(time!)), h('table', {}, all.slice(0, TIP_LINES).map(({ i, v }) => row(this.colours[i], lines[i].label, o.text(v), i === near ? 'is-near' : '')),
			rest.length > 0 && row('', `${integer(rest.length)} more`, o.stacked ? o.text(rest.reduce((sum, { v }) => sum + v, 0)) : ''), o.stacked && all.length > 1 && row('', 'total', o.text(total), 'is-total')));
		const box = u!.over.getBoundingClientRect(), x = box.left + u!.cursor.left!, y = box.top + u!.cursor.top!, { offsetWidth: w, offsetHeight: high } = this.tip;
		const left = x + TIP_GAP + w > innerWidth - 6 ? Math.max(x - w - TIP_GAP, 6) : x + TIP_GAP, top = y + TIP_GAP + high > innerHeight - 6 ? Math.max(y - high - TIP_GAP, 6) : y + TIP_GAP;
		this.tip.style.transform = `translate(${left}px, ${top}px)`;
	}
}
