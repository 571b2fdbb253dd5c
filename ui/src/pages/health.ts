// SPDX-License-Identifier: Apache-2.0
//
// How healthy the profiling is, node by node: what it costs, how many stacks are whole and why others were cut, how many samples were lost.
// From what is stored: the label `stack` of the profiles, and the series that the scraper keeps of what exporters say of themselves.
import { Line, Matrix, Query, series } from '../api';
import { Child, fill, h } from '../dom';
import { Life } from '../life';
import { Panel } from '../panel';
import { Plot, PlotLine } from '../plot';
import { RangePicker } from '../range_picker';
import { Page, href, params, set } from '../router';
import { narrowed, print } from '../selector';
import { Range, readRange, resolve, stepFor } from '../time';
import { digits, integer, percent } from '../units';
import { plainTable } from './status_page';

const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
const WHOLE = '#3d9b70'; // the colour of stacks that were not cut
const MOST = 300, MOST_LINES = 10;
const SORTS: [string, string, (n: Node_) => number][] = [
	['cost', 'Own cost', (n) => -(n.overhead ?? -1)], ['whole', 'Whole stacks', (n) => (n.all ? n.whole / n.all : 2)], ['lost', 'Lost samples', (n) => -(n.taken === undefined ? -1 : n.lost)], ['time', 'Lost time', (n) => -(n.lostTime ?? -1)], ['name', 'Name', () => 0],
];
/** As bpf/counters.def and the exporter's metrics say it. */
const LOSSES: Record<string, string> = {
	ring_full: 'the ring had no room: the exporter was not scheduled in time', scratch_busy: 'no walker scratch was free on the CPU', held_full: 'no memory to hold them for ordering', log_full: 'the sample log was full',
};

interface Node_ {
	name: string;
	overhead?: number;
	hz?: number;
	coverage?: number;
	up?: number;
	taken?: number; // a scrape
	lost: number; // share of all samples
	lostTime?: number; // share of the time, dropped by the exporter before it was asked
	losses: [string, number][]; // reason, share
	all: number; // CPU time
	whole: number;
	cuts: [string, number][]; // label value, CPU time
}
interface Health {
	nodes: Node_[];
	cost: Matrix;
	stacks: Matrix;
	start: number;
	end: number;
}

const last = (l: Line) => Number(l.values[l.values.length - 1]?.[1] ?? 0);

export class HealthPage implements Page {
	private readonly range = new RangePicker((c) => set(c), () => this.load(params()));
	private readonly plots = { cost: new Plot(), stacks: new Plot() };
	private readonly controls = h('div', { class: 'toolbar' });
	private readonly filter = h('input', { class: 'input filter', type: 'search', placeholder: 'Filter by node', 'aria-label': 'Filter by node', oninput: () => set({ filter: this.filter.value || null }, true) });
	private readonly select = h('select', { class: 'select', 'aria-label': 'Order', onchange: () => set({ sort: this.select.value === 'cost' ? null : this.select.value }) }, SORTS.map(([key, title]) => h('option', { value: key }, `By ${title.toLowerCase()}`)));
	private readonly facts = h('div', { class: 'totals' });
	private readonly table = h('div', { class: 'stacked' });
	private readonly panel = new Panel('status');
	readonly root: HTMLElement;
	private answer?: Health;
	private asked = '';
	now = Date.now() / 1e3;
	private readonly life = new Life();

	constructor() {
		this.controls.append(this.select, this.filter);
		this.panel.body.append(this.facts, h('div', { class: 'columns plots' }, h('section', {}, h('h2', { class: 'section' }, 'Own cost'), h('p', { class: 'muted' }, 'CPU time of the exporter and its programs in the kernel, of all CPUs’ time'), this.plots.cost.root),
			h('section', {}, h('h2', { class: 'section' }, 'How stacks end'), h('p', { class: 'muted' }, 'Share of the sampled CPU time'), this.plots.stacks.root)), this.controls, this.table);
		this.root = h('div', { class: 'page' }, h('div', { class: 'bars' }, h('h1', { class: 'bar-title' }, 'Health'), this.range.root), this.panel.root);
		this.life.listen(document, 'sonde-theme', () => Object.values(this.plots).forEach((p) => p.redraw()));
	}

	leave(): void {
		this.life.end();
		this.range.leave();
		this.panel.leave();
		Object.values(this.plots).forEach((p) => p.leave());
	}

	update(p: URLSearchParams): void {
		const range = readRange(p), key = JSON.stringify(range);
		this.range.update(p);
		this.select.value = p.get('sort') ?? 'cost';
		if (document.activeElement !== this.filter) this.filter.value = p.get('filter') ?? '';
		if (key === this.asked && this.answer) this.drawTable(p);
		else this.load(p);
	}

	private load(p: URLSearchParams): void {
		this.asked = JSON.stringify(readRange(p));
		void this.panel.run((signal) => this.ask(readRange(p), signal), (answer) => {
			this.answer = answer;
			this.draw(params());
		}, () => this.load(params()));
	}

	private async ask(range: Range, signal: AbortSignal): Promise<Health> {
		const { start, end } = resolve(range, (this.now = Date.now() / 1e3)), times: Query = [['start', String(start)], ['end', String(end)]], step = stepFor(end - start);
		const ask = (query: string, by: string[], s = end - start) => series([['query', query], ...times, ['step', String(s)], ['limit', '10000'], ...by.map((g): [string, string] => ['group_by', g])], signal)
			.catch((e) => (e.type === 'bad_data' || e.type === 'not_found' ? none(s) : Promise.reject(e)));
		const names = ['sonde_overhead_ratio', 'sonde_profile_frequency_hz', 'sonde_sampling_coverage_ratio', 'sonde_samples_taken', 'sonde_scrape_watched_seconds', 'sonde_scrape_lost_seconds', 'up'];
		const [overhead, hz, coverage, taken, watched, lostTime, up, dropped, ends, cost, stacks] = await Promise.all([
			...names.map((name) => ask(`${name}{}`, ['instance'])), ask('sonde_samples_dropped{}', ['instance', 'reason']), ask(`${CPU}{stack!=""}`, ['instance', 'stack']),
			ask('sonde_overhead_ratio{}', ['instance'], step), ask(`${CPU}{stack!=""}`, ['stack'], step)]);
		const nodes = new Map<string, Node_>();
		const node = (l: Line): Node_ => {
			const name = l.metric.instance ?? '';
			if (!nodes.has(name)) nodes.set(name, { name, lost: 0, losses: [], all: 0, whole: 0, cuts: [] });
			return nodes.get(name)!;
		};
		overhead.result.forEach((l) => (node(l).overhead = last(l)));
		for (const l of ends.result) {
			const n = node(l), v = last(l);
			n.all += v;
			if (l.metric.stack === 'complete') n.whole += v;
			else n.cuts.push([l.metric.stack, v]);
		}
		hz.result.forEach((l) => (node(l).hz = last(l)));
		coverage.result.forEach((l) => (node(l).coverage = last(l)));
		taken.result.forEach((l) => (node(l).taken = last(l)));
		const seconds = new Map(watched.result.map((l) => [l.metric.instance, last(l)]));
		lostTime.result.forEach((l) => (node(l).lostTime = last(l) / (last(l) + (seconds.get(l.metric.instance) ?? 0)) || 0));
		up.result.forEach((l) => nodes.has(l.metric.instance) && (node(l).up = last(l)));
		for (const l of dropped.result) if (last(l)) node(l).losses.push([l.metric.reason, last(l)]);
		for (const n of nodes.values()) {
			const lost = n.losses.reduce((sum, [, v]) => sum + v, 0), all = lost + (n.taken ?? 0);
			n.lost = all ? lost / all : 0;
			n.losses = n.losses.map(([reason, v]): [string, number] => [reason, v / all]).sort((a, b) => b[1] - a[1]);
			n.cuts.sort((a, b) => b[1] - a[1]);
		}
		return { nodes: [...nodes.values()], cost, stacks, start, end };
	}

	private draw(p: URLSearchParams): void {
		const { nodes, cost, stacks, start, end } = this.answer!;
		if (!nodes.length) {
			this.panel.say('empty', 'No exporter was scraped in this range', ['This page is about nodes with sonde-exporter. ', h('a', { href: 'targets' }, 'Targets'), ' shows what is scraped; a wider range may hold what was.'], ['Last 7 days', () => set({ start: 'now-7d', end: 'now', seconds: null })]);
			return;
		}
		const sum = (f: (n: Node_) => number) => nodes.reduce((s, n) => s + f(n), 0), known = nodes.filter((n) => n.overhead !== undefined), all = sum((n) => n.all);
		const cell = (title: string, text: string, note: string) => h('div', { class: 'total' }, h('span', { class: 'muted' }, title), h('strong', { class: 'num' }, text), h('span', { class: 'muted' }, note));
		const worst = known.reduce((w, n) => (n.overhead! > (w?.overhead ?? -1) ? n : w), undefined as Node_ | undefined), counted = nodes.filter((n) => n.taken !== undefined), timed = nodes.filter((n) => n.lostTime !== undefined);
		fill(this.facts, cell('Nodes', integer(nodes.length), 'with sonde-exporter'),
			cell('Own cost', known.length ? percent(known.reduce((s, n) => s + n.overhead!, 0) / known.length) : 'not known', worst ? `mean; most ${percent(worst.overhead!)} on ${worst.name}` : 'exporters before 0.1 do not say'),
			cell('Whole stacks', all ? percent(sum((n) => n.whole) / all) : 'not known', 'of the sampled CPU time'),
			cell('Lost samples', counted.length ? percent(counted.reduce((s, n) => s + n.lost, 0) / counted.length) : 'not known', counted.length ? 'mean of the nodes' : 'two scrapes are needed'),
			cell('Lost time', timed.length ? percent(timed.reduce((s, n) => s + n.lostTime!, 0) / timed.length) : 'not known', 'dropped before it was asked for'));
		const lines = cost.result.slice(0, MOST_LINES).map((l): PlotLine => ({ label: l.metric.instance ?? '', points: l.values.map(([t, v]) => [t, Number(v)]) }));
		const common = { start, end, onRange: (from: number, to: number) => set({ start: String(from), end: String(to), seconds: null }) };
		this.plots.cost.show(lines, { ...common, step: cost.step, text: (v) => `${digits(v * 100)}%`, onHide: (ids) => set({ off: ids }, true) });
		const totals = new Map<number, number>();
		for (const l of stacks.result) for (const [t, v] of l.values) totals.set(t, (totals.get(t) ?? 0) + Number(v));
		const shown = [...stacks.result].sort((a, b) => Number(b.metric.stack === 'complete') - Number(a.metric.stack === 'complete'));
		this.plots.stacks.show(shown.map((l) => ({ label: l.metric.stack, colour: l.metric.stack === 'complete' ? WHOLE : undefined, points: l.values.map(([t, v]): [number, number] => [t, Number(v) / (totals.get(t) || 1)]) })), { ...common, step: stacks.step, text: percent, stacked: true, zeros: true, top: 1, onHide: (ids) => set({ off_stacks: ids }, true) });
		this.drawTable(p);
	}

	private drawTable(p: URLSearchParams): void {
		this.plots.cost.hide(p.getAll('off'));
		this.plots.stacks.hide(p.getAll('off_stacks'));
		const filter = (p.get('filter') ?? '').toLowerCase(), by = SORTS.find(([key]) => key === (p.get('sort') ?? 'cost')) ?? SORTS[0];
		const nodes = this.answer!.nodes.filter((n) => n.name.toLowerCase().includes(filter)).sort((a, b) => by[2](a) - by[2](b) || a.name.localeCompare(b.name));
		const unknown = () => h('span', { class: 'muted' }, 'not known');
		fill(this.table, nodes.length ? plainTable([['', 'Node'], ['number', 'Scrapes up'], ['number', 'Own cost'], ['number', 'Rate'], ['number', 'Ticks taken'], ['number', 'Whole stacks'], ['', 'Cut by'], ['number', 'Lost samples'], ['', 'Lost by'], ['number', 'Lost time']],
			nodes.slice(0, MOST).map((n): Child[] => [h('a', { class: 'mono', href: this.link(p, n.name, {}) }, n.name), n.up === undefined ? unknown() : percent(n.up), n.overhead === undefined ? unknown() : percent(n.overhead), n.hz ? `${digits(n.hz)} Hz` : unknown(),
				n.coverage ? percent(n.coverage) : unknown(), n.all ? percent(n.whole / n.all) : unknown(), this.cuts(p, n), n.taken === undefined ? unknown() : percent(n.lost),
				h('span', { class: 'reasons' }, n.losses.map(([reason, share]) => h('span', { title: LOSSES[reason] }, `${reason} ${percent(share)}`))), n.lostTime === undefined ? unknown() : h('span', { title: 'Seconds that the exporter had dropped, for --profile.retention-bytes or its age, before the scraper asked for them' }, percent(n.lostTime))])) : h('p', { class: 'muted' }, 'No node has that in its name.'),
		nodes.length > MOST && h('p', { class: 'facts' }, `The first ${MOST} of ${integer(nodes.length)} are shown. The filter finds the others.`),
		h('p', { class: 'facts' }, 'A reason leads to the stacks that it cut. /unwind on the exporter has it for each process and binary; its /metrics has all the rest.'));
	}

	private cuts(p: URLSearchParams, n: Node_): HTMLElement {
		return h('span', { class: 'reasons' }, n.cuts.map(([stack, v]) => h('a', { href: this.link(p, n.name, { stack }) }, `${stack.replace(/^truncated:/, '')} ${percent(v / n.all)}`)));
	}

	private link(p: URLSearchParams, instance: string, more: Record<string, string>): string {
		const range = Object.fromEntries([...p].filter(([k]) => ['start', 'end', 'seconds'].includes(k)));
		return href('', { ...range, query: print(narrowed({ type: CPU, matchers: [] }, { instance, ...more })) });
	}
}

function none(step: number): Matrix {
	return { profile_type: '', unit: '', step, n_series: 0, result: [] };
}
