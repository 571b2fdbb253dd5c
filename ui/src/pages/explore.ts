// SPDX-License-Identifier: Apache-2.0
//
// One selection: its values over time, and below them its flame graph.
import { Line, Matrix, ProfileType, Query, address, get, recall, series } from '../api';
import { Child, fill, h, segmented } from '../dom';
import { NO_SANDWICH } from '../flame/address';
import { captionOf } from '../flame/caption';
import { exportLinks } from '../flame/exports';
import { FlamePanel } from '../flame/panel';
import { Life } from '../life';
import { Overlap, findOverlap, withoutOverlap } from '../overlap';
import { Panel } from '../panel';
import { Plot, PlotLine } from '../plot';
import { Quality, qualityBadge } from '../quality';
import { QueryBar, readFilters, readFrames, sharedText } from '../query_bar';
import { RangePicker } from '../range_picker';
import { askedRates, ratesOf, ratesSwitch } from '../rates';
import { Changes, Page, go, href, params, set } from '../router';
import { advice, narrowed, parse, print } from '../selector';
import { integer, rateOf, ticks } from '../units';
import { Range, clockText, readRange, resolve, stepFor, timeText } from '../time';
import { firstStart } from './first_start';
import { groupOf, idOf, lineLabel, othersOf, tellingGroups } from './group_lines';

const MAX_LINES = 24;
const NO_POINT = { point: null, only: null }; // of the graph over time: its stretch of time, and its line's labels as a selector
const TIME_KEYS = ['start', 'end', 'seconds'];
const LINE_KEYS = [...TIME_KEYS, 'focus', 'ignore', 'hide', 'show', 'show_from', 'profile_id'];
export const PATHS = { profile: 'api/v1/profile', graph: 'api/v1/flamegraph', top: 'api/v1/top' };

/** The types of a range, and the query that a bare address means. */
export async function typesOf(range: Query, signal: AbortSignal): Promise<ProfileType[]> {
	return get<ProfileType[]>('api/v1/profile_types', range, signal);
}

/** The stretch of time of the point that was clicked. */
function readPoint(p: URLSearchParams): [number, number] | undefined {
	const [from, to] = (p.get('point') ?? '').split(',').map(Number);
	return from < to ? [from, to] : undefined;
}

/** It asks this scraper for the answer by itself. */
function openSpeedscope(title: string, query: Query): void {
	const profile = address(PATHS.graph, [...query, ['format', 'speedscope']]);
	open(`${href('speedscope/')}#profileURL=${encodeURIComponent(profile)}&title=${encodeURIComponent(title)}`, '_blank', 'noopener');
}

/** Said beside sums that have the CPU of some processes twice, or that leave jobs out for it. */
export function overlapNote(o: Overlap, query: string, isCounted: boolean): Node {
	const jobs = (list: string[]) => list.map((job) => `“${job}”`).join(', ');
	if (!isCounted) return h('span', {}, ` · without ${jobs(o.own)}: ${jobs(o.machine)} has their processes too`);
	return h('strong', {}, ` · the CPU of ${jobs(o.own)} is in ${jobs(o.machine)} too, so the sum counts it twice. `, h('button', { type: 'button', class: 'button small', onclick: () => set({ ...NO_POINT, query: withoutOverlap(query, o) }) }, `Only ${jobs(o.machine)}`));
}

/** What the graph over time shows. */
interface OverTime {
	of: Matrix;
	all?: Line; // the sum of all lines, where a limit left some out
	groups: string[];
	query: string;
	start: number;
	end: number;
}

export class ExplorePage implements Page {
	private readonly bar = new QueryBar((c) => set({ at: null, ...NO_SANDWICH, profile_id: null, off: null, ...NO_POINT, ...c }));
	private readonly range = new RangePicker((c) => set('start' in c ? { ...NO_POINT, ...c } : c), () => this.refresh());
	private readonly plot = new Plot();
	private readonly how = h('div', { class: 'plot-how' });
	private readonly graph = new Panel('plot');
	private readonly flame = new FlamePanel((c, replace) => set(c, replace));
	private readonly note = h('p', { class: 'facts' });
	private readonly quality = h('span');
	private readonly rates = h('div');
	private readonly single = h('div', { class: 'single', hidden: true });
	readonly root: HTMLElement;
	private types: ProfileType[] = [];
	private overlap?: Overlap; // of what is shown
	private start: Child = null; // what an empty store says
	private lines?: OverTime;
	private drawn?: boolean; // whether the lines stand on one another
	private bare = ''; // what an address without a query means
	private shown = '';
	private hasSpeedscope = false;
	now = Date.now() / 1e3;
	private readonly life = new Life();

	constructor() {
		this.graph.body.append(this.how, this.plot.root, h('div', { class: 'plot-foot' }, this.note, this.rates));
		this.root = h('div', { class: 'page' }, h('div', { class: 'bars' }, this.bar.root, this.range.root), this.single, this.graph.root, this.flame.root);
		this.life.listen(document, 'keydown', this.flame.onKey);
		recall<Record<string, string>>('api/v1/status/flags', []).then((flags) => {
			this.hasSpeedscope = Boolean(flags['web.speedscope-dir']);
			if (this.hasSpeedscope && this.shown && !this.life.signal.aborted) this.draw(params());
		}, () => {}); // without an answer there is one way less to open a profile
		this.life.listen(document, 'sonde-theme', () => this.plot.redraw());
	}

	leave(): void {
		this.life.end();
		this.range.leave();
		this.plot.leave();
		this.graph.leave();
		this.flame.leave();
	}

	shared(p: URLSearchParams): { changes: Changes } {
		return { changes: { query: this.query(p) || null, text: sharedText() } };
	}

	/** Without one in the address the first type's. */
	private query(p: URLSearchParams): string {
		return p.get('query') || this.bare;
	}

	private refresh(): void {
		this.now = Date.now() / 1e3;
		this.shown = '';
		this.update(params());
	}

	private times(r: Range): { start: number; end: number } {
		return resolve(r, this.now);
	}

	private rangeQuery(p: URLSearchParams): Query {
		const { start, end } = this.times(readRange(p));
		return [['start', String(start)], ['end', String(end)]];
	}

	update(p: URLSearchParams): void {
		const asked = JSON.stringify([p.get('query'), readRange(p), p.getAll('group_by'), readFrames(p), ratesOf(p)]);
		this.range.update(p);
		if (asked === this.shown) {
			this.draw(p);
			return;
		}
		if (this.shown) this.now = Date.now() / 1e3;
		this.shown = asked;
		this.lines = undefined;
		this.flame.await();
		void this.graph.run(async (signal) => {
			this.types = await typesOf(this.rangeQuery(p), signal);
			if (!p.get('query') && !this.types.length) {
				this.start = await firstStart(signal);
				return null;
			}
			const first = p.get('query') || `${this.types[0].id}{}`;
			const overlap = await findOverlap(first, this.rangeQuery(p));
			signal.throwIfAborted(); // another query has taken its place
			this.overlap = overlap;
			this.bare = this.overlap && !p.get('query') ? withoutOverlap(first, this.overlap) : first;
			const query = this.query(p);
			this.draw(p);
			return this.loadLines(query, p, signal);
		}, (lines) => {
			this.lines = lines ?? undefined;
			if (lines) {
				this.drawLines(lines);
				void this.loadQuality(lines.query, this.isInstant(lines.of));
			}
			else this.drawEmpty();
		}, () => this.refresh(), () => this.flame.unanswered());
	}

	private draw(p: URLSearchParams): void {
		const query = this.query(p);
		this.bar.update({ query, groupBy: p.getAll('group_by'), filters: readFilters(p), range: () => this.rangeQuery(params()) }, this.types);
		if (!query) return;
		const ids = p.getAll('profile_id'), point = readPoint(p);
		this.single.hidden = !ids.length && !point;
		this.plot.mark(point);
		this.plot.hide(p.getAll('off'));
		if (this.lines && this.isStacked(this.lines) !== this.drawn) this.drawLines(this.lines);
		if (point) fill(this.single, h('strong', {}, `${timeText(point[0])} – ${clockText(point[1])}`), p.has('only') && h('span', { class: 'mono muted' }, p.get('only')!.replace(/^[^{]*/, '')),
			h('a', { href: href('profiles', { query: p.get('only') ?? query, start: String(point[0]), end: String(point[1]) }) }, 'Open the profiles'), h('button', { type: 'button', class: 'button small', onclick: () => set({ start: String(point[0]), end: String(point[1]), seconds: null, at: null, ...(p.has('only') ? { query: p.get('only') } : {}), ...NO_POINT }) }, 'Make it the range'),
			h('button', { type: 'button', class: 'button small', onclick: () => set({ ...NO_POINT, at: null }) }, 'The whole range'));
		else fill(this.single, h('strong', {}, ids.length > 1 ? `${ids.length} single profiles` : 'A single profile'), h('span', { class: 'mono muted' }, ids.join(' ')), h('a', { href: href('profiles', new URLSearchParams([...p].filter(([k]) => ['query', 'start', 'end', 'seconds', 'by'].includes(k)))) }, 'All single profiles'),
			h('button', { type: 'button', class: 'button small', onclick: () => set({ profile_id: null, at: null }) }, 'The whole range'));
		const range: Query = point ? [['start', String(point[0])], ['end', String(point[1])]] : this.rangeQuery(p);
		const asked: Query = [['query', (point && p.get('only')) || query], ...range, ...readFrames(p), ...p.getAll('group_by').map((g): [string, string] => ['group_by', g]), ...ids.map((id): [string, string] => ['profile_id', id])];
		this.flame.update({ path: PATHS.graph, query: asked, caption: captionOf(asked), exports: [...exportLinks(PATHS, asked), ...(this.hasSpeedscope ? [{ label: 'Open in speedscope', pick: () => openSpeedscope(query, asked) }] : [])],
			more: (name) => [{ label: 'Cost per source line', pick: () => go(href('lines', new URLSearchParams([...[...p].filter(([k]) => LINE_KEYS.includes(k) && !(point && TIME_KEYS.includes(k))), ...(point ? range : []), asked[0], ['function', name]]))) }] }, p);
	}

	/** With the sum of all where a limit leaves lines out. */
	private async loadLines(query: string, p: URLSearchParams, signal: AbortSignal): Promise<OverTime> {
		const range = this.times(readRange(p)), { start, end } = range, groups = p.getAll('group_by');
		const asked: Query = [['query', query], ['start', String(start)], ['end', String(end)], ['step', String(stepFor(end - start))], ...readFilters(p), ...askedRates(p)];
		const of = await series([...asked, ['limit', String(MAX_LINES)], ...(groups.length ? groups : ['']).map((g): [string, string] => ['group_by', g])], signal);
		const [all] = of.n_series > of.result.length ? (await series([...asked, ['group_by', '']], signal)).result : [];
		return { of, all, groups, query, ...range };
	}

	/** Below the plot: what is not known says nothing, and one instance needs no choice. */
	private async loadQuality(query: string, isInstant: boolean): Promise<void> {
		const asked = this.shown;
		this.quality.replaceChildren();
		this.rates.replaceChildren();
		const q = await get<Quality>('api/v1/quality', [['query', query], ...this.rangeQuery(params())], this.life.signal).catch(() => undefined);
		const badge = q && asked === this.shown && qualityBadge(q);
		if (badge) this.quality.replaceChildren(badge, ' ');
		if (q && asked === this.shown && !isInstant && (q.n_targets! > 1 || ratesOf(params()) === 'instance')) this.rates.replaceChildren(ratesSwitch(params()));
	}

	private isInstant(m: Matrix): boolean {
		return this.types.find((t) => t.id === m.profile_type)?.kind === 'instant';
	}

	/** Parts of a whole stand on one another; what is in use has gaps that are not nothing, and means are no parts. */
	private isStacked({ of, groups }: OverTime): boolean {
		return groups.length > 0 && of.result.length > 1 && ratesOf(params()) === 'service' && (params().get('lines') ?? (this.isInstant(of) ? 'apart' : 'stacked')) === 'stacked';
	}

	private drawEmpty(): void {
		this.bar.update({ query: '', groupBy: [], filters: [], range: () => this.rangeQuery(params()) }, []);
		this.graph.say('empty', 'No profiles in this range', [h('p', {}, 'The store holds nothing for this time. A wider range may hold older profiles.'), this.start], ['Last 7 days', () => set({ start: 'now-7d', end: 'now', seconds: null })]);
		this.flame.empty('Nothing to draw yet', 'Profiles appear here a few seconds after the first scrape. POST /api/v1/import takes profiles by hand.');
	}

	private drawLines(lines: OverTime): void {
		const { of: m, all, groups, start, end } = lines, isStacked = (this.drawn = this.isStacked(lines)), isInstant = this.isInstant(m);
		if (!m.result.length) {
			this.graph.say('empty', 'No values here', advice(lines.query));
			return;
		}
		const rate = rateOf(m, isInstant, m.step), telling = tellingGroups(m.result, groups), query = parse(lines.query);
		const drawn = m.result.map((l): PlotLine & { of?: Line } => ({
			of: l, label: lineLabel(l, telling), id: idOf(l, groups), points: l.values.map(([t, v]) => [t, Number(v) * rate.factor]),
			pick: query && groups.length ? () => set({ ...NO_POINT, query: print(narrowed(query, groupOf(l, groups))), at: null }) : undefined,
		}));
		// On top, so that those that are named share a base line.
		if (isStacked && all) drawn.unshift({ label: `${integer(m.n_series - m.result.length)} others`, id: '(others)', colour: '#8a94a3', points: othersOf(m.result, all).map(([t, v]) => [t, v * rate.factor]) });
		this.how.hidden = !groups.length || m.result.length < 2 || ratesOf(params()) === 'instance';
		fill(this.how, segmented('Lines', [['stacked', 'Stacked', 'Areas on one another, up to the sum of all'], ['apart', 'Lines', 'Each from 0']], isStacked ? 'stacked' : 'apart', (v) => set({ lines: v })));
		this.plot.show(drawn, { step: m.step, start, end, text: rate.text, ticks: rate.name === 'cores' ? undefined : ticks(m.unit), stacked: isStacked,
			mark: readPoint(params()), zeros: !isInstant, onHide: (ids) => set({ off: ids }, true),
			onRange: (a, b) => set({ start: String(a), end: String(b), seconds: null, ...NO_POINT }),
			onPoint: (t, i) => {
				const line = i === undefined ? undefined : drawn[i].of;
				set({ point: `${Math.floor(t - m.step)},${Math.ceil(t)}`, only: query && line ? print(narrowed(query, groupOf(line, groups))) : null, profile_id: null });
			} });
		fill(this.note, this.quality, `${rate.name}${isInstant || ratesOf(params()) === 'service' ? '' : ' per instance'}, a point per ${m.step} s · drag to select a range, click for one point${groups.length ? ', double-click a name of the legend to select it alone' : ''}${m.n_series > m.result.length ? ` · the largest ${m.result.length} of ${integer(m.n_series)} series` : ''}`, this.overlap && overlapNote(this.overlap, lines.query, Boolean(params().get('query'))));
	}
}
