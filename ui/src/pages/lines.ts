// SPDX-License-Identifier: Apache-2.0
//
// What one function costs, line by line, beside its text where the scraper can read that.
import { ApiError, ProfileType, Query, get } from '../api';
import { Child, fill, h } from '../dom';
import { lastLine } from '../extent';
import { meter } from '../flame/table';
import { Panel } from '../panel';
import { QueryBar, readFilters, sharedText } from '../query_bar';
import { RangePicker } from '../range_picker';
import { Changes, Page, href, params, set } from '../router';
import { readRange, resolve } from '../time';
import { percent, value } from '../units';
import { typesOf } from './explore';

interface Line {
	file: string;
	line: number;
	self: number;
	total: number;
}
interface Answer {
	unit: string;
	function: string;
	whole: number;
	self: number;
	total: number;
	start_line: number;
	lines: Line[];
}
interface Source {
	path: string;
	text: string[];
	problem?: string;
}

const AROUND = 8; // lines of text before and after those that cost something, where it is not known how far the function goes

export class LinesPage implements Page {
	private readonly bar = new QueryBar((c) => set(c), '', true, false);
	private readonly range = new RangePicker((c) => set(c), () => this.load(params()));
	private readonly head = h('div', { class: 'sandwich-head line-head' });
	private readonly parts = h('div');
	private readonly panel = new Panel('lines');
	readonly root: HTMLElement;
	private types: ProfileType[] = [];
	private query = ''; // what a bare address means
	now = Date.now() / 1e3;

	constructor() {
		this.panel.body.append(this.head, this.parts);
		this.root = h('div', { class: 'page' }, h('div', { class: 'bars' }, this.bar.root, this.range.root), this.panel.root);
	}

	leave(): void {
		this.range.leave();
		this.panel.leave();
	}

	shared(p: URLSearchParams): { changes: Changes } {
		return { changes: { query: p.get('query') || this.query || null, text: sharedText() } };
	}

	update(p: URLSearchParams): void {
		this.range.update(p);
		this.load(p);
	}

	private load(p: URLSearchParams): void {
		const { start, end } = resolve(readRange(p), (this.now = Date.now() / 1e3)), range: Query = [['start', String(start)], ['end', String(end)]], name = p.get('function');
		void this.panel.run(async (signal) => {
			this.types = await typesOf(range, signal);
			const query = (this.query = p.get('query') || (this.types.length ? `${this.types[0].id}{}` : ''));
			this.bar.update({ query, groupBy: [], filters: readFilters(p), range: () => range }, this.types);
			if (!query || !name) return null;
			const ids = p.getAll('profile_id').map((id): [string, string] => ['profile_id', id]);
			const found = await get<Answer>('api/v1/lines', [['query', query], ...range, ...readFilters(p), ...ids, ['function', name]], signal, 'POST')
				.catch((e) => (e instanceof ApiError && e.type === 'not_found' ? null : Promise.reject(e)));
			if (!found) return null;
			const files = [...new Set(found.lines.map((l) => l.file))];
			return { found, sources: new Map(await Promise.all(files.map(async (file): Promise<[string, Source]> => [file, await source(file, signal)]))) };
		}, (r) => {
			if (r) this.draw(r.found, r.sources, p);
			else if (!name) this.panel.say('empty', 'No function is chosen', ['In ', h('a', { href: href('', this.kept(p)) }, 'Explore'), ' a right click or long press on a function, in graph or table, offers “Cost per source line”.']);
			else this.panel.say('empty', `${name} is not here`, 'No stack of this selector and range has a function of that name. Widen the range, or take matchers away.', ['Last 24 hours', () => set({ start: 'now-24h', end: 'now', seconds: null })]);
		}, () => this.load(params()));
	}

	private kept(p: URLSearchParams): Record<string, string> {
		return Object.fromEntries([...p].filter(([k]) => ['query', 'start', 'end', 'seconds', 'focus', 'ignore', 'hide', 'show', 'show_from', 'profile_id'].includes(k)));
	}

	private draw(a: Answer, sources: Map<string, Source>, p: URLSearchParams): void {
		fill(this.head, h('strong', { class: 'mono' }, a.function), h('span', { class: 'num' }, `self ${value(a.self, a.unit)}, ${percent(a.self / a.whole)}`), h('span', { class: 'num' }, `total ${value(a.total, a.unit)}, ${percent(a.total / a.whole)}`),
			h('a', { href: href('', { ...this.kept(p), sandwich: a.function }) }, 'Callers and callees'));
		if (a.lines.every((l) => l.line <= 0)) {
			fill(this.parts, h('p', { class: 'muted' }, ['Its stacks have no line numbers. Exporters name them when the job says ', h('code', { class: 'mono' }, 'profiling_config: {symbolize: lines}'), ', and where the program or its debug file has DWARF.']));
			return;
		}
		fill(this.parts, [...sources].map(([file, s]) => this.file(a, file, s)));
	}

	private file(a: Answer, file: string, s: Source): Child {
		const cost = new Map(a.lines.filter((l) => l.file === file).map((l) => [l.line, l])), numbers = [...cost.keys()].filter((n) => n > 0), most = a.total || 1;
		const shown = new Set<number>(), [begin, end] = whole(s.text, file, a.start_line, numbers), largest = Math.max(...[...cost.values()].map((l) => l.total), 1);
		for (let n = begin; n <= end; n++) shown.add(n);
		for (const n of numbers) if (n < begin || n > end) for (let k = n - AROUND; k <= n + AROUND; k++) if (s.text.length ? k >= 1 && k <= s.text.length : k === n) shown.add(k);
		const stale = s.text.length > 0 && numbers.some((n) => n > s.text.length);
		for (const n of numbers) shown.add(n);
		let last = 0;
		const rows = [...shown].sort((x, y) => x - y).flatMap((n): Child[] => {
			const c = cost.get(n), gap = last && n > last + 1;
			last = n;
			return [gap ? h('tr', { class: 'line-gap' }, h('td', { colspan: '4' }, '⋯')) : null,
				h('tr', { class: c ? 'has-cost' : '', style: c ? { '--cost': String(c.total / largest) } : {} }, h('td', { class: 'number' }, c && c.self ? meter(`${value(c.self, a.unit)}  ${percent(c.self / a.whole)}`, c.self / most) : ''), h('td', { class: 'number' }, c ? meter(`${value(c.total, a.unit)}  ${percent(c.total / a.whole)}`, c.total / most) : ''),
					h('th', { class: 'line-number num', scope: 'row' }, n), h('td', { class: 'line-text' }, s.text[n - 1] ?? ''))];
		});
		const unknown = cost.get(0);
		return [h('h2', { class: 'section' }, h('span', { class: 'mono' }, file || 'no file'), s.path && s.path !== file && h('span', { class: 'muted' }, ` shown from ${s.path}`)),
			s.problem && h('p', { class: 'muted' }, s.problem), stale && h('p', { class: 'card-error' }, 'The file has fewer lines than the profile names: it is another version of it.'),
			unknown && h('p', { class: 'muted' }, `${value(unknown.total, a.unit)} without a line number.`),
			rows.length > 0 && h('div', { class: 'wide' }, h('table', { class: 'plain lines' }, h('thead', {}, h('tr', {}, h('th', { class: 'number' }, 'Self'), h('th', { class: 'number' }, 'Total'), h('th', { class: 'line-number' }, 'Line'), h('th', {}, 'Source'))), h('tbody', {}, rows)))];
	}
}

/** From the function's first line to its last. Nothing where one of them is not known, or where costs lie outside: the text is another version's, or the first line another file's. */
function whole(text: string[], file: string, start: number, costs: number[]): [number, number] {
	const end = start > 0 && costs.every((n) => n >= start) ? lastLine(text, start, file) : undefined;
	return end && costs.every((n) => n <= end) ? [start, end] : [1, 0];
}

async function source(file: string, signal: AbortSignal): Promise<Source> {
	if (!file) return { path: '', text: [] };
	try {
		const { path, text } = await get<{ path: string; text: string }>('api/v1/source', [['file', file]], signal, 'POST');
		return { path, text: text.split('\n') };
	} catch (e) {
		if (!(e instanceof ApiError) || e.type === 'network') throw e;
		return { path: '', text: [], problem: e.message.includes('--symbols.source-dir') && !e.message.startsWith('file:') ? 'Its text is shown when the scraper is started with --symbols.source-dir.' : `Its text is not shown: ${e.message}.` };
	}
}
