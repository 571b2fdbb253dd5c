// SPDX-License-Identifier: Apache-2.0
//
// One function between its callers and its callees: two graphs, each with a zoom of its own.
import { fill, h } from '../dom';
import { shownName } from '../names';
import { percent } from '../units';
import { Below, FlameAddress, NO_SANDWICH } from './address';
import type { Palette } from './colours';
import type { Derive } from './derive';
import { Tree, follow, pathOf } from './tree';
import type { FlameView } from './view';

export interface SandwichOptions {
	address: FlameAddress;
	makeView: (treeOf: () => Tree | undefined, zoom: (node: number) => void) => FlameView;
	paint: (t: Tree) => Palette;
	text: (v: number) => string;
	derive: Derive;
	failed: () => void; // "Try again" was picked
}

class Half {
	tree?: Tree;
	readonly view: FlameView;

	constructor(private readonly below: Below, private readonly o: SandwichOptions) {
		this.view = o.makeView(() => this.tree, (node) => o.address.set({ [below]: node === this.view.zoomNode ? null : pathOf(this.tree!, node) }));
	}

	show(t: Tree, matched: Uint8Array | undefined): void {
		this.tree = t;
		this.view.show(t, this.o.paint(t), this.below === 'up');
		this.search(matched);
	}

	/** All of it belongs to the function, so what does not match keeps its colours. */
	search(matched: Uint8Array | undefined): void {
		this.view.search(matched, false);
	}

	colour(): void {
		if (this.tree) this.view.colour(this.o.paint(this.tree));
	}

	/** As the address says, in a tree that is made already. */
	zoom(animate: boolean): void {
		const node = this.tree && follow(this.tree, this.o.address.below(this.below)).node;
		if (node !== undefined && node !== this.view.zoomNode) this.view.zoomTo(node, animate);
	}
}

export class Sandwich {
	readonly root = h('div', { class: 'sandwich', hidden: true });
	private readonly up: Half;
	private readonly down: Half;
	private drawn = '';
	private matched?: Uint8Array;

	constructor(private readonly o: SandwichOptions) {
		this.up = new Half('up', o);
		this.down = new Half('down', o);
	}

	get callers(): FlameView {
		return this.up.view;
	}

	get callees(): FlameView {
		return this.down.view;
	}

	/** The tree that one of its graphs shows; undefined for other graphs. */
	treeOf(view: FlameView): Tree | undefined {
		return [this.up, this.down].find((half) => half.view === view)?.tree;
	}

	forget(): void {
		this.drawn = '';
	}

	/** `treeKey` says which tree it is. */
	show(name: string, t: Tree, treeKey: string): void {
		const key = JSON.stringify([name, shownName(name), treeKey]), f = t.functions.name.indexOf(name);
		if (key === this.drawn) {
			this.zoom(true);
			return;
		}
		this.drawn = key;
		const head = h('div', { class: 'sandwich-head' }, h('strong', { class: 'mono', title: name }, shownName(name)), f >= 0 && h('span', { class: 'muted num' }, `self ${this.o.text(t.fnSelf[f])}, total ${this.o.text(t.fnTotal[f])}, ${percent(t.fnTotal[f] / t.whole)}`),
			h('button', { type: 'button', class: 'button small', onclick: () => this.o.address.set(NO_SANDWICH) }, 'Back to the graph'));
		if (f < 0) {
			fill(this.root, head, h('p', { class: 'muted' }, 'This function is in no stack of the answer.'));
			return;
		}
		fill(this.root, head, h('h3', {}, 'Callers'), this.callers.root, h('h3', {}, 'Callees'), this.callees.root);
		this.o.derive(t, [{ what: 'callers', f }, { what: 'callees', f }], ([callers, callees]) => {
			if (key === this.drawn) {
				this.up.show(callers, this.matched);
				this.down.show(callees, this.matched);
			}
			this.zoom(false);
		}, () => {
			this.forget();
			this.o.failed();
		});
	}

	search(matched: Uint8Array | undefined): void {
		this.matched = matched;
		this.up.search(matched);
		this.down.search(matched);
	}

	colour(): void {
		this.up.colour();
		this.down.colour();
	}

	print(): void {
		for (const half of [this.up, this.down]) if (half.tree) half.view.print(this.o.paint(half.tree));
	}

	private zoom(animate: boolean): void {
		this.up.zoom(animate);
		this.down.zoom(animate);
	}

	dispose(): void {
		this.callers.dispose();
		this.callees.dispose();
	}
}
