// SPDX-License-Identifier: Apache-2.0
//
// Single profiles over time: a row for each value of a label, or their values as height, and how large each is as colour. One leads to its
// flame graph; those in a rectangle that is dragged are drawn below as one.
import { ProfileType, Query, get } from '../api';
import { Child, fill, h, iconButton, notify, segmented } from '../dom';
import { NO_SANDWICH } from '../flame/address';
import { tipRow } from '../flame/describe';
import { captionOf } from '../flame/caption';
import { exportLinks } from '../flame/exports';
import { FlamePanel } from '../flame/panel';
import { Life } from '../life';
import { Panel } from '../panel';
import { SHEET, isPrinting, onPrint } from '../print';
import { QueryBar, readFilters, sharedText } from '../query_bar';
import { RangePicker } from '../range_picker';
import { Changes, Page, go, href, params, set } from '../router';
import { advice, escapeRegexp, parse, print } from '../selector';
import { clockText, readRange, resolve, tickText, timeText, timeTicks } from '../time';
import { integer, value } from '../units';
import { PATHS, typesOf } from './explore';
import { labelChips, plainTable } from './status_page';

interface Profile {
	profile_id: string;
	time: number; // end of its window
	duration: number;
	value: number;
	labels: Record<string, string>;
}
interface Answer {
	profile_type: string;
	unit: string;
	n_profiles: number;
	total: number;
	profiles: Profile[];
}
interface Box {
	p: Profile;
	x: number;
	y: number;
	w: number;
	h: number;
}

/** What a dragged rectangle stands for, as the address has it. */
interface Selection {
	from: number; // unix seconds
	to: number;
	rows?: string[]; // values of the label that makes rows
	values?: [low: number, high: number];
}
interface Corner {
	x: number;
	y: number;
}

const LIMIT = '5000', MOST_ROWS = 40, ROW = 22, TALL = 300, AXIS = 24, TICK_PX = 90, TABLE = 25;
const BY_VALUE = 'value', MARK = 6; // the height of a profile by value
const MOST_IDS = 250; // that the scraper takes
const DRAGGED_PX = 4;
const NOTHING_SELECTED = { sel: null, rows: null, values: null };
const FLAME_KEYS = { at: null, chosen: null, ...NO_SANDWICH };

function readSelection(p: URLSearchParams): Selection | undefined {
	const [from, to] = (p.get('sel') ?? '').split(',').map(Number), [low, high] = (p.get('values') ?? '').split(',').map(Number);
	if (!(from <= to)) return undefined;
	return low <= high ? { from, to, values: [low, high] } : { from, to, rows: p.getAll('rows') };
}

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Labels that tell the profiles apart, those with fewest values first. */
function telling(profiles: Profile[]): [string, number][] {
	const values = new Map<string, Set<string>>();
	for (const p of profiles) for (const [name, v] of Object.entries(p.labels)) if (!name.startsWith('__')) {
		if (!values.has(name)) values.set(name, new Set());
		values.get(name)!.add(v);
	}
	return [...values].map(([name, v]): [string, number] => [name, v.size]).filter(([, n]) => n > 1).sort((a, b) => a[1] - b[1] || a[0].localeCompare(b[0]));
}

export class ProfilesPage implements Page {
	private readonly bar = new QueryBar((c) => set(c), '', true, false);
	private readonly range = new RangePicker((c) => set(c), () => this.load(params()));
	private readonly head = h('div', { class: 'toolbar' });
	private readonly names = h('div', { class: 'heat-names', 'aria-hidden': 'true' });
	private readonly canvas = h('canvas', { class: 'heat-canvas', tabindex: '0', role: 'application', 'aria-describedby': 'heat-said' });
	private readonly said = h('p', { class: 'offscreen', id: 'heat-said', role: 'status' });
	private readonly tip = h('div', { class: 'tooltip', hidden: true });
	private readonly scale = h('div', { class: 'heat-scale' });
	private readonly note = h('p', { class: 'facts' });
	private readonly table = h('div', { class: 'stacked' });
	private readonly panel = new Panel('profiles', this.head);
	private readonly largestPanel = h('section', { class: 'panel', hidden: true }, h('div', { class: 'panel-body' }, h('h2', {}, 'Largest profiles'), this.table));
	readonly root: HTMLElement;
	private types: ProfileType[] = [];
	private query = ''; // what a bare address means
	now = Date.now() / 1e3;
	private answer?: Answer;
	private asked = '';
	private boxes: Box[] = [];
	private at = -1;
	private frame: [number, number] = [0, 1];
	private by = BY_VALUE;
	private rows: string[] = [];
	private largest = 1;
	private corner?: number; // the box where a selection by keys began
	private readonly selected = h('div', { class: 'heat-selected', hidden: true });
	private readonly selection = h('div', { class: 'single', hidden: true });
	private readonly flame = new FlamePanel((c, replace) => set(c, replace));
	private readonly redraw = () => this.draw(params());
	private readonly life = new Life();
	private readonly observer = new ResizeObserver(() => this.answer && !isPrinting() && this.redraw());

	constructor() {
		this.panel.body.append(h('div', { class: 'heat' }, this.names, h('div', { class: 'heat-picture' }, this.canvas, this.selected)), this.scale, this.note, this.said, this.tip);
		this.root = h('div', { class: 'page' }, h('div', { class: 'bars' }, this.bar.root, this.range.root), this.panel.root, this.selection, this.flame.root, this.largestPanel);
		this.selects(false);
		this.observer.observe(this.panel.body);
		this.life.listen(document, 'sonde-theme', this.redraw);
		onPrint(this.life.signal, () => this.print());
		this.life.listen<KeyboardEvent>(document, 'keydown', (e) => this.onKey(e));
		this.listenToPointer();
		this.canvas.addEventListener('keydown', (e) => this.key(e));
		this.canvas.addEventListener('blur', () => this.choose(-1));
	}

	leave(): void {
		this.observer.disconnect();
		this.life.end();
		this.range.leave();
		this.panel.leave();
		this.flame.leave();
	}

	private onKey(e: KeyboardEvent): void {
		if (this.flame.root.hidden) return;
		if (e.key === 'Escape' && !e.defaultPrevented && !['at', 'sandwich', 'search', 'chosen'].some((k) => params().has(k))) this.deselect();
		else this.flame.onKey(e);
	}

	shared(p: URLSearchParams): { changes: Changes } {
		return { changes: { query: p.get('query') || this.query || null, text: sharedText() } };
	}

	update(p: URLSearchParams): void {
		const key = JSON.stringify([p.get('query'), readRange(p), readFilters(p)]);
		this.range.update(p);
		if (key === this.asked && this.answer) this.draw(p);
		else this.load(p);
	}

	private load(p: URLSearchParams): void {
		const { start, end } = resolve(readRange(p), (this.now = Date.now() / 1e3)), range: Query = [['start', String(start)], ['end', String(end)]];
		this.asked = JSON.stringify([p.get('query'), readRange(p), readFilters(p)]);
		this.answer = undefined;
		this.selects(false);
		this.largestPanel.hidden = true;
		void this.panel.run(async (signal) => {
			this.types = await typesOf(range, signal);
			const query = (this.query = p.get('query') || (this.types.length ? `${this.types[0].id}{}` : ''));
			this.bar.update({ query, groupBy: [], filters: readFilters(p), range: () => range }, this.types);
			return query ? get<Answer>('api/v1/profiles', [['query', query], ...range, ...readFilters(p), ['limit', LIMIT]], signal, 'POST') : null;
		}, (a) => {
			this.frame = [start, end];
			if (a?.profiles.length) {
				this.answer = a;
				this.draw(params());
			} else this.panel.say('empty', 'No profiles here', advice(params().get('query') ?? ''));
		}, () => this.load(params()));
	}

	/** What the rows are: as asked, else the label that has most to say and still fits. */
	private rowsBy(p: URLSearchParams, labels: [string, number][]): string {
		const asked = p.get('by');
		if (asked === BY_VALUE || labels.some(([name]) => name === asked)) return asked!;
		return (labels.find(([name]) => name === 'instance') ?? labels.find(([name]) => name === 'service_name') ?? labels.filter(([, n]) => n <= MOST_ROWS).pop() ?? [BY_VALUE])[0];
	}

	private draw(p: URLSearchParams): void {
		const a = this.answer;
		if (!a) return;
		const labels = telling(a.profiles), by = this.rowsBy(p, labels), largest = (this.largest = a.profiles.reduce((m, x) => Math.max(m, x.value), 0) || 1);
		this.by = by;
		const select: HTMLSelectElement = h('select', { class: 'select', 'aria-label': 'Rows by label', onchange: () => set({ ...NOTHING_SELECTED, by: select.value }) }, labels.map(([name, n]) => h('option', { value: name }, `${name} (${integer(n)})`)));
		if (by !== BY_VALUE) select.value = by;
		const hadFocus = this.head.contains(document.activeElement) ? document.activeElement!.tagName : '';
		fill(this.head, segmented('Rows', [['label', 'A row per label'], [BY_VALUE, 'By value']], by === BY_VALUE ? BY_VALUE : 'label', (v) => set({ ...NOTHING_SELECTED, by: v === BY_VALUE ? v : null })), by !== BY_VALUE && labels.length > 0 && select);
		if (hadFocus) this.head.querySelector<HTMLElement>(hadFocus === 'SELECT' ? 'select' : '[aria-pressed="true"]')?.focus();
		this.layout(a, by, largest);
		this.paint(largest);
		this.drawSelection(p, a);
		const light = h('span', { class: 'heat-ramp' });
		fill(this.scale, h('span', { class: 'num' }, value(0, a.unit)), light, h('span', { class: 'num' }, value(largest, a.unit)), h('span', { class: 'muted' }, 'of a single profile'));
		fill(this.note, `${integer(a.n_profiles)} profiles, ${value(a.total, a.unit)}`, a.n_profiles > a.profiles.length ? ` · the largest ${integer(a.profiles.length)} are shown` : '', ' · click one, or choose it with the arrow keys and Enter, for its flame graph; drag, or hold Shift with the arrow keys, to merge several');
		this.largestPanel.hidden = false;
		const top = [...a.profiles].sort((x, y) => y.value - x.value).slice(0, TABLE);
		fill(this.table, plainTable([['num', 'End'], ['number', 'Window'], ['number', 'Value'], ['', 'Series'], ['', '']], top.map((x): Child[] => [timeText(x.time), value(x.duration, 'seconds'), value(x.value, a.unit), labelChips(Object.fromEntries(Object.entries(x.labels).filter(([name]) => !name.startsWith('__')))), h('a', { href: this.link(x) }, 'Flame graph')])));
	}

	/** The graph below prints itself. */
	private print(): void {
		if (!this.answer) return;
		this.layout(this.answer, this.by, this.largest);
		this.paint(this.largest);
		this.outline();
	}

	private layout(a: Answer, by: string, largest: number): void {
		const width = isPrinting() ? SHEET : Math.max(this.panel.body.clientWidth - 24, 200), sums = new Map<string, number>(), isValue = by === BY_VALUE;
		if (!isValue) for (const x of a.profiles) sums.set(x.labels[by] ?? '', (sums.get(x.labels[by] ?? '') ?? 0) + x.value);
		const rows = [...sums].sort((x, y) => y[1] - x[1]).slice(0, MOST_ROWS).map(([name]) => name), place = new Map(rows.map((name, i) => [name, i]));
		this.rows = rows;
		const height = isValue ? TALL : rows.length * ROW, nameWidth = Math.min(isValue ? 70 : 190, width * 0.32), plot = width - nameWidth;
		fill(this.names, isValue ? [1, 0.75, 0.5, 0.25, 0].map((share) => h('span', { class: 'num', style: { top: `${(1 - share) * (height - 12)}px` } }, value(largest * share, a.unit)))
			: rows.map((name, i) => h('span', { title: name, style: { top: `${i * ROW}px`, height: `${ROW}px`, 'line-height': `${ROW}px` } }, name || '(none)')));
		this.names.style.width = `${nameWidth}px`;
		this.names.style.height = `${height}px`;
		const [start, end] = this.frame, toX = (t: number) => ((t - start) / (end - start)) * plot;
		this.boxes = [];
		for (const p of [...a.profiles].sort((x, y) => x.value - y.value)) {
			const row = isValue ? 0 : place.get(p.labels[by] ?? '');
			if (row === undefined) continue;
			const x = Math.max(toX(p.time - p.duration), 0), w = Math.max(Math.min(toX(p.time), plot) - x, 3);
			this.boxes.push(isValue ? { p, x, w, y: (1 - p.value / largest) * (height - MARK), h: MARK } : { p, x, w, y: row * ROW + 2, h: ROW - 4 });
		}
		const ratio = devicePixelRatio || 1;
		this.canvas.width = plot * ratio;
		this.canvas.height = (height + AXIS) * ratio;
		this.canvas.style.width = `${plot}px`;
		this.canvas.style.height = `${height + AXIS}px`;
		this.canvas.setAttribute('aria-label', `${integer(this.boxes.length)} profiles over time${isValue ? ' by value' : `, a row per ${by}`}; the largest are in the table below`);
		this.at = -1;
		this.corner = undefined;
	}

	private paint(largest: number): void {
		const g = this.canvas.getContext('2d')!, ratio = devicePixelRatio || 1, plot = this.canvas.width / ratio, height = this.canvas.height / ratio - AXIS, [start, end] = this.frame;
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		g.clearRect(0, 0, plot, height + AXIS);
		g.font = '11px system-ui, sans-serif';
		const { step, ticks } = timeTicks(start, end, plot / TICK_PX);
		for (const t of ticks) {
			const x = ((t - start) / (end - start)) * plot, text = tickText(t, step), half = g.measureText(text).width / 2;
			g.fillStyle = css('--grid');
			g.fillRect(x, 0, 1, height + 4);
			g.fillStyle = css('--muted');
			g.fillText(text, Math.max(0, Math.min(x - half, plot - 2 * half)), height + 17); // whole at the ends too
		}
		g.fillStyle = css('--accent');
		for (const b of this.boxes) {
			g.globalAlpha = 0.12 + 0.88 * (b.p.value / largest);
			g.fillRect(b.x, b.y, Math.max(b.w - 0.5, 2), b.h);
		}
		g.globalAlpha = 1;
		const chosen = this.boxes[this.at];
		if (!chosen) return;
		g.strokeStyle = css('--text');
		g.lineWidth = 2;
		g.strokeRect(chosen.x, chosen.y, chosen.w, chosen.h);
	}

	/* ---- choosing ---- */

	private choose(i: number, near?: { x: number; y: number }): void {
		const b = this.boxes[i], a = this.answer;
		if (i !== this.at) {
			this.at = i;
			this.paint(this.largest);
		}
		this.tip.hidden = !b;
		this.canvas.style.cursor = b ? 'pointer' : '';
		if (!b || !a) return;
		const { p } = b, names = Object.entries(p.labels).filter(([name]) => !name.startsWith('__'));
		fill(this.tip, h('strong', { class: 'num' }, value(p.value, a.unit)), h('div', { class: 'muted' }, `${timeText(p.time - p.duration)}, ${value(p.duration, 'seconds')}`), h('table', {}, names.map(([name, v]) => tipRow(name, v))));
		const box = this.canvas.getBoundingClientRect(), at = near ?? { x: box.left + b.x + b.w, y: box.top + b.y + b.h };
		this.tip.style.transform = `translate(${Math.max(8, Math.min(at.x + 12, innerWidth - this.tip.offsetWidth - 8))}px, ${at.y + 14 + this.tip.offsetHeight > innerHeight ? Math.max(8, at.y - this.tip.offsetHeight - 10) : at.y + 14}px)`;
		if (!near) this.said.textContent = `${value(p.value, a.unit)}, ${timeText(p.time)}, ${names.map(([name, v]) => `${name} ${v}`).join(', ')}`;
	}

	private point(e: MouseEvent): void {
		const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
		let found = -1; // the largest: it is drawn last
		for (let i = this.boxes.length - 1; i >= 0 && found < 0; i--) {
			const b = this.boxes[i];
			if (x >= b.x - 1 && x <= b.x + b.w + 1 && y >= b.y - 1 && y <= b.y + b.h + 1) found = i;
		}
		this.choose(found, { x: e.clientX, y: e.clientY });
	}

	/** Left and right go along time within the row, up and down to the nearest of another one. */
	private key(e: KeyboardEvent): void {
		const step: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }, move = step[e.key];
		if (e.key === 'Escape' && (this.corner !== undefined || this.at >= 0)) {
			this.corner = undefined;
			this.outline();
			this.choose(-1);
		} else if (e.key === 'Enter' && this.corner !== undefined) this.select(this.spanned());
		else if (e.key === 'Enter') this.open();
		else if (move) {
			if (!e.shiftKey) this.corner = undefined;
			else if (this.at >= 0) this.corner ??= this.at;
			const from = this.boxes[this.at];
			let best = from ? this.at : this.boxes.length - 1, least = Infinity;
			if (from) this.boxes.forEach((b, i) => {
				const dx = b.x - from.x, dy = b.y - from.y, along = move[0] ? dx * move[0] : dy * move[1], off = Math.abs(move[0] ? dy : dx);
				if (along > 0.5 && along + off * 20 < least) {
					least = along + off * 20;
					best = i;
				}
			});
			this.choose(best);
			this.outline(this.corner === undefined ? undefined : this.spanned());
			if (this.corner !== undefined) this.said.textContent += `; ${integer(this.inside(this.selectionOf(this.spanned())).length)} profiles are spanned, Enter merges them`;
		} else return;
		e.preventDefault();
	}

	/* ---- several ---- */

	/** A drag selects, a click opens. */
	private listenToPointer(): void {
		const c = this.canvas;
		let from: Corner | undefined, isDrag = false;
		const place = (e: PointerEvent): Corner => {
			const box = c.getBoundingClientRect();
			return { x: Math.min(Math.max(e.clientX - box.left, 0), box.width), y: Math.min(Math.max(e.clientY - box.top, 0), box.height - AXIS) };
		};
		c.addEventListener('pointerdown', (e) => {
			if (e.button) return;
			from = place(e);
			isDrag = false;
			c.setPointerCapture(e.pointerId);
		});
		c.addEventListener('pointermove', (e) => {
			const to = place(e);
			isDrag ||= from !== undefined && Math.hypot(to.x - from.x, to.y - from.y) > DRAGGED_PX;
			if (from && isDrag) {
				this.choose(-1);
				this.outline([from, to]);
			} else this.point(e);
		});
		c.addEventListener('pointerup', (e) => {
			if (from && isDrag) this.select([from, place(e)]);
			else if (from) {
				this.point(e);
				this.open();
			}
			from = undefined;
		});
		c.addEventListener('pointercancel', () => {
			from = undefined;
			this.outline();
		});
		c.addEventListener('pointerleave', () => this.choose(-1));
	}

	/** Opposite corners of what the keys span: two boxes, whole. */
	private spanned(): [Corner, Corner] {
		const [a, b] = [this.boxes[this.corner!], this.boxes[this.at]];
		return [{ x: Math.min(a.x, b.x) + 1, y: Math.min(a.y, b.y) + 1 }, { x: Math.max(a.x + a.w, b.x + b.w) - 1, y: Math.max(a.y + a.h, b.y + b.h) - 1 }];
	}

	/** The rectangle as it is on the screen; without one that of the address. */
	private outline(corners?: [Corner, Corner]): void {
		const s = readSelection(params()), [a, b] = corners ?? (s ? this.cornersOf(s) : []);
		this.selected.hidden = !a || !b;
		if (!a || !b) return;
		Object.assign(this.selected.style, { left: `${Math.min(a.x, b.x)}px`, top: `${Math.min(a.y, b.y)}px`, width: `${Math.abs(a.x - b.x)}px`, height: `${Math.abs(a.y - b.y)}px` });
	}

	private get plotWidth(): number {
		return this.canvas.clientWidth || 1;
	}

	private cornersOf(s: Selection): [Corner, Corner] {
		const [start, end] = this.frame, x = (t: number) => Math.min(Math.max(((t - start) / (end - start)) * this.plotWidth, 0), this.plotWidth), y = (v: number) => (1 - v / this.largest) * (TALL - MARK) + MARK / 2;
		const places = (s.rows ?? []).map((name) => this.rows.indexOf(name)).filter((i) => i >= 0), [top, bottom] = s.values ? [y(s.values[1]), y(s.values[0])] : [Math.min(...places) * ROW, (Math.max(...places) + 1) * ROW];
		return [{ x: x(s.from), y: Math.max(Number.isFinite(top) ? top : 0, 0) }, { x: x(s.to), y: Math.min(Number.isFinite(bottom) ? bottom : 0, this.canvas.clientHeight - AXIS) }];
	}

	private selectionOf([a, b]: [Corner, Corner]): Selection {
		const [start, end] = this.frame, t = (x: number) => Math.round((start + (x / this.plotWidth) * (end - start)) * 10) / 10, v = (y: number) => Math.max((1 - (y - MARK / 2) / (TALL - MARK)) * this.largest, 0);
		const [left, right] = [Math.min(a.x, b.x), Math.max(a.x, b.x)], [top, bottom] = [Math.min(a.y, b.y), Math.max(a.y, b.y)];
		if (this.by === BY_VALUE) return { from: t(left), to: t(right), values: [Math.floor(v(bottom + MARK / 2)), Math.ceil(v(top - MARK / 2))] };
		return { from: t(left), to: t(right), rows: this.rows.slice(Math.floor(top / ROW), Math.floor(bottom / ROW) + 1) };
	}

	/** Profiles whose window the rectangle touches. */
	private inside(s: Selection): Profile[] {
		const has = (p: Profile) => (s.values ? p.value >= s.values[0] && p.value <= s.values[1] : s.rows!.includes(p.labels[this.by] ?? ''));
		return this.answer!.profiles.filter((p) => p.time >= s.from && p.time - p.duration <= s.to && has(p));
	}

	private select(corners: [Corner, Corner]): void {
		const s = this.selectionOf(corners), { from, to, rows, values } = s;
		this.corner = undefined;
		if (this.inside(s).length) set({ ...FLAME_KEYS, sel: `${from},${to}`, rows: rows ?? null, values: values ? values.join() : null, by: this.by });
		else {
			notify('No profile lies in there');
			this.outline();
		}
	}

	private deselect(): void {
		set({ ...FLAME_KEYS, ...NOTHING_SELECTED });
	}

	/** Rows are a matcher and a range, which hold whatever number of profiles; values choose one by one. */
	private queryOf(s: Selection, profiles: Profile[]): { query: Query; left: number } {
		const p = params(), text = p.get('query') || `${this.answer!.profile_type}{}`, parsed = parse(text), filters = readFilters(p), times = profiles.map((x) => x.time);
		const range: Query = [['start', String(Math.min(...times) - 0.001)], ['end', String(Math.max(...times) + 0.001)]]; // also names the file
		if (s.rows && parsed) {
			const matchers = [...parsed.matchers, { name: this.by, op: '=~' as const, value: s.rows.map(escapeRegexp).join('|') }];
			return { query: [['query', print({ ...parsed, matchers })], ...range, ...filters], left: 0 };
		}
		const chosen = [...profiles].sort((x, y) => y.value - x.value).slice(0, MOST_IDS);
		return { query: [['query', text], ...range, ...filters, ...chosen.map((x): [string, string] => ['profile_id', x.profile_id])], left: profiles.length - chosen.length };
	}

	private selects(some: boolean): void {
		this.selection.hidden = this.flame.root.hidden = !some;
	}

	private drawSelection(p: URLSearchParams, a: Answer): void {
		const s = readSelection(p), profiles = s ? this.inside(s) : [];
		this.outline();
		this.selects(profiles.length > 0);
		if (!s || !profiles.length) return;
		const { query, left } = this.queryOf(s, profiles), sum = profiles.reduce((t, x) => t + x.value, 0);
		fill(this.selection, h('strong', {}, `${integer(profiles.length)} ${profiles.length === 1 ? 'profile' : 'profiles'} selected`), h('span', { class: 'muted num' }, `${timeText(s.from)} – ${clockText(s.to)}, ${s.values ? `${value(s.values[0], a.unit)} to ${value(s.values[1], a.unit)} each` : s.rows!.map((name) => name || '(none)').join(', ')}, ${value(sum, a.unit)} together`),
			left > 0 && h('span', { class: 'muted' }, `the largest ${integer(MOST_IDS)} of them are drawn`), iconButton('close', 'Select nothing (Esc)', () => this.deselect()));
		this.flame.update({ path: PATHS.graph, query, caption: captionOf(query), exports: exportLinks(PATHS, query), summary: 'the selected profiles, merged' }, p);
	}

	private link(x: Profile): string {
		const p = params(), kept = Object.fromEntries([...p].filter(([k]) => ['start', 'end', 'seconds', 'focus', 'ignore', 'hide', 'show', 'show_from'].includes(k)));
		return href('', { ...kept, query: p.get('query') || `${this.answer!.profile_type}{}`, profile_id: x.profile_id });
	}

	private open(): void {
		const b = this.boxes[this.at];
		if (b) go(this.link(b.p));
	}
}
