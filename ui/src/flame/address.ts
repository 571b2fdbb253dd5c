// SPDX-License-Identifier: Apache-2.0
//
// What the address says of a flame graph, and the changes of it that keys, menus and clicks make.
import type { Changes } from '../router';
import { escapeRegexp } from '../selector';
import { COLOURS, ColourBy, defaultColours } from './colours';
import type { Tree } from './tree';

/** What `nodes` in the address changes. */
export const MAX_NODES = '20000';
/** Out of callers and callees, and of what is zoomed into there. */
export const NO_SANDWICH = { sandwich: null, up: null, down: null };

export type Mode = 'both' | 'flame' | 'table';
/** Where callers and callees are zoomed into. */
export type Below = 'up' | 'down';
export type Write = (c: Changes, replace?: boolean) => void;

export class FlameAddress {
	params = new URLSearchParams();

	constructor(readonly set: Write) {}

	/** Names of functions from the root's child to what is zoomed into. */
	get path(): string[] {
		return this.params.getAll('at');
	}

	below(side: Below): string[] {
		return this.params.getAll(side);
	}

	get search(): string {
		return this.params.get('search') ?? '';
	}

	/** The function that is marked in graph and table. */
	get chosen(): string | null {
		return this.params.get('chosen');
	}

	/** Marks a function; once more takes the mark away. */
	choose(name: string): void {
		this.set({ chosen: this.chosen === name ? null : name }, true);
	}

	/** The function whose callers and callees are shown. */
	get sandwich(): string | null {
		return this.params.get('sandwich');
	}

	get mode(): Mode {
		return (this.params.get('view') ?? 'both') as Mode;
	}

	/** The root is below. */
	get isFlame(): boolean {
		return this.params.get('dir') === 'flame';
	}

	get collapsing(): string[] {
		return (this.params.get('collapse') ?? '').split(',').filter(Boolean);
	}

	/** Each build is a function of its own. */
	get isSplit(): boolean {
		return this.params.get('by_build') === '1';
	}

	/** Names of functions as they are, not as people say them. */
	get isWhole(): boolean {
		return this.params.get('names') === 'full';
	}

	showWhole(yes: boolean): void {
		this.set({ names: yes ? 'full' : this.params.has('names') ? 'short' : null }, true);
	}

	get sort(): string {
		return this.params.get('sort') ?? '-self';
	}

	get maxNodes(): string {
		const n = this.params.get('nodes');
		return n && /^\d+$/.test(n) ? n : MAX_NODES;
	}

	colourBy(t: Tree): ColourBy {
		const asked = this.params.get('colour') as ColourBy | null;
		return asked && COLOURS.some(([by]) => by === asked) ? asked : defaultColours(t);
	}

	/** What the tree that is shown depends on, beside the answer. */
	get shapeKey(): string {
		return JSON.stringify([this.collapsing, this.params.get('colour'), this.isFlame]);
	}

	turn(isFlame: boolean): void {
		this.set({ dir: isFlame ? 'flame' : null });
	}

	show(mode: Mode): void {
		this.set({ view: mode === 'both' ? null : mode });
	}

	toggleCollapse(what: string): void {
		const now = this.collapsing;
		this.set({ collapse: (now.includes(what) ? now.filter((c) => c !== what) : [...now, what]).join(',') || null, at: null });
	}

	searchFor(name: string): void {
		const text = exactly(name);
		this.set({ search: this.search === text ? null : text }, true);
	}

	showSandwich(name: string | null, changes: Changes = {}): void {
		this.set({ ...NO_SANDWICH, sandwich: name, ...changes });
	}

	/** Out of what was entered last. */
	back(): void {
		if (this.params.has('up') || this.params.has('down')) this.set({ up: null, down: null });
		else if (this.sandwich !== null) this.set(NO_SANDWICH);
		else if (this.path.length) this.set({ at: this.path.slice(0, -1) });
		else if (this.chosen !== null) this.set({ chosen: null }, true);
		else this.set({ search: null }, true);
	}
}

/** The regular expression of one name. */
export function exactly(name: string): string {
	return `^${escapeRegexp(name)}$`;
}
