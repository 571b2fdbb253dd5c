// SPDX-License-Identifier: Apache-2.0
//
// The drawn side of a flame graph, which is one of three things: the graph, a canvas for each child of the root, or callers and callees.
import { h } from '../dom';
import type { FlameAddress } from './address';
import type { Palette } from './colours';
import type { Derive } from './derive';
import { describe } from './describe';
import { FlamePanels } from './panels';
import { png } from './png';
import { Sandwich } from './sandwich';
import type { Place, Source } from './source';
import { Tree, nodesBelow, pathOf } from './tree';
import { FlameView } from './view';

const LEAST_HEIGHT = 300, AROUND = 260; // pixels: of a graph, and of what the window shows beside it
const PART = 0.45; // of that height, for a graph that is one of several

export interface PictureOptions {
	address: FlameAddress;
	source: () => Source | undefined;
	paint: (t: Tree) => Palette;
	text: (v: number) => string;
	derive: Derive;
	again: () => void;
	menu: (t: Tree, node: number, at: Place) => void;
}

export class FlamePicture {
	readonly root = h('div', { class: 'flame-side' });
	readonly view: FlameView;
	readonly sandwich: Sandwich;
	private readonly panels: FlamePanels;
	/** Where a frame was chosen last. */
	active: FlameView;
	tree?: Tree;
	palette?: Palette;
	private key = '';
	private panelled = '';

	constructor(private readonly o: PictureOptions) {
		const tree = () => this.tree, zoom = (node: number) => this.zoom(node);
		this.view = this.active = this.makeView(tree, zoom, 1);
		this.panels = new FlamePanels({ makeView: () => this.makeView(tree, zoom, PART), open: zoom, title: (t, node) => o.source()!.panelTitle!(t, node) });
		this.sandwich = new Sandwich({ ...o, makeView: (treeOf, zoomIn) => this.makeView(treeOf, zoomIn, PART), failed: o.again });
		this.root.append(this.view.root, this.panels.root, this.sandwich.root);
	}

	private makeView(tree: () => Tree | undefined, zoom: (node: number) => void, share: number): FlameView {
		const view: FlameView = new FlameView({ zoom, menu: (node, at) => this.o.menu(tree()!, node, at), select: () => (this.active = view) },
			(t, node) => this.o.source()?.describe?.(t, node) ?? describe(t, node), () => Math.max(innerHeight - AROUND, LEAST_HEIGHT) * share);
		return view;
	}

	dispose(): void {
		for (const v of [this.view, this.panels, this.sandwich]) v.dispose();
	}

	/** Which tree it shows; empty after another answer came. */
	get shownKey(): string {
		return this.key;
	}

	forget(): void {
		this.key = this.panelled = '';
		this.sandwich.forget();
	}

	/** There is nothing to draw: keys and prints have no tree. */
	clear(): void {
		this.forget();
		this.tree = this.palette = undefined;
		this.active = this.view;
	}

	show(t: Tree, key: string): void {
		this.key = key;
		this.tree = t;
		this.palette = this.o.paint(t);
		this.view.show(t, this.palette, this.o.address.isFlame);
	}

	/** A cut node stands for what lies below its parent. */
	zoom(node: number): void {
		const t = this.tree!;
		this.o.address.set({ at: pathOf(t, t.cut.has(node) ? t.parent[node] : node) });
	}

	/** To a frame: the canvas that has it shows which one it is. */
	goTo(node: number): void {
		const view = this.panels.root.hidden ? this.view : this.panels.viewOf(node);
		if (!view) {
			this.zoom(node);
			return;
		}
		view.select(node);
		if (view !== this.view) view.root.scrollIntoView({ block: 'nearest' });
	}

	search(matched: Uint8Array | undefined): void {
		for (const v of [this.view, this.panels, this.sandwich]) v.search(matched);
	}

	/** Outlines a function's frames. */
	mark(name: string | null): void {
		for (const v of [this.view, this.panels]) v.outlineAll(name);
	}

	/** To the widest frame of a function, below the zoom where there is one. */
	reveal(name: string): void {
		const t = this.tree!, zoomed = this.view.zoomNode, is = (i: number) => t.functions.name[t.fn[i]] === name && !t.cut.has(i);
		let best = -1;
		for (const from of zoomed ? [zoomed, 0] : [0]) {
			for (const i of nodesBelow(t, from)) if (i && is(i) && (best < 0 || t.weight[i] > t.weight[best])) best = i;
			if (best >= 0) break;
		}
		if (best >= 0) this.goTo(best);
	}

	print(): void {
		this.palette = this.o.paint(this.tree!);
		this.view.print(this.palette);
		this.panels.print(this.palette);
		this.sandwich.print();
	}

	repaint(): void {
		this.palette = this.o.paint(this.tree!);
		this.view.colour(this.palette);
		this.panels.colour(this.palette);
		this.sandwich.colour();
	}

	/** Which of the three is seen. */
	arrange(): void {
		const { address } = this.o, focus = address.sandwich, t = this.tree!;
		const isPanelled = focus === null && !address.path.length && Boolean(t.sides && this.o.source()!.panelTitle);
		this.sandwich.root.hidden = focus === null;
		this.panels.root.hidden = !isPanelled;
		this.view.root.hidden = focus !== null || isPanelled;
		if (focus !== null) this.sandwich.show(focus, t, this.key);
		else if (this.sandwich.treeOf(this.active)) this.active = this.view;
		if (!isPanelled || this.panelled === this.key) return;
		this.panelled = this.key;
		this.panels.show(t, this.palette!, address.isFlame);
	}

	/** What keys are about: the frame that was chosen last, -1 without one, and its tree. */
	get chosen(): { tree: Tree; node: number } {
		return { tree: this.sandwich.treeOf(this.active) ?? this.tree!, node: this.active.selectedNode };
	}

	/** With lines that say what it is of. */
	png(lines: string[]): Promise<Blob | null> {
		const { callers, callees } = this.sandwich;
		const parts = !this.sandwich.root.hidden ? [{ view: callers, title: 'Callers' }, { view: callees, title: 'Callees' }] : !this.panels.root.hidden ? this.panels.shown(this.tree!) : [{ view: this.view, title: '' }];
		return png(parts, lines, this.palette!, this.tree!.whole);
	}
}
