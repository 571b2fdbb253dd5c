// SPDX-License-Identifier: Apache-2.0
//
// The children of a difference's root side by side with nothing between: each has a canvas of its own, a line that says what changed in it, and
// colours that begin at its own largest change.
import { fill, h } from '../dom';
import { integer } from '../units';
import type { Palette } from './colours';
import { Tree } from './tree';
import { FlameView } from './view';

const MOST = 10; // canvases

export interface PanelsOptions {
	makeView: () => FlameView;
	open: (node: number) => void; // what has no canvas here
	title: (t: Tree, node: number) => Node[];
}

/** Which child of the root each node lies below, and how many levels each has from there on. */
function partsOf(t: Tree): { part: Uint32Array; levels: Uint32Array } {
	const part = new Uint32Array(t.n), levels = new Uint32Array(t.first[1]);
	for (let l = 1; l < t.level.length - 1; l++) for (let i = t.level[l]; i < t.level[l + 1]; i++) {
		part[i] = l > 1 ? part[t.parent[i]] : i;
		levels[part[i]] = l;
	}
	return { part, levels };
}

export class FlamePanels {
	readonly root = h('div', { class: 'flame-panels', hidden: true });
	private readonly views: FlameView[] = [];
	private nodes: number[] = [];
	private part: Uint32Array = new Uint32Array(0);

	constructor(private readonly o: PanelsOptions) {}

	/** Those that have a canvas, with the names of their parts. */
	shown(t: Tree): { view: FlameView; title: string }[] {
		return this.nodes.map((node, k) => ({ view: this.views[k], title: t.functions.name[t.fn[node]] }));
	}

	show(t: Tree, palette: Palette, flame: boolean): void {
		const { part, levels } = partsOf(t), all: number[] = [];
		for (let c = t.first[0]; c < t.first[1]; c++) if (!t.cut.has(c)) all.push(c);
		this.part = part;
		this.nodes = all.slice(0, MOST);
		while (this.views.length < this.nodes.length) this.views.push(this.o.makeView());
		const rest = all.slice(MOST);
		fill(this.root, this.nodes.map((node, k) => h('section', { class: 'flame-panel', 'aria-label': t.functions.name[t.fn[node]] }, h('div', { class: 'flame-panel-head' }, this.o.title(t, node)), this.views[k].root)),
			rest.length > 0 && h('p', { class: 'facts' }, `${integer(rest.length)} smaller: `, rest.slice(0, 40).map((node) => [h('button', { type: 'button', class: 'crumb', onclick: () => this.o.open(node) }, t.functions.name[t.fn[node]]), ' '])));
		this.nodes.forEach((node, k) => this.views[k].show(t, palette, flame, node, levels[node]));
	}

	colour(palette: Palette): void {
		this.views.forEach((v) => v.colour(palette));
	}

	search(matched: Uint8Array | undefined): void {
		this.views.forEach((v) => v.search(matched));
	}

	print(palette: Palette): void {
		this.views.forEach((v) => v.print(palette));
	}

	outlineAll(name: string | null): void {
		this.views.forEach((v) => v.outlineAll(name));
	}

	/** The canvas that has a node; undefined for those of parts without one. */
	viewOf(node: number): FlameView | undefined {
		return this.views[this.nodes.indexOf(this.part[node])];
	}

	dispose(): void {
		this.views.forEach((v) => v.dispose());
	}
}
