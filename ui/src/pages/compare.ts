// SPDX-License-Identifier: Apache-2.0
//
// Two selections: A before, B after. Both over time on one plot, and what changed between them.
import { Matrix, ProfileType, Query, address, get, recall, series } from '../api';
import { fill, h, segmented } from '../dom';
import { paintDiff } from '../flame/colours';
import { INSIGNIFICANT, describeDiff, panelTitle } from '../flame/diff';
import { captionOf } from '../flame/caption';
import { FlamePanel } from '../flame/panel';
import { durationText, instant, isRelative } from '../instant';
import { Life } from '../life';
import type { Width } from '../flame/tree';
import { askedNames } from '../names';
import { Panel } from '../panel';
import { Plot, seriesColour } from '../plot';
import { MenuItem, menuButton } from '../popover';
import { Quality, qualityBadge } from '../quality';
import { QueryBar, readFilters, readFrames, sharedText } from '../query_bar';
import { RangePicker } from '../range_picker';
import { Changes, Page, changed, href, params, set } from '../router';
import { Selector, narrowed, parse, print } from '../selector';
import { Range, agoText, readRange, resolve, stepFor } from '../time';
import { Rate, digits, percent, perSecond, rateOf, signedPercent, ticks, value } from '../units';
import { DiffRow } from '../flame/diff_rows';
import { DiffTable } from './diff_table';
import { typesOf } from './explore';
import { pairs, ranges, stretches } from './versions';

type Letter = 'a' | 'b';
interface SideAnswer {
	n_profiles: number;
	total: number;
	scale: number;
	covered_seconds: number;
	watched_seconds: number;
}
interface Diff {
	profile_type: string;
	unit: string;
	mode: string;
	type_kind: string;
	per: string;
	of: string;
	a: SideAnswer;
	b: SideAnswer;
	n_rows: number;
	rows: DiffRow[];
	statistics?: { n_a: number; n_b: number; method: string; q: number | null; min_effect: number | null; verdict: string };
}

const REPLICATE = 'instance,5m'; // what makes a replicate: neighbouring scrapes are too alike
const isTested = (d: Diff) => d.statistics !== undefined && d.statistics.method !== 'none';

const LETTERS: Letter[] = ['a', 'b'];
const MOST_ROWS = '5000';
/** Labels of which one value follows another as a program is built and rolled out. */
const VERSIONS = /^(build_?id|version|service_version|revision|commit|release|tag|image|container_image)$/;
const MOST_VERSIONS = 3;
/** Without matchers on this label. */
const without = (s: Selector, name: string): Selector => ({ type: s.type, matchers: s.matchers.filter((m) => m.name !== name) });
const fitted = (text: string) => (text.length > 14 ? `${text.slice(0, 12)}…` : text);
const SHIFTS: [string, number][] = [['An hour before B', 3600], ['A day before B', 86400], ['A week before B', 604800]];

const rateOfDiff = (d: Diff) => perSecond(d, d.type_kind === 'instant');

/** How values are shown that were multiplied with their side's scale. */
function formatter(d: Diff): (v: number) => string {
	if (d.mode === 'relative') return percent;
	if (d.per !== 'second') return (v) => value(v, d.unit);
	const { factor, text } = rateOfDiff(d);
	return (v) => text(v * factor);
}

/** Whose rates: a service's are those of all its instances together. */
const whose = (d: Diff) => (d.mode === 'relative' || d.per !== 'second' || d.type_kind === 'instant' ? '' : d.of === 'service' ? 'of the service' : 'per instance');

/** The same in a column of its own: the unit stands below the table. */
function columnText(d: Diff): { text: (v: number) => string; unit: string } {
	if (d.mode === 'relative') return { text: percent, unit: 'shares of each side' };
	if (d.per !== 'second') return { text: (v) => value(v, d.unit), unit: 'sums' };
	const { factor, name } = rateOfDiff(d), unit = `${d.type_kind === 'instant' ? 'in use' : name === 'cores' ? name : 'per second'}${whose(d) && `, ${whose(d)}`}`;
	return name === 'cores' ? { text: (v) => digits(Math.abs(v * factor) < 1e-3 ? Number((v * factor).toPrecision(2)) : v * factor), unit } : { text: (v) => value(v, d.unit), unit };
}

/** What the graph over time shows of a side's values per step, which are of the same as the heads. */
function overTime(d: Diff, l: Letter, step: number): Rate {
	if (d.mode === 'relative') return { factor: 1 / (d[l].total || 1), text: percent, name: 'shares of each side, per step' };
	if (d.per !== 'second') return { factor: 1, text: (v) => value(v, d.unit), name: d.type_kind === 'instant' ? d.unit : `sums of ${step} s` };
	const rate = rateOf(d, d.type_kind === 'instant', step);
	return d.type_kind === 'instant' ? rate : { ...rate, name: `${rate.name} ${whose(d)}` };
}

/** Of rates the head's: a point in which the side was watched in part counts for less. Sums and shares per step have a mean of their own. */
function meanOf(d: Diff, l: Letter): number | undefined {
	return d.mode === 'relative' || d.per !== 'second' ? undefined : d[l].total * d[l].scale * rateOfDiff(d).factor;
}

/** Which side dragging over the graph sets. */
const dragged = (p: URLSearchParams): Letter => (p.get('drag') === 'a' ? 'a' : 'b');

export class ComparePage implements Page {
	private readonly bars = { a: this.bar('a'), b: this.bar('b') };
	private readonly ranges = { a: this.picker('a'), b: this.picker('b') };
	private readonly plot = new Plot();
	private readonly note = h('p', { class: 'facts' });
	private readonly graph: Panel;
	private readonly totals = h('div', { class: 'totals' });
	private readonly controls = h('div', { class: 'toolbar' });
	private readonly diff: Panel;
	private readonly flame = new FlamePanel((c, replace) => set(c, replace));
	readonly root: HTMLElement;
	private types: ProfileType[] = [];
	private table?: DiffTable;
	private answer?: Diff;
	private lines?: { p: URLSearchParams; of: Matrix[] };
	private asked = '';
	now = Date.now() / 1e3;
	private readonly life = new Life();

	constructor() {
		this.graph = new Panel('plot', this.controls);
		this.graph.body.append(this.plot.root, this.note);
		this.diff = new Panel('totals');
		this.diff.body.append(this.totals);
		this.root = h('div', { class: 'page' }, LETTERS.map((l) => h('div', { class: `bars side-${l}` }, h('span', { class: 'side-letter', title: l === 'a' ? 'Before' : 'After' }, l.toUpperCase()), this.bars[l].root, this.ranges[l].root)),
			this.graph.root, this.diff.root, this.flame.root);
		this.life.listen(document, 'keydown', this.flame.onKey);
		this.life.listen(document, 'sonde-theme', () => this.plot.redraw());
	}

	leave(): void {
		this.life.end();
		this.plot.leave();
		for (const p of [this.graph, this.diff, this.flame, this.ranges.a, this.ranges.b]) p.leave();
	}

	/** Also what a bare address means. */
	shared(p: URLSearchParams): { changes: Changes } {
		const c = this.completed(p);
		return { changes: { query_a: c.get('query_a'), query_b: c.get('query_b'), text: sharedText() } };
	}

	private bar(l: Letter): QueryBar {
		return new QueryBar((c) => set({ at: null, ...c }), `_${l}`, l === 'b', false);
	}

	private picker(l: Letter): RangePicker {
		return new RangePicker((c) => set(c), undefined, `_${l}`);
	}

	/** What a bare address means: this hour against the one before, of what Explore showed. */
	private completed(p: URLSearchParams): URLSearchParams {
		const c: Changes = {}, common = readRange(p), b = p.has('start_b') ? readRange(p, '_b') : common;
		if (!p.has('start_b')) Object.assign(c, { start_b: b.start, end_b: b.end });
		if (!p.has('start_a')) Object.assign(c, shifted(b, undefined, this.now));
		const query = p.get('query') || (this.types.length ? `${this.types[0].id}{}` : '');
		for (const l of LETTERS) if (!p.get(`query_${l}`)) c[`query_${l}`] = p.get(`query_${l === 'a' ? 'b' : 'a'}`) || query;
		return changed(p, c);
	}

	update(given: URLSearchParams): void {
		const key = JSON.stringify([...given].filter(([k]) => !['at', 'search', 'dir', 'view', 'sort', 'mark', 'of', 'sandwich', 'width', 'colour', 'collapse', 'panel', 'up', 'down', 'off', 'drag', 'text', 'theme', 'names', 'chosen'].includes(k)));
		if (key === this.asked && this.answer) {
			this.drawFlame(this.completed(given));
			return;
		}
		this.asked = key;
		this.answer = this.lines = undefined;
		this.flame.await();
		this.now = Date.now() / 1e3;
		const b = this.times(readRange(given.has('start_b') ? given : changed(given, { start_b: readRange(given).start, end_b: readRange(given).end }), '_b'));
		let isAsked = false; // for the difference
		void this.graph.run(async (signal) => {
			this.types = await typesOf([['start', String(b.start - 7 * 86400)], ['end', String(b.end)]], signal);
			const p = this.completed(given);
			this.drawBars(p);
			if (!p.get('query_b')) return null;
			isAsked = true;
			this.loadDiff(p);
			return { p, lines: await Promise.all(LETTERS.map((l) => this.loadLine(p, l, signal))) };
		}, (r) => {
			if (!r) {
				this.diff.root.hidden = true;
				this.graph.say('empty', 'Nothing to compare yet', 'The store holds no profiles of the last week.');
				this.flame.empty('No difference', 'Profiles of two times, or of two label values, can be compared here.');
			} else {
				this.lines = { p: r.p, of: r.lines };
				this.drawLines();
			}
		}, () => {
			this.asked = '';
			this.update(params());
		}, () => {
			this.diff.root.hidden = !isAsked;
			this.flame.unanswered();
		});
	}

	private times(r: Range): { start: number; end: number } {
		return resolve(r, this.now);
	}

	private sideQuery(p: URLSearchParams, l: Letter, suffix = `_${l}`): Query {
		const { start, end } = this.times(readRange(p, `_${l}`));
		return [[`query${suffix}`, p.get(`query_${l}`)!], [`start${suffix}`, String(start)], [`end${suffix}`, String(end)]];
	}

	private loadLine(p: URLSearchParams, l: Letter, signal: AbortSignal): Promise<Matrix> {
		const { start, end } = this.times(readRange(p, `_${l}`));
		const of: Query = p.get('mode') === 'relative' || p.get('per') === 'run' ? [] : [['of', p.get('rates') === 'service' ? 'service' : 'instance']];
		return series([...this.sideQuery(p, l, ''), ...readFilters(p), ...of, ['step', String(stepFor(end - start))], ['group_by', '']], signal);
	}

	private diffQuery(p: URLSearchParams): Query {
		const relative: Query = p.get('mode') === 'relative' ? [['mode', 'relative']] : p.get('per') === 'run' ? [['per', 'run']] : p.get('rates') === 'service' ? [['of', 'service']] : [];
		return [...this.sideQuery(p, 'a'), ...this.sideQuery(p, 'b'), ...readFrames(p), ...relative];
	}

	/** With statistics, where the format has room for them. */
	private testedQuery(p: URLSearchParams): Query {
		return [...this.diffQuery(p), ['replicate', p.get('replicate') ?? REPLICATE]];
	}

	private loadDiff(p: URLSearchParams): void {
		this.diff.root.hidden = false;
		void this.diff.run((signal) => get<Diff>('api/v1/diff', [...this.testedQuery(p), ['max_nodes', '1'], ['limit', MOST_ROWS]], signal, 'POST'), (d) => {
			this.answer = d;
			this.table = new DiffTable((c, replace) => set(c, replace), isTested(d));
			this.table.fill(d.rows, d.n_rows, [d.a.scale, d.b.scale], columnText(d));
			this.drawLines();
			this.drawTotals(d);
			this.drawFlame(this.completed(params()));
			void this.loadLabels(p);
		}, () => this.loadDiff(p), () => this.flame.unanswered());
	}

	/* ---- drawing ---- */

	private drawBars(p: URLSearchParams): void {
		for (const l of LETTERS) {
			const { start, end } = this.times(readRange(p, `_${l}`));
			this.bars[l].update({ query: p.get(`query_${l}`) ?? '', groupBy: [], filters: l === 'b' ? readFilters(p) : [], range: () => [['start', String(start)], ['end', String(end)]] }, this.types);
			this.ranges[l].update(p.has(`start_${l}`) ? p : changed(p, { [`start_${l}`]: String(start), [`end_${l}`]: String(end) }));
		}
		const b = readRange(p, '_b'), presets = (): (MenuItem | string | null)[] => ['A is', ...SHIFTS.map(([label, by]) => ({ label, pick: () => set(shifted(b, by, this.now)) })),
			{ label: 'The range right before B', pick: () => set(shifted(b, undefined, this.now)) }, null, { label: 'Swap A and B', pick: () => this.exchange(p) }, 'Same range, by label', ...this.labelPresets];
		const button = menuButton('Presets', 'What is compared', presets);
		const panel = p.get('panel');
		const panels = menuButton(panel ? `Panels by ${panel}` : 'Panels', 'A part of the graph for each value of a label, each with colours of its own scale', () => [
			{ label: 'One graph', pressed: !panel, pick: () => set({ panel: null, at: null }) }, ...(this.labelNames.length ? ['A panel per'] : ['No labels in B’s range']),
			...this.labelNames.map((name) => ({ label: name, pressed: name === panel, pick: () => set({ panel: name, at: null }) }))], { class: `button${panel ? ' is-on' : ''}` });
		fill(this.controls, button, panels, h('div', { class: 'labelled' }, h('span', { class: 'muted' }, 'Drag selects'), segmented('Drag selects', [['a', 'A'], ['b', 'B']], dragged(p), (l) => set({ drag: l === 'b' ? null : l }, true))), h('div', { class: 'spacer' }),
		segmented('Mode', [['second', 'Per second', 'Values per second that was watched'], ['run', 'Absolute', 'Sums as they are'], ['relative', 'Share of total', 'Each side as a share of its own total']],
			p.get('mode') === 'relative' ? 'relative' : p.get('per') === 'run' ? 'run' : 'second', (m) => set({ mode: m === 'relative' ? m : null, per: m === 'run' ? m : null })),
		!p.has('mode') && !p.has('per') && segmented('Rates', [['instance', 'Per instance', 'Rates of one instance in the mean'], ['service', 'Service', 'Rates of all instances together']], p.get('rates') === 'service' ? 'service' : 'instance', (of) => set({ rates: of === 'service' ? of : null })),
		segmented('Bars as wide as', [['union', 'A + B', 'Bars are as wide as both'], ['a', 'A', 'Bars are as wide as before'], ['b', 'B', 'Bars are as wide as after']], p.get('width') ?? 'union', (w) => set({ width: w === 'union' ? null : w })));
	}

	private labelPresets: MenuItem[] = [];
	private labelNames: string[] = [];

	/** Labels with two values in the selection: one against the other. */
	private async loadLabels(p: URLSearchParams): Promise<void> {
		const s = parse(p.get('query_b') ?? ''), range = this.sideQuery(p, 'b', '').slice(1);
		if (!s) return;
		const items: MenuItem[] = [];
		const names = (await recall<string[]>('api/v1/labels', [['query', print(s)], ...range]).catch(() => [])).filter((n) => !n.startsWith('__'));
		if (this.life.signal.aborted) return;
		this.labelNames = names;
		const versions = (await Promise.all(names.filter((n) => VERSIONS.test(n)).map((n) => this.versionPresets(p, n)))).flat();
		await Promise.all(names.filter((n) => !VERSIONS.test(n)).slice(0, 20).map(async (name) => {
			const values = await recall<string[]>(`api/v1/label/${encodeURIComponent(name)}/values`, [['query', print(without(s, name))], ...range]).catch(() => []);
			if (values.length !== 2) return;
			const [before, after] = values, b = readRange(p, '_b');
			items.push({ label: `${name}: ${fitted(before)} → ${fitted(after)}`, pick: () => set({ query_a: print(narrowed(s, { [name]: before })), query_b: print(narrowed(s, { [name]: after })), start_a: b.start, end_a: b.end, at: null }) });
		}));
		this.labelPresets = [...versions, ...items.sort((x, y) => x.label.localeCompare(y.label))];
	}

	/** Each version against the one that came before it, the newest first: each in its own last stretch of B's length. */
	private async versionPresets(p: URLSearchParams, name: string): Promise<MenuItem[]> {
		const s = parse(p.get('query_b')!)!, { start, end } = this.times(readRange(p, '_b')), ask = (q: Query) => series(q, this.life.signal).then((m) => m.result);
		const seen = await stretches(ask, name, print(without(s, name)), end).catch(() => []);
		return pairs(seen, MOST_VERSIONS).map((pair): MenuItem => ({ label: `${name}: ${fitted(pair.before.value)} → ${fitted(pair.after.value)}`, hint: agoText(Math.max(this.now - pair.after.first, 0)), pick: () => set({
			query_a: print(narrowed(s, { [name]: pair.before.value })), query_b: print(narrowed(s, { [name]: pair.after.value })), ...ranges(pair, end - start), at: null }) }));
	}

	private exchange(p: URLSearchParams): void {
		const a = readRange(p, '_a'), b = readRange(p, '_b');
		set({ query_a: p.get('query_b'), query_b: p.get('query_a'), start_a: b.start, end_a: b.end, start_b: a.start, end_b: a.end, at: null });
	}

	/** Both have to be there: the plot shows what the heads do. Until then there is none, lest it is a former one. */
	private drawLines(): void {
		const d = this.answer, { lines } = this;
		this.plot.root.hidden = this.note.hidden = !d || !lines;
		if (!d || !lines) return;
		const { p } = lines, [a, b] = lines.of, ta = this.times(readRange(p, '_a')), tb = this.times(readRange(p, '_b')), shift = tb.start - ta.start;
		const step = Math.max(a.step, b.step), rate = overTime(d, 'b', step);
		const line = (m: Matrix, l: Letter, gone: string, colour: string, by: number) => ({ label: `${l.toUpperCase()}${gone}`, id: l.toUpperCase(), colour, mean: meanOf(d, l), points: (m.result[0]?.values ?? []).map(([t, v]): [number, number] => [t + by, Number(v) * overTime(d, l, m.step).factor]) });
		const gap = shift ? `, drawn ${duration(Math.abs(shift))} ${shift > 0 ? 'later' : 'earlier'}` : '';
		this.plot.hide(p.getAll('off'));
		this.note.textContent = rate.name;
		this.plot.show([line(a, 'a', gap, seriesColour(0), shift), line(b, 'b', '', seriesColour(1), 0)], { step, start: tb.start, end: Math.max(tb.end, ta.end + shift), text: rate.text, ticks: rate.name.startsWith('cores') || d.mode === 'relative' ? undefined : ticks(d.unit), zeros: d.type_kind !== 'instant', onHide: (ids) => set({ off: ids }, true),
			onRange: (from, to) => {
				const side = dragged(params()), by = side === 'a' ? shift : 0;
				set({ [`start_${side}`]: String(from - by), [`end_${side}`]: String(to - by) });
			} });
	}

	private drawTotals(d: Diff): void {
		const text = formatter(d), a = d.a.total * d.a.scale, b = d.b.total * d.b.scale, change = a ? b / a - 1 : Infinity, p = this.completed(params());
		const cell = (title: string, shown: string, note: string, kind = '') => h('div', { class: `total ${kind}` }, h('span', { class: 'muted' }, title), h('strong', { class: 'num' }, shown), h('span', { class: 'muted num' }, note));
		const link = (l: Letter) => h('a', { href: href('', Object.fromEntries(this.sideQuery(p, l, ''))) }, 'flame graph');
		const profiles = (s: SideAnswer, l: Letter) => (s.n_profiles ? [`${s.n_profiles} profiles, ${value(s.total, d.unit)} · `, link(l)] : ['nothing is stored here: choose another range or preset']);
		this.totals.replaceChildren(cell(`A ${whose(d)}`.trim(), text(a), ''), cell(`B ${whose(d)}`.trim(), text(b), ''), cell('B against A', d.mode === 'relative' ? 'shares' : a ? signedPercent(change) : 'only in B', d.mode === 'relative' ? 'of each side’s own total' : `${b > a ? '+' : b < a ? '−' : ''}${text(Math.abs(b - a))}`, isTested(d) && INSIGNIFICANT.includes(d.statistics!.verdict) ? '' : change > 0 ? 'is-more' : change < 0 ? 'is-less' : ''));
		if (isTested(d)) {
			const s = d.statistics!, q = s.q === null ? '' : s.q < 0.001 ? ', q < 0.001' : `, q = ${s.q.toFixed(3)}`;
			this.totals.append(cell('Significant', s.verdict === '~' ? 'no' : s.verdict === 'few' ? 'too few samples' : 'yes', `${s.n_a} against ${s.n_b} replicates${q}${INSIGNIFICANT.includes(s.verdict) && s.min_effect ? `; less than ±${percent(s.min_effect)} cannot be seen` : ''}`));
		} else this.totals.append(cell('Significant', 'not known', 'three replicates a side are needed: longer ranges or more instances'));
		LETTERS.forEach((l, i) => this.totals.children[i].lastElementChild!.append(...profiles(d[l], l)));
		LETTERS.forEach((l, i) => void this.loadQuality(d, this.sideQuery(p, l, ''), this.totals.children[i]));
	}

	private async loadQuality(d: Diff, query: Query, cell: Element): Promise<void> {
		const q = await get<Quality>('api/v1/quality', query, this.life.signal).catch(() => undefined), badge = q && this.answer === d && qualityBadge(q);
		if (badge) cell.append(badge);
	}

	private drawFlame(p: URLSearchParams): void {
		const d = this.answer;
		this.drawBars(p);
		this.plot.hide(p.getAll('off'));
		if (!d) return;
		if (!d.a.total && !d.b.total) {
			this.flame.empty('No profiles on either side', 'Nothing was stored for these selectors in these ranges. Widen the ranges, or take matchers away.');
			return;
		}
		const scale: [number, number] = [d.a.scale, d.b.scale], query = this.diffQuery(p), tested = this.testedQuery(p), text = formatter(d), panel = p.get('panel'), roots: Query = panel ? [['tagroot', panel]] : [], width = (p.get('width') ?? 'union') as Width;
		const b = captionOf(query, '_b'), link = (format: string, extension: string, label: string, q = query): MenuItem => ({ label, hint: extension, href: address('api/v1/diff', [...q, ['format', format]]), download: `diff-${b.name}.${extension}` });
		this.flame.update({
			path: 'api/v1/diff', query: [...tested, ...roots], options: { width, scale }, side: this.table, caption: { name: `diff-${b.name}`, lines: [`A: ${captionOf(query, '_a').lines.join(', ')}`, `B: ${b.lines.join(', ')}`] }, text: width === 'union' ? (v) => text(v / 2) : text,
			paint: (t, isWhole) => paintDiff(t, { scale, isTested: isTested(d) && isWhole, panels: panel !== null && isWhole }), describe: (t, i) => describeDiff(t, i, { scale, text }),
			panelTitle: panel === null ? undefined : (t, i) => panelTitle(t, i, { scale, text }),
			exports: [link('pprof', 'pb.gz', 'pprof (opens as a difference)', [...query, ...roots]), link('folded', 'folded', 'Folded stacks, two columns', [...query, ...roots]), link('speedscope', 'speedscope.json', 'speedscope, two profiles'),
				link('svg', 'svg', 'Picture (SVG)', [...tested, ...roots, ...askedNames(p)]), link('html', 'html', 'Page (HTML)', [...tested, ...roots, ...askedNames(p)]), link('csv', 'csv', 'Functions (CSV)', tested), link('json', 'json', 'Arrays (JSON)', tested)],
			summary: `${width === 'union' ? 'bars are as wide as A and B together' : `bars are as wide as ${width.toUpperCase()}`}${panel ? ` · a panel per ${panel}, each with colours from its own largest change on` : ''}`,
		}, p);
	}
}

/** A as B by so many seconds earlier; without: right before it. */
function shifted(b: Range, by: number | undefined, now: number): { start_a: string; end_a: string } {
	const { start, end } = resolve(b, now), length = Math.round(instant(b.end, now) - instant(b.start, now)), back = by ?? length;
	if (isRelative(b.start) && b.end === 'now') return { start_a: `now-${durationText(back + length)}`, end_a: `now-${durationText(back)}` };
	return { start_a: String(start - back), end_a: String(end - back) };
}

function duration(seconds: number): string {
	return value(seconds, 'seconds');
}
