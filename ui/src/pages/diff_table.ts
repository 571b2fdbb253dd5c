// SPDX-License-Identifier: Apache-2.0
//
// Functions before and after: sortable, and filtered to what is new, gone or changed.
import { fill, h, segmented } from '../dom';
import { DiffRow, rowsOf } from '../flame/diff_rows';
import { FunctionCells } from '../flame/function_cell';
import { bySize } from '../flame/function_table';
import type { Side } from '../flame/source';
import { expression, nameMatches } from '../flame/search';
import { Column, Table } from '../flame/table';
import { GROUP, Tree } from '../flame/tree';
import { Changes } from '../router';
import { brief, integer, percent, signedPercent } from '../units';

const UNTESTED = Infinity; // sorts behind every q
const VERDICT_NAMES: Record<string, string> = { '~': 'not significant', few: 'too few samples', untested: 'not tested', '+': 'significantly more', '-': 'significantly less', moved: 'moved among siblings' };
const DECIMALS = 6; // of a value below 1
const LONGEST_HEAD = 8; // of a column of values
const QUIET = new Set(['~', 'few', 'untested']);

export class DiffTable implements Side {
	private readonly head = h('div', { class: 'side-head' });
	private readonly note = h('p', { class: 'facts' });
	private readonly table: Table<DiffRow>;
	private readonly cells = new FunctionCells();
	readonly root = h('div');
	menu?: Side['menu'];
	private rows: DiffRow[] = [];
	private nRows = 0;
	private of: 'self' | 'total' = 'self';
	private scale: [number, number] = [1, 1];
	private text: (v: number) => string = String;
	private unit = '';
	private chosen: string | null = null;

	constructor(private readonly set: (c: Changes, replace?: boolean) => void, isTested: boolean, labels: [string, string] = ['A', 'B']) {
		this.table = new Table<DiffRow>(this.columns(isTested, labels.every((l) => l.length <= LONGEST_HEAD) ? labels : ['A', 'B']), 'delta', { sort: (s) => set({ sort: s }, true), pick: (r) => set({ chosen: this.chosen === r.function ? null : r.function }, true), menu: (r, at) => this.menu?.(r.function, at) });
		this.root.append(this.head, this.table.root, this.note);
	}

	fill(rows: DiffRow[], nRows: number, scale: [number, number], { text, unit }: { text: (v: number) => string; unit: string }): void {
		this.rows = rows;
		this.nRows = nRows;
		this.scale = scale;
		this.text = text;
		this.unit = unit;
	}

	private a(r: DiffRow): number {
		return (this.of === 'self' ? r.self_a : r.total_a) * this.scale[0];
	}

	private b(r: DiffRow): number {
		return (this.of === 'self' ? r.self_b : r.total_b) * this.scale[1];
	}

	private verdict(r: DiffRow): string | undefined {
		return this.of === 'self' ? r.self_verdict : r.total_verdict;
	}

	private q(r: DiffRow): number {
		return (this.of === 'self' ? r.self_q : r.total_q) ?? UNTESTED;
	}

	/** The interval and what could have been seen, for the tooltip. */
	private tested(r: DiffRow): string {
		const [low, high, least] = (['effect_low', 'effect_high', 'min_effect'] as const).map((k) => r[`${this.of}_${k}`]), said = [VERDICT_NAMES[this.verdict(r) ?? ''] ?? this.verdict(r) ?? ''];
		if (typeof low === 'number' && typeof high === 'number') said.push(`95 % interval ${signedPercent(low)} … ${signedPercent(high)}`);
		if (typeof least === 'number') said.push(`detectable ${percent(least)}`);
		return said.join('\n');
	}

	/** A function of both sides is neither new nor gone, also where only one of them has it at the top of a stack. */
	private changeText(v: number, r: DiffRow): string {
		return r.mark === 'gone' && v === -1 ? 'gone' : r.mark !== 'new' && v === Infinity ? 'from 0' : signedPercent(v);
	}

	private change(r: DiffRow): number {
		return this.a(r) ? this.b(r) / this.a(r) - 1 : this.b(r) ? Infinity : 0;
	}

	/** Below a node the sums of its frames, which were not tested by themselves. */
	show(p: URLSearchParams, search: string, height: number, of: Tree, node: number): void {
		const mark = p.get('mark') ?? 'all', re = search ? expression(search).re : undefined;
		this.chosen = p.get('chosen');
		this.of = p.get('of') === 'total' ? 'total' : 'self';
		fill(this.head, segmented('Counted', [['self', 'Self'], ['total', 'Total']], this.of, (v) => this.set({ of: v === 'self' ? null : v }, true)),
			segmented('Rows', [['all', 'All'], ['new', 'New'], ['gone', 'Gone'], ['changed', 'Changed']], mark, (v) => this.set({ mark: v === 'all' ? null : v }, true)));
		const rows = (node ? rowsOf(of, this.scale, node) : this.rows).filter((r) => r.kind !== GROUP && (mark === 'all' || r.mark === mark) && (!re || nameMatches(re, r.function)));
		this.cells.show(rows, of.functions);
		this.table.show(rows, p.get('sort') ?? '-delta', height - 40, (r) => r.function === this.chosen);
		this.note.textContent = `Values are ${this.unit}${node ? ', below the frame that is zoomed into' : this.nRows > this.rows.length ? ` · the ${integer(this.rows.length)} functions that changed most, of ${integer(this.nRows)}` : ''}`;
	}

	print(): void {
		this.table.print();
	}

	csv(): string {
		return this.table.csv();
	}

	private columns(isTested: boolean, [labelA, labelB]: [string, string]): Column<DiffRow>[] {
		const number = (key: string, title: string, width: string, get: (r: DiffRow) => number, text: (v: number, r: DiffRow) => string | Node, isOptional = false): Column<DiffRow> =>
			({ key, title, width, isOptional, kind: 'number', sort: (a, b) => get(a) - get(b) || 0, csv: get, cell: (r) => text(get(r), r) });
		const delta = (r: DiffRow) => this.b(r) - this.a(r), plain = (v: number) => h('span', { class: 'num' }, v ? brief(this.text(v), DECIMALS) : '–');
		const coloured = (v: number, text: string, r: DiffRow) => h('span', { class: `num ${isTested && QUIET.has(this.verdict(r) ?? '') ? 'muted' : v > 0 ? 'more' : v < 0 ? 'less' : 'muted'}` }, text);
		return [
			{ key: 'function', title: 'Function', kind: 'text', width: 'minmax(110px, 1fr)', sort: (a, b) => a.function.localeCompare(b.function), csv: (r) => r.function, cell: (r) => this.cells.cell(r) },
			{ ...number('before', labelA, '74px', (r) => this.a(r), plain, true), sort: (x, y) => bySize(this.a(x), this.a(y)) },
			{ ...number('after', labelB, '74px', (r) => this.b(r), plain, true), sort: (x, y) => bySize(this.b(x), this.b(y)) },
			{ ...number('delta', 'Change', '88px', delta, (v, r) => coloured(v, `${v > 0 ? '+' : v < 0 ? '−' : ''}${brief(this.text(Math.abs(v)), DECIMALS)}`, r)), sort: (x, y) => Math.abs(delta(x)) - Math.abs(delta(y)) },
			number('change', '%', '70px', (r) => this.change(r), (v, r) => coloured(v, this.changeText(v, r), r)),
			...(isTested ? [number('q', 'q', '64px', (r) => this.q(r), (v, r) => h('span', { class: 'num muted', title: this.tested(r) }, v === UNTESTED ? '–' : v < 0.001 ? '<0.001' : v.toFixed(3)))] : []),
		];
	}
}
