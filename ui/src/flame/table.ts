// SPDX-License-Identifier: Apache-2.0
//
// Rows of functions, sortable, of any length: only those in sight are elements.
import { fill, h, iconButton } from '../dom';
import { PRINTED_ROWS, isPrinting } from '../print';

export interface Column<R> {
	key: string;
	title: string;
	kind: 'text' | 'number';
	width: string; // of the grid
	sort: (a: R, b: R) => number; // ascending
	cell: (r: R) => Node | string;
	csv: (r: R) => string | number; // empty where it is no finite number
	isOptional?: boolean; // not in narrow windows
}

const HEIGHT = 26;
const SPARE = 6;
let tables = 0;

export class Table<R> {
	private readonly head = h('div', { class: 'table-head', role: 'row' });
	private readonly rowsBox = h('div', { class: 'table-rows', role: 'rowgroup' });
	private readonly space = h('div', { class: 'table-space' }, this.rowsBox);
	private readonly scroller = h('div', { class: 'table-scroll', tabindex: '-1' }, this.space); // else browsers make what scrolls a stop of its own
	readonly root = h('div', { class: 'table', role: 'grid', tabindex: '0' }, this.head, this.scroller);
	private rows: R[] = [];
	private sorted: R[] = [];
	private at = -1;
	private isMarked: (r: R) => boolean = () => false;
	private height = 0; // of what scrolls
	private scrolled?: number; // so far, before a print
	private marked = -1; // the first row that is
	private readonly id = `table-${++tables}`;
	private drawnFrom = -1;
	private sortKey: string;
	private descending = true;

	constructor(private readonly columns: Column<R>[], sortKey: string, private readonly on: { sort: (key: string) => void; pick: (r: R) => void; menu: (r: R, at: { x: number; y: number }) => void }) {
		this.sortKey = sortKey;
		this.root.style.setProperty('--columns', columns.map((c) => c.width).join(' '));
		this.root.style.setProperty('--columns-narrow', columns.filter((c) => !c.isOptional).map((c) => c.width).join(' '));
		this.scroller.addEventListener('scroll', () => this.drawRows());
		this.root.setAttribute('aria-label', 'Functions: arrow keys choose one, Enter marks it, m has more');
		this.root.addEventListener('keydown', (e) => this.head.contains(e.target as Node) || this.key(e));
		new ResizeObserver(() => this.drawRows(true)).observe(this.scroller);
	}

	/** Scrolls to the first marked row when another one is marked than before. */
	show(rows: R[], sort: string, height: number, isMarked: (r: R) => boolean): void {
		const key = sort.replace(/^-/, ''), column = this.columns.find((c) => c.key === key);
		this.rows = rows;
		this.isMarked = isMarked;
		this.sortKey = column ? key : this.sortKey;
		this.descending = column ? sort.startsWith('-') : true;
		this.height = height;
		this.scroller.style.height = `${height}px`;
		this.root.setAttribute('aria-rowcount', String(rows.length + 1));
		this.sort();
	}

	/** The first rows, as many as a sheet has room for, or as before. */
	print(): void {
		const { scroller } = this, isSheet = isPrinting();
		if (isSheet) this.scrolled ??= scroller.scrollTop;
		scroller.style.height = `${isSheet ? Math.min(this.sorted.length, PRINTED_ROWS) * HEIGHT : this.height}px`;
		scroller.scrollTop = isSheet ? 0 : (this.scrolled ?? scroller.scrollTop);
		if (!isSheet) this.scrolled = undefined;
		this.drawRows(true);
	}

	csv(): string {
		const cell = (v: string | number) => (typeof v === 'number' ? (Number.isFinite(v) ? String(v) : '') : `"${v.replace(/"/g, '""')}"`);
		return [this.columns.map((c) => c.key).join(','), ...this.sorted.map((r) => this.columns.map((c) => cell(c.csv(r))).join(','))].join('\r\n') + '\r\n';
	}

	private sort(): void {
		const c = this.columns.find((x) => x.key === this.sortKey)!, sign = this.descending ? -1 : 1;
		this.sorted = [...this.rows].sort((a, b) => sign * c.sort(a, b));
		this.space.style.height = `${this.sorted.length * HEIGHT}px`;
		const was = this.marked;
		this.marked = this.sorted.findIndex(this.isMarked);
		const isOther = this.marked >= 0 && was !== this.marked;
		this.at = Math.min(this.at, this.sorted.length - 1);
		if (isOther && !(this.at >= 0 && this.isMarked(this.sorted[this.at]))) this.at = this.marked; // else keys go on where they were
		this.drawHead();
		if (isOther) this.reveal(this.at);
		this.drawRows(true);
	}

	private reveal(i: number): void {
		const y = i * HEIGHT, s = this.scroller;
		if (y < s.scrollTop) s.scrollTop = y;
		else if (y + HEIGHT > s.scrollTop + s.clientHeight) s.scrollTop = y + HEIGHT - s.clientHeight;
	}

	private drawHead(): void {
		fill(this.head, this.columns.map((c) => {
			const isSorted = c.key === this.sortKey, next = isSorted ? !this.descending : c.kind === 'number';
			return h('div', { class: `cell ${c.kind}${c.isOptional ? ' optional' : ''}`, role: 'columnheader', 'aria-sort': isSorted ? (this.descending ? 'descending' : 'ascending') : 'none' },
				h('button', { type: 'button', onclick: () => this.on.sort(`${next ? '-' : ''}${c.key}`) }, c.title, h('span', { class: 'sort-mark' }, isSorted ? (this.descending ? '▾' : '▴') : '')));
		}));
	}

	private drawRows(anew = false): void {
		const isSheet = isPrinting(), from = isSheet ? 0 : Math.max(Math.floor(this.scroller.scrollTop / HEIGHT) - SPARE, 0);
		if (from === this.drawnFrom && !anew) return;
		this.drawnFrom = from;
		const to = Math.min(isSheet ? PRINTED_ROWS : from + Math.ceil(this.scroller.clientHeight / HEIGHT) + 2 * SPARE, this.sorted.length);
		this.rowsBox.style.transform = `translateY(${from * HEIGHT}px)`;
		fill(this.rowsBox, this.sorted.slice(from, to).map((r, k) => h('div', {
			class: `table-row${from + k === this.at ? ' is-at' : ''}${this.isMarked(r) ? ' is-marked' : ''}`, role: 'row', id: `${this.id}-${from + k}`, 'aria-selected': from + k === this.at, 'aria-rowindex': from + k + 2,
			onclick: () => {
				this.at = from + k;
				this.drawRows(true);
				this.on.pick(r);
			},
			oncontextmenu: (e) => {
				e.preventDefault();
				this.on.menu(r, { x: e.clientX, y: e.clientY });
			},
		}, this.columns.map((c, i) => h('div', { class: `cell ${c.kind}${c.isOptional ? ' optional' : ''}`, role: 'gridcell' }, c.cell(r), i === 0 && this.menuButton(r))))));
		if (this.at >= 0) this.root.setAttribute('aria-activedescendant', `${this.id}-${this.at}`);
		else this.root.removeAttribute('aria-activedescendant');
	}

	/** For who points; keys have m. */
	private menuButton(r: R): HTMLElement {
		return iconButton('more', 'More (m)', (e) => {
			e.stopPropagation();
			const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
			this.on.menu(r, { x: box.left, y: box.bottom });
		}, { class: 'icon-button row-menu', tabindex: '-1' });
	}

	private key(e: KeyboardEvent): void {
		const step = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
		if (step) {
			this.at = Math.max(0, Math.min(this.at + step, this.sorted.length - 1));
			this.reveal(this.at);
			this.drawRows(true);
		} else if (e.key === 'Enter' && this.at >= 0) this.on.pick(this.sorted[this.at]);
		else if ((e.key === 'm' || e.key === 'ContextMenu') && this.at >= 0) {
			const r = document.getElementById(`${this.id}-${this.at}`)?.getBoundingClientRect();
			if (r) this.on.menu(this.sorted[this.at], { x: r.left + 24, y: r.bottom });
		}
		else return;
		e.preventDefault();
	}
}

/** A number over a bar of its share. */
export function meter(text: string, share: number, kind = ''): HTMLElement {
	return h('span', { class: `meter ${kind}` }, h('span', { class: 'meter-bar', style: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } }), h('span', { class: 'num' }, text));
}
