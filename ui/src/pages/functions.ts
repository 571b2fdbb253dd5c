// SPDX-License-Identifier: Apache-2.0
//
// The largest functions over time, one on the other.
import { Line, Matrix, ProfileType, Query, get } from '../api';
import { fill, h, segmented } from '../dom';
import { BUILD_DIGITS } from '../flame/describe';
import { Life } from '../life';
import { chooseNames, shownName } from '../names';
import { Overlap, findOverlap, withoutOverlap } from '../overlap';
import { Panel } from '../panel';
import { Plot, PlotLine } from '../plot';
import { QueryBar, readFilters, readFrames, sharedText } from '../query_bar';
import { RangePicker } from '../range_picker';
import { askedRates, ratesOf, ratesSwitch } from '../rates';
import { Changes, Page, href, params, set } from '../router';
import { advice } from '../selector';
import { readRange, resolve, stepFor } from '../time';
import { integer, percent, rateOf, ticks, value } from '../units';
import { overlapNote, typesOf } from './explore';

type FunctionLine = Line & { self: number; total: number };
type Answer = Omit<Matrix, 'result'> & { by: string; total: number; n_functions: number; result: FunctionLine[]; rest: { n_functions: number; values: [number, string][] } };

const buildOf = (l: FunctionLine) => l.metric.build?.slice(0, BUILD_DIGITS) ?? '';
/** Builds that are apart have lines of their own. */
const nameOf = (l: FunctionLine) => [shownName(l.metric.function), buildOf(l)].filter(Boolean).join(' ');

/** Functions of one short name are apart. */
const idOf = ({ metric: { function: name, mapping, file, build } }: FunctionLine) => [name, mapping, file, build].filter(Boolean).join(' ');

const COUNTS: [string, string][] = [['5', '5'], ['10', '10'], ['20', '20']];

export class FunctionsPage implements Page {
	private readonly bar = new QueryBar((c) => set(c), '', true, false);
	private readonly range = new RangePicker((c) => set(c), () => this.load(params()));
	private readonly plot = new Plot(340);
	private readonly head = h('div', { class: 'toolbar' });
	private readonly rows = h('tbody');
	private readonly note = h('p', { class: 'facts' });
	private readonly panel = new Panel('functions', this.head);
	readonly root: HTMLElement;
	private types: ProfileType[] = [];
	private overlap?: Overlap; // of what is shown
	private answer?: Answer;
	private frame = { start: 0, end: 1 };
	private asked = '';
	private drawn?: string | null; // which others
	private query = ''; // what a bare address means
	private isInstant = false;
	now = Date.now() / 1e3;
	private readonly life = new Life();

	constructor() {
		this.panel.body.append(this.plot.root, this.note, h('table', { class: 'plain' }, h('thead', {}, h('tr', {}, h('th', {}, 'Function'), h('th', { class: 'optional' }, 'Binary'), ['Self', 'Self %', 'Total', 'Total %'].map((t, i) => h('th', { class: `number${i % 2 ? '' : ' optional'}` }, t)))), this.rows));
		this.root = h('div', { class: 'page' }, h('div', { class: 'bars' }, this.bar.root, this.range.root), this.panel.root);
		this.life.listen(document, 'sonde-theme', () => this.plot.redraw());
	}

	leave(): void {
		this.life.end();
		this.range.leave();
		this.plot.leave();
		this.panel.leave();
	}

	shared(p: URLSearchParams): { changes: Changes } {
		return { changes: { query: p.get('query') || this.query || null, text: sharedText() } };
	}

	update(p: URLSearchParams): void {
		const key = JSON.stringify([p.get('query'), readRange(p), readFrames(p), ratesOf(p), this.by(p), this.limit(p)]);
		if (chooseNames(p)) this.drawn = undefined;
		this.range.update(p);
		if (key === this.asked && this.answer) this.draw(this.answer, p);
		else this.load(p, key);
	}

	private by(p: URLSearchParams): string {
		return p.get('by') === 'total' ? 'total' : 'self';
	}

	private limit(p: URLSearchParams): string {
		return p.get('limit') ?? '10';
	}

	private drawHead(p: URLSearchParams): void {
		const by = this.by(p), limit = this.limit(p);
		fill(this.head, segmented('Counted', [['self', 'Self', 'What the function itself did'], ['total', 'Total', 'What it and all that it calls did']], by, (v) => set({ by: v === 'self' ? null : v })),
			segmented('How many', COUNTS, limit, (v) => set({ limit: v === '10' ? null : v })),
			by === 'self' && segmented('Others', [['shown', 'With others', 'What all other functions did stands on top'], ['hidden', 'Without', 'Only these functions']], p.get('others') === 'hidden' ? 'hidden' : 'shown', (v) => set({ others: v === 'hidden' ? v : null })),
			segmented('Builds', [['joined', 'Builds joined', 'All builds of a function are one line'], ['split', 'Split by build', 'Each build by itself']], p.get('by_build') === '1' ? 'split' : 'joined', (v) => set({ by_build: v === 'split' ? '1' : null })), !this.isInstant && ratesSwitch(p));
	}

	private load(p: URLSearchParams, key = this.asked): void {
		const { start, end } = resolve(readRange(p), (this.now = Date.now() / 1e3)), range: Query = [['start', String(start)], ['end', String(end)]];
		this.asked = key;
		this.answer = this.drawn = undefined;
		this.drawHead(p);
		void this.panel.run(async (signal) => {
			this.types = await typesOf(range, signal);
			const first = p.get('query') || (this.types.length ? `${this.types[0].id}{}` : '');
			const overlap = await findOverlap(first, range);
			signal.throwIfAborted(); // another query has taken its place
			this.overlap = overlap;
			const query = (this.query = this.overlap && !p.get('query') ? withoutOverlap(first, this.overlap) : first);
			this.bar.update({ query, groupBy: [], filters: readFilters(p), range: () => range }, this.types);
			return query ? get<Answer>('api/v1/top_series', [['query', query], ...range, ...readFrames(p), ['step', String(stepFor(end - start))], ...askedRates(p), ['by', this.by(p)], ['limit', this.limit(p)]], signal, 'POST') : null;
		}, (a) => {
			this.frame = { start, end };
			this.answer = a ?? undefined;
			this.isInstant = this.types.find((t) => t.id === a?.profile_type)?.kind === 'instant';
			this.draw(a, params());
		}, () => this.load(params()));
	}

	private draw(a: Answer | null, p: URLSearchParams): void {
		const { start, end } = this.frame, others = p.get('others');
		this.drawHead(p);
		this.plot.hide(p.getAll('off'));
		if (this.drawn === others) return;
		this.drawn = others;
		if (!a || !a.result.length) {
			this.panel.say('empty', 'No profiles here', advice(this.query));
			return;
		}
		const isInstant = this.isInstant, rate = rateOf(a, isInstant, a.step), whose = isInstant || ratesOf(p) === 'service' ? '' : ' per instance', isStacked = a.by === 'self';
		const points = (values: [number, string][]) => values.map(([t, v]): [number, number] => [t, Number(v) * rate.factor]);
		const lines: PlotLine[] = a.result.map((l) => ({ label: nameOf(l), id: idOf(l), points: points(l.values) }));
		// On top: those that are named share a base line.
		if (isStacked && a.rest.values.length && p.get('others') !== 'hidden') lines.unshift({ label: `${integer(a.rest.n_functions)} others`, id: '(others)', points: points(a.rest.values), colour: '#8a94a3' });
		this.plot.show(lines, { step: a.step, start, end, text: rate.text, ticks: rate.name === 'cores' ? undefined : ticks(a.unit), stacked: isStacked, zeros: !isInstant, onHide: (ids) => set({ off: ids }, true),
			onRange: (from, to) => set({ start: String(from), end: String(to), seconds: null }) });
		fill(this.note, `${rate.name}${whose}, a point per ${a.step} s · ${isStacked ? 'self, one on the other' : 'totals overlap, so each has its own line'} · ${integer(a.n_functions)} functions in the range`, this.overlap && overlapNote(this.overlap, this.query, p.has('query')));
		const kept = Object.fromEntries([...p].filter(([k]) => ['query', 'start', 'end', 'seconds', 'focus', 'ignore', 'hide', 'show', 'show_from', 'by_build', 'names'].includes(k)));
		this.rows.replaceChildren(...a.result.map((l) => h('tr', {},
			h('td', { class: 'mono' }, h('a', { href: href('', { ...kept, sandwich: l.metric.function }), title: l.metric.function }, shownName(l.metric.function))), h('td', { class: 'muted optional' }, [l.metric.mapping, buildOf(l)].filter(Boolean).join(' ')),
			[l.self, l.total].map((v) => [h('td', { class: 'number num optional' }, value(v, a.unit)), h('td', { class: 'number num' }, percent(v / a.total))]))));
	}
}
