// SPDX-License-Identifier: Apache-2.0
//
// What was loaded for a flame graph: the tree, the subtree that a limit cut, and all functions where the tree does not have them all.
import { Query, TopRow, get } from '../api';
import type { Panel } from '../panel';
import { value } from '../units';
import type { FlameAddress } from './address';
import { Loaded, load } from './load';
import type { Source } from './source';
import { Tree, isCutBelow } from './tree';

const MOST_FUNCTIONS = '5000'; // of the table
const BESIDE_MS = 1000; // a graph that takes longer is likely to be cut, so the table is asked for beside it

export interface AnswerEvents {
	loaded(): void;
	subtree(): void; // what a limit left out below the zoom is there
	functions(): void;
}

/** All functions, on their way. */
interface Beside {
	abort: AbortController;
	rows: Promise<TopRow[] | undefined>;
	isAwaited: boolean;
}

export class FlameAnswer {
	source?: Source;
	base?: Loaded;
	/** Of an answer that a limit cut: all functions. */
	functions?: TopRow[];
	/** From the arrival of the data in the worker to the first frame. */
	firstPaintMs = 0;
	private asked = '';
	private subtree?: { path: string[]; tree: Tree };
	private isLoading = false;
	private beside?: Beside;
	private timer = 0;

	constructor(private readonly panel: Panel, private readonly address: FlameAddress, private readonly on: AnswerEvents) {}

	/** True when it is there already. What failed or was cancelled is asked for again. */
	ask(source: Source): boolean {
		const key = JSON.stringify([source.path, source.query, source.options, this.address.params.get('nodes')]);
		this.source = source;
		if (key === this.asked && (this.base || this.isLoading)) return !this.isLoading;
		this.load(key);
		return false;
	}

	/** Else `base` is of a former question. */
	get isThere(): boolean {
		return Boolean(this.asked && this.base) && !this.isLoading;
	}

	forget(): void {
		this.leave();
		this.asked = '';
		this.base = undefined;
		this.isLoading = false;
	}

	leave(): void {
		clearTimeout(this.timer);
		this.beside?.abort.abort();
		this.beside = undefined;
	}

	/** That has the most of what the zoom shows. */
	treeFor(path: string[]): Tree {
		const s = this.subtree;
		return s && path.length >= s.path.length && s.path.every((name, i) => path[i] === name) ? s.tree : this.base!.tree;
	}

	/** Which answer and which part of it. */
	keyOf(t: Tree): string {
		return JSON.stringify([this.asked, this.source!.options, t === this.base!.tree ? '' : this.subtree!.path]);
	}

	/** Of the bars' widths. */
	text(v: number): string {
		return this.source!.text?.(v) ?? value(v, this.base!.tree.unit);
	}

	private load(key: string): void {
		const source = this.source!;
		this.leave();
		this.asked = key;
		this.isLoading = true;
		if (!source.local && !source.side && this.address.mode !== 'flame') this.timer = window.setTimeout(() => this.askFunctions(), BESIDE_MS);
		void this.panel.run(async (signal, progress) => {
			if (source.local) return { tree: await source.local(signal), decodeMs: 0, arrived: Date.now(), stats: '' };
			return load(source.path, [...source.query, ['max_nodes', this.address.maxNodes]], source.options ?? {}, signal, (n) => progress(`Receiving, ${value(n, 'bytes')}…`));
		}, (got) => {
			this.base = got;
			this.isLoading = false;
			this.subtree = this.functions = undefined;
			clearTimeout(this.timer);
			if (!got.tree.cut.size) this.leave();
			requestAnimationFrame(() => setTimeout(() => {
				this.firstPaintMs = Date.now() - got.arrived;
				performance.mark('sonde-painted');
			}));
			this.on.loaded();
		}, () => this.load(key), () => {
			this.asked = '';
			this.isLoading = false;
			this.leave();
		});
	}

	/** A subtree of which the limit left something out, by itself: with all nodes that there is room for. */
	completeBelow(path: string[], of: Tree, node: number, isWholePath: boolean): void {
		if (!this.isThere || !path.length || (isWholePath && !isCutBelow(of, node)) || this.treeFor(path) !== this.base!.tree || !of.cut.size || this.source!.local) return;
		const source = this.source!, query: Query = [...source.query, ['max_nodes', this.address.maxNodes], ...path.map((name): [string, string] => ['at', name])];
		void this.panel.run((signal) => load(source.path, query, source.options ?? {}, signal), (got) => {
			if (got.tree.n <= 1) return;
			got.tree.whole = this.base!.tree.whole;
			this.subtree = { path, tree: got.tree };
			if (JSON.stringify(this.address.path) === JSON.stringify(path)) this.on.subtree();
		}, () => this.completeBelow(path, of, node, isWholePath));
	}

	/** What a limit left out counts in the table. The graph does not wait for it. */
	loadFunctions(): void {
		const base = this.base!;
		if (this.functions || this.source!.local || !base.tree.cut.size || base.tree.sides) return;
		const beside = this.beside ?? this.askFunctions();
		if (beside.isAwaited) return;
		beside.isAwaited = true;
		void beside.rows.then((rows) => {
			if (this.beside !== beside || !rows) return;
			this.functions = rows;
			this.on.functions();
		});
	}

	private askFunctions(): Beside {
		const abort = new AbortController(), rows = get<{ rows: TopRow[] }>('api/v1/top', [...this.source!.query, ['limit', MOST_FUNCTIONS]], abort.signal, 'POST').then((a) => a.rows, () => undefined); // without: the functions of the answer are there
		return (this.beside = { abort, rows, isAwaited: false });
	}
}
