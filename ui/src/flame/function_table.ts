// SPDX-License-Identifier: Apache-2.0
//
// The functions of a flame graph as rows, those that the search matches.
import type { TopRow } from '../api';
import { h } from '../dom';
import { brief, percent, value } from '../units';
import type { FlameAddress } from './address';
import { FunctionCells } from './function_cell';
import { Found, expression, nameMatches } from './search';
import type { Place } from './source';
import { Column, Table, meter } from './table';
import { GROUP, KINDS, Sums, Tree, below } from './tree';

const DECIMALS = 3; // of a share in percent

type Row = Pick<TopRow, 'function' | 'file' | 'mapping' | 'build' | 'self' | 'total'>;

/** What fell by much stands beside what grew by much, as in sonde top. */
export function bySize(a: number, b: number): number {
	return Math.abs(a) - Math.abs(b) || a - b;
}

/** Of an answer that a limit cut, in place of those that the tree has: a search may match what is only here. */
function rowsOfAll(all: TopRow[], search: string): Row[] {
	const re = search ? expression(search).re : undefined;
	return all.filter((r) => r.kind !== GROUP && (!re || nameMatches(re, r.function)));
}

/** `sums`: of what is shown of the tree. `isSplit`: each build is a function. */
function rowsOf(t: Tree, sums: Sums, found: Found | undefined, isSplit: boolean): Row[] {
	const rows: Row[] = [], { builds } = t.functions, label = t.kinds.indexOf(GROUP), isGroup = (f: number) => label >= 0 && !Number.isNaN(t.kindSelf[f * KINDS + label]);
	for (let f = 0; f < t.functions.name.length; f++) {
		if (!sums.total[f] || f === t.fn[0] || isGroup(f) || (f === 1 && t.functions.name[1] === '(cut)') || (found && !found.matched[f])) continue;
		rows.push({ function: t.functions.name[f], file: t.functions.file[f], mapping: t.functions.mapping[f], build: isSplit ? builds?.[f] : undefined, self: sums.self[f], total: sums.total[f] });
	}
	return rows;
}

export class FunctionTable {
	private readonly table: Table<Row>;
	private readonly cells = new FunctionCells();
	readonly root: HTMLElement;
	private largest = { self: 1, total: 1 }; // of the rows: as wide as the cell
	private tree?: Tree;
	private summed?: { t: Tree; node: number; sums: Sums };

	constructor(private readonly address: FlameAddress, menu: (name: string, at: Place) => void) {
		this.table = new Table<Row>(this.columns(), 'self', { sort: (s) => address.set({ sort: s }, true), pick: (r) => address.choose(r.function), menu: (r, at) => menu(r.function, at) });
		this.root = this.table.root;
	}

	/** Of what lies below a node, itself included. */
	show(t: Tree, node: number, all: TopRow[] | undefined, found: Found | undefined, height: number): void {
		const { chosen, collapsing, isSplit, search } = this.address;
		const rows = all && !node && !collapsing.length ? rowsOfAll(all, search) : rowsOf(t, this.sumsOf(t, node), found, isSplit);
		this.cells.show(rows, t.functions);
		this.tree = t;
		this.largest = { self: rows.reduce((m, r) => Math.max(m, Math.abs(r.self)), 0) || 1, total: rows.reduce((m, r) => Math.max(m, Math.abs(r.total)), 0) || 1 };
		this.table.show(rows, this.address.sort, height, (r) => r.function === chosen);
	}

	/** Of large trees they take a while, and a letter of the search changes none. */
	private sumsOf(t: Tree, node: number): Sums {
		if (!node) return { self: t.fnSelf, total: t.fnTotal };
		if (this.summed?.t !== t || this.summed.node !== node) this.summed = { t, node, sums: below(t, node) };
		return this.summed.sums;
	}

	print(): void {
		this.table.print();
	}

	csv(): string {
		return this.table.csv();
	}

	private columns(): Column<Row>[] {
		const amount = (v: number) => value(v, this.tree!.unit), share = (v: number) => v / this.tree!.whole;
		return [
			{ key: 'function', title: 'Function', kind: 'text', width: 'minmax(120px, 1fr)', sort: (a, b) => a.function.localeCompare(b.function), csv: (r) => r.function,
				cell: (r) => this.cells.cell(r) },
			{ key: 'self', title: 'Self', isOptional: true, kind: 'number', width: '66px', sort: (a, b) => bySize(a.self, b.self), csv: (r) => r.self, cell: (r) => h('span', { class: 'num' }, amount(r.self)) },
			{ key: 'self_share', title: 'Self %', kind: 'number', width: '66px', sort: (a, b) => bySize(a.self, b.self), csv: (r) => share(r.self), cell: (r) => meter(brief(percent(share(r.self)), DECIMALS), Math.abs(r.self) / this.largest.self) },
			{ key: 'total', title: 'Total', isOptional: true, kind: 'number', width: '66px', sort: (a, b) => bySize(a.total, b.total), csv: (r) => r.total, cell: (r) => h('span', { class: 'num' }, amount(r.total)) },
			{ key: 'total_share', title: 'Total %', kind: 'number', width: '66px', sort: (a, b) => bySize(a.total, b.total), csv: (r) => share(r.total), cell: (r) => meter(brief(percent(share(r.total)), DECIMALS), Math.abs(r.total) / this.largest.total) },
		];
	}
}
