// SPDX-License-Identifier: Apache-2.0
//
// Single profiles over time: a row for each value of a label, or their values as height, and how large each is as colour. One leads to its
// flame graph.
import { ProfileType, Query, get } from '../api';
import { Child, fill, h, segmented } from '../dom';
import { tipRow } from '../flame/panel';
import { Panel } from '../panel';
import { QueryBar, readFilters } from '../query_bar';
import { RangePicker } from '../range_picker';
import { Page, go, href, params, set } from '../router';
import { clockText, readRange, resolve, timeText } from '../time';
import { integer, value } from '../units';
import { typesOf } from './explore';
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

const LIMIT = '5000', MOST_ROWS = 40, ROW = 22, TALL = 300, AXIS = 24, TABLE = 25;
const BY_VALUE = 'value';

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
	private readonly canvas = h('canvas', { class: 'heat-canvas', tabindex: '0', role: 'img', 'aria-describedby': 'heat-said' });
	private readonly said = h('p', { class: 'offscreen', id: 'heat-said', role: 'status' });
	private readonly tip = h('div', { class: 'tooltip', hidden: true });
	private readonly scale = h('div', { class: 'heat-scale' });
	private readonly note = h('p', { class: 'facts' });
	private readonly table = h('div');
	private readonly panel = new Panel('profiles', this.head);
	readonly root: HTMLElement;
	private types: ProfileType[] = [];
	private answer?: Answer;
	private asked = '';
	private boxes: Box[] = [];
	private at = -1;
	private frame: [number, number] = [0, 1];
	private readonly redraw = () => this.draw(params());
	private readonly observer = new ResizeObserver(() => this.answer && this.redraw());

	constructor() {
		this.panel.body.append(h('div', { class: 'heat' }, this.names, this.canvas), this.scale, this.note, h('h2', { class: 'section' }, 'The largest'), this.table, this.said, this.tip);
		this.root = h('div', { class: 'page' }, h('div', { class: 'bars' }, this.bar.root, this.range.root), this.panel.root);
		this.observer.observe(this.panel.body);
		document.addEventListener('sonde-theme', this.redraw);
		this.canvas.addEventListener('pointermove', (e) => this.point(e));
		this.canvas.addEventListener('pointerleave', () => this.choose(-1));
		this.canvas.addEventListener('click', (e) => {
			this.point(e);
			this.open();
		});
		this.canvas.addEventListener('keydown', (e) => this.key(e));
		this.canvas.addEventListener('blur', () => this.choose(-1));
	}

	leave(): void {
		this.observer.disconnect();
		document.removeEventListener('sonde-theme', this.redraw);
		this.range.leave();
		this.panel.leave();
	}

	update(p: URLSearchParams): void {
		const key = JSON.stringify([p.get('query'), readRange(p), readFilters(p)]);
		this.range.update(p);
		if (key === this.asked && this.answer) this.draw(p);
		else this.load(p);
	}

	private load(p: URLSearchParams): void {
		const { start, end } = resolve(readRange(p)), range: Query = [['start', String(start)], ['end', String(end)]];
		this.asked = JSON.stringify([p.get('query'), readRange(p), readFilters(p)]);
		this.answer = undefined;
		void this.panel.run(async (signal) => {
			this.types = await typesOf(range, signal);
			const query = p.get('query') || (this.types.length ? `${this.types[0].id}{}` : '');
			this.bar.update({ query, groupBy: [], filters: readFilters(p), range: () => range }, this.types);
			return query ? get<Answer>('api/v1/profiles', [['query', query], ...range, ...readFilters(p), ['limit', LIMIT]], signal, 'POST') : null;
		}, (a) => {
			this.frame = [start, end];
			if (a?.profiles.length) {
				this.answer = a;
				this.draw(params());
			} else this.panel.say('empty', 'No profiles here', 'Nothing was stored for this selector in this range. Widen the range, or take matchers away.');
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
		const labels = telling(a.profiles), by = this.rowsBy(p, labels), largest = a.profiles.reduce((m, x) => Math.max(m, x.value), 0) || 1;
		const select: HTMLSelectElement = h('select', { class: 'select', 'aria-label': 'Rows by label', onchange: () => set({ by: select.value }) }, labels.map(([name, n]) => h('option', { value: name }, `${name} (${integer(n)})`)));
		if (by !== BY_VALUE) select.value = by;
		const hadFocus = this.head.contains(document.activeElement) ? document.activeElement!.tagName : '';
		fill(this.head, segmented('Rows', [['label', 'A row per label'], [BY_VALUE, 'By value']], by === BY_VALUE ? BY_VALUE : 'label', (v) => set({ by: v === BY_VALUE ? v : null })), by !== BY_VALUE && labels.length > 0 && select);
		if (hadFocus) this.head.querySelector<HTMLElement>(hadFocus === 'SELECT' ? 'select' : '[aria-pressed="true"]')?.focus();
		this.layout(a, by, largest);
		this.paint(largest);
		const light = h('span', { class: 'heat-ramp' });
		fill(this.scale, h('span', { class: 'num' }, value(0, a.unit)), light, h('span', { class: 'num' }, value(largest, a.unit)), h('span', { class: 'muted' }, 'of a single profile'));
		fill(this.note, `${integer(a.n_profiles)} profiles, ${value(a.total, a.unit)}`, a.n_profiles > a.profiles.length ? ` · the largest ${integer(a.profiles.length)} are shown` : '', ' · click one, or choose it with the arrow keys and Enter, for its flame graph');
		const top = [...a.profiles].sort((x, y) => y.value - x.value).slice(0, TABLE);
		fill(this.table, plainTable([['num', 'End'], ['number', 'Window'], ['number', 'Value'], ['', 'Series'], ['', '']], top.map((x): Child[] => [timeText(x.time), value(x.duration, 'seconds'), value(x.value, a.unit), labelChips(Object.fromEntries(Object.entries(x.labels).filter(([name]) => !name.startsWith('__')))), h('a', { href: this.link(x) }, 'Flame graph')])));
	}

	private layout(a: Answer, by: string, largest: number): void {
		const width = Math.max(this.panel.body.clientWidth - 24, 200), sums = new Map<string, number>(), isValue = by === BY_VALUE;
		if (!isValue) for (const x of a.profiles) sums.set(x.labels[by] ?? '', (sums.get(x.labels[by] ?? '') ?? 0) + x.value);
		const rows = [...sums].sort((x, y) => y[1] - x[1]).slice(0, MOST_ROWS).map(([name]) => name), place = new Map(rows.map((name, i) => [name, i]));
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
			this.boxes.push(isValue ? { p, x, w, y: (1 - p.value / largest) * (height - 6), h: 6 } : { p, x, w, y: row * ROW + 2, h: ROW - 4 });
		}
		const ratio = devicePixelRatio || 1;
		this.canvas.width = plot * ratio;
		this.canvas.height = (height + AXIS) * ratio;
		this.canvas.style.width = `${plot}px`;
		this.canvas.style.height = `${height + AXIS}px`;
		this.canvas.setAttribute('aria-label', `${integer(this.boxes.length)} profiles over time${isValue ? ' by value' : `, a row per ${by}`}; the largest are in the table below`);
		this.at = -1;
	}

	private paint(largest: number): void {
		const g = this.canvas.getContext('2d')!, ratio = devicePixelRatio || 1, plot = this.canvas.width / ratio, height = this.canvas.height / ratio - AXIS, [start, end] = this.frame;
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		g.clearRect(0, 0, plot, height + AXIS);
		g.font = '11px system-ui, sans-serif';
		const marks = Math.max(2, Math.floor(plot / 110));
		for (let i = 0; i <= marks; i++) {
			const x = Math.min((plot * i) / marks, plot - 0.5);
			g.fillStyle = css('--grid');
			g.fillRect(x, 0, 1, height + 4);
			g.fillStyle = css('--muted');
			g.textAlign = i === 0 ? 'left' : i === marks ? 'right' : 'center';
			g.fillText(end - start > 172800 ? timeText(start + ((end - start) * i) / marks).slice(5, 16) : clockText(start + ((end - start) * i) / marks), x, height + 17);
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
			this.paint(a ? a.profiles.reduce((m, x) => Math.max(m, x.value), 0) || 1 : 1);
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
		if (e.key === 'Escape') this.choose(-1);
		else if (e.key === 'Enter') this.open();
		else if (move) {
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
		} else return;
		e.preventDefault();
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
