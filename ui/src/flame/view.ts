// SPDX-License-Identifier: Apache-2.0
//
// A flame graph that answers to pointer, touch and keyboard. What it is told to show comes from outside (zoom, search, colours);
// what a person does goes out through its callbacks.
import { h, iconButton } from '../dom';
import { Life } from '../life';
import { SHEET, isPrinting } from '../print';
import { percent, value } from '../units';
import type { Palette } from './colours';
import { Painter, ROW, firstEndingAfter, nodeName } from './draw';
import { Tree, depthOf } from './tree';

export interface Callbacks {
	zoom(node: number): void;
	menu(node: number, at: { x: number; y: number }): void;
	select?(node: number): void;
}
interface Hit {
	node: number; // -1: several that are too narrow
	parent: number;
	level: number;
}

const ANIMATION_MS = 140;
const LONG_PRESS_MS = 500;
const MOVED_PX = 8;
const MOST_HEIGHT = 4000; // of a canvas on paper
const MENU_PX = 20, MENU_MIN = 56; // the button of a frame's menu, and the narrowest frame that has one

export class FlameView {
	readonly root: HTMLElement;
	private readonly canvas = h('canvas', { class: 'flame-canvas', tabindex: '0', role: 'application' });
	private readonly scroller: HTMLElement;
	private readonly spacer = h('div', { class: 'flame-spacer' });
	private readonly hover = h('div', { class: 'flame-hover', hidden: true });
	private readonly mark = h('div', { class: 'flame-mark', hidden: true });
	private readonly more: HTMLButtonElement = iconButton('more', 'More of this frame (m)', () => this.openMenuOf(this.pointed >= 0 ? this.pointed : this.selected), { class: 'icon-button frame-menu', tabindex: '-1', hidden: true });
	private pointed = -1; // below the pointer
	private readonly tip = h('div', { class: 'tooltip', hidden: true, role: 'tooltip' });
	private readonly live = h('div', { class: 'offscreen', 'aria-live': 'polite' });
	readonly painter = new Painter(this.canvas);
	private tree?: Tree;
	private palette?: Palette;
	private matched?: Uint8Array;
	private isDimming = true;
	private marked?: Uint8Array;
	private flame = false;
	private zoomed = 0;
	private part = 0; // what stands where the root does
	private top = 0; // its level
	private bottom = 0; // behind the deepest level
	private selected = -1;
	private from = 0;
	private to = 1;
	private frame = 0;
	private animation = 0;
	private width = 0;
	private readonly observer: ResizeObserver;
	private readonly life = new Life();
	/** Milliseconds of script and canvas that the last frames took. */
	readonly frameTimes: number[] = [];

	constructor(private readonly on: Callbacks, private readonly describe: (t: Tree, node: number) => Node[], private readonly maxHeight: () => number) {
		this.scroller = h('div', { class: 'flame-scroll' }, this.canvas, this.spacer, this.hover, this.mark, this.more);
		this.root = h('div', { class: 'flame' }, this.scroller, this.live);
		document.body.appendChild(this.tip);
		this.observer = new ResizeObserver(() => this.resize());
		this.observer.observe(this.root);
		this.scroller.addEventListener('scroll', () => this.paint());
		this.listen();
	}

	dispose(): void {
		this.life.end();
		this.observer.disconnect();
		this.tip.remove();
		cancelAnimationFrame(this.frame);
		cancelAnimationFrame(this.animation);
	}

	/** Of a part: the node and how many levels it has, its own counted. */
	show(tree: Tree, palette: Palette, flame: boolean, part = 0, levels = tree.level.length - 1): void {
		const turned = flame !== this.flame || levels !== this.bottom - this.top;
		this.tree = tree;
		this.palette = palette;
		this.flame = flame;
		this.zoomed = this.part = part;
		this.top = depthOf(tree, part);
		this.bottom = this.top + levels;
		this.from = tree.start[part];
		this.to = this.from + Math.max(tree.weight[part], 1e-12);
		this.selected = -1;
		this.hideHover();
		this.canvas.setAttribute('aria-label', `Flame graph of ${part ? nodeName(tree, part) : `${tree.n} frames`}, ${value(part ? tree.total[part] : tree.whole, tree.unit)}. The table view holds the same functions.`);
		this.resize(turned);
	}

	colour(palette: Palette): void {
		this.palette = palette;
		this.paint();
	}

	/** Per function; what does not match is grey, or as it is. */
	search(matched: Uint8Array | undefined, isDimming = true): void {
		this.matched = matched;
		this.isDimming = isDimming;
		this.paint();
	}

	/** All frames of a function stand out. */
	outlineAll(name: string | null): void {
		const names = this.tree?.functions.name ?? [];
		this.marked = name !== null && names.includes(name) ? Uint8Array.from(names, (n) => (n === name ? 1 : 0)) : undefined;
		this.paint();
	}

	/** For a sheet or back for the window, at once. */
	print(palette: Palette): void {
		if (!this.root.checkVisibility()) return;
		this.palette = palette;
		this.resize();
		this.drawNow();
	}

	get zoomNode(): number {
		return this.zoomed;
	}

	get selectedNode(): number {
		return this.selected;
	}

	/** Fills the width with a node's bar. */
	zoomTo(node: number, animate: boolean): void {
		const t = this.tree!;
		this.zoomed = node;
		const from = t.start[node], to = from + Math.max(t.weight[node], 1e-12);
		if (!animate || matchMedia('(prefers-reduced-motion: reduce)').matches) {
			this.from = from;
			this.to = to;
			this.paint();
			return;
		}
		const f0 = this.from, t0 = this.to, began = performance.now();
		cancelAnimationFrame(this.animation);
		const step = (now: number) => {
			const x = Math.min(Math.max((now - began) / ANIMATION_MS, 0), 1), ease = 1 - (1 - x) ** 3;
			this.from = f0 + (from - f0) * ease;
			this.to = t0 + (to - t0) * ease;
			this.drawNow();
			if (x < 1) this.animation = requestAnimationFrame(step);
		};
		this.animation = requestAnimationFrame(step);
	}

	/** As it is drawn. */
	get image(): HTMLCanvasElement {
		return this.canvas;
	}

	focus(): void {
		this.canvas.focus({ preventScroll: true });
	}

	private resize(toRoot = false): void {
		const t = this.tree;
		if (!t) return;
		const all = this.depth() * ROW;
		const height = Math.max(isPrinting() ? Math.min(all, MOST_HEIGHT) : Math.min(all, this.maxHeight()), ROW * 6);
		this.scroller.style.height = `${height}px`;
		this.width = isPrinting() ? SHEET : this.scroller.clientWidth;
		this.canvas.style.width = `${this.width}px`;
		this.canvas.style.height = `${height}px`;
		this.spacer.style.height = `${Math.max(all - height, 0)}px`;
		if (toRoot) this.scroller.scrollTop = this.flame ? all : 0;
		this.paint();
	}

	private depth(): number {
		return this.bottom - this.top;
	}

	private paint(): void {
		if (!this.tree || this.frame) return;
		this.frame = requestAnimationFrame(() => {
			this.frame = 0;
			this.drawNow();
		});
	}

	private drawNow(): void {
		const t = this.tree;
		if (!t || !this.palette || this.width < 1) return;
		const began = performance.now();
		this.painter.draw({
			tree: t, palette: this.palette, from: this.from, to: this.to, width: this.width, height: this.scroller.clientHeight,
			scroll: this.scroller.scrollTop + (this.flame ? 0 : this.top * ROW), flame: this.flame, focusLevel: depthOf(t, this.zoomed), matched: this.matched, isDimming: this.isDimming, marked: this.marked, depth: this.bottom,
		});
		this.frameTimes.push(performance.now() - began);
		if (this.frameTimes.length > 1000) this.frameTimes.shift();
		this.outline(this.mark, this.selected);
		this.placeMore();
	}

	/* ---- where things are ---- */

	private levelY(level: number): number {
		return (this.flame ? this.bottom - 1 - level : level - this.top) * ROW;
	}

	private hit(e: { clientX: number; clientY: number }): Hit | undefined {
		const t = this.tree;
		if (!t) return undefined;
		const r = this.canvas.getBoundingClientRect(), row = Math.floor((e.clientY - r.top + this.scroller.scrollTop) / ROW);
		const level = this.flame ? this.bottom - 1 - row : row + this.top;
		const scale = (this.to - this.from) / this.width, at = this.from + (e.clientX - r.left) * scale;
		if (level < this.top || level >= this.bottom) return undefined;
		let node = 0;
		for (let l = 0; l < level; l++) {
			const c = firstEndingAfter(t, t.first[node], t.first[node + 1], at);
			if (c === t.first[node + 1] || t.start[c] > at) return undefined;
			if (t.weight[c] < 0.5 * scale) return l + 1 === level ? { node: -1, parent: node, level } : undefined;
			node = c;
		}
		return { node, parent: t.parent[node], level };
	}

	private outline(box: HTMLElement, node: number): void {
		const t = this.tree;
		if (!t || node < 0) {
			if (!box.hidden) box.hidden = true;
			return;
		}
		const [left, right] = this.sidesOf(node);
		box.hidden = right <= left;
		box.style.transform = `translate(${left}px, ${this.levelY(depthOf(t, node))}px)`;
		box.style.width = `${Math.max(right - left, 1)}px`;
		box.style.height = `${ROW - 1}px`;
	}

	private sidesOf(node: number): [number, number] {
		const t = this.tree!, scale = this.width / (this.to - this.from);
		return [Math.max((t.start[node] - this.from) * scale, 0), Math.min((t.start[node] + t.weight[node] - this.from) * scale, this.width)];
	}

	/** At the right end of the frame below the pointer, else of the one that was chosen. */
	private placeMore(): void {
		const t = this.tree, node = this.pointed >= 0 ? this.pointed : this.selected, [left, right] = t && node >= 0 ? this.sidesOf(node) : [0, 0];
		this.more.hidden = right - left < MENU_MIN;
		if (!this.more.hidden) this.more.style.transform = `translate(${right - MENU_PX}px, ${this.levelY(depthOf(t!, node))}px)`;
	}

	/* ---- what a person does ---- */

	private listen(): void {
		const c = this.canvas;
		let down: { clientX: number; clientY: number; long: boolean } | undefined;
		const press = this.life.delay(LONG_PRESS_MS, () => {
			down!.long = true;
			this.openMenu(down!);
		});
		c.addEventListener('pointermove', (e) => {
			if (down && Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) > MOVED_PX) press.stop();
			if (e.pointerType !== 'touch') this.point(e);
		});
		const leaves = (e: PointerEvent | FocusEvent) => e.relatedTarget === c || this.more.contains(e.relatedTarget as Node | null) || this.hideHover();
		c.addEventListener('pointerleave', leaves);
		this.more.addEventListener('pointerleave', leaves);
		c.addEventListener('pointerdown', (e) => {
			down = { clientX: e.clientX, clientY: e.clientY, long: false };
			if (e.pointerType !== 'mouse') press.start();
		});
		c.addEventListener('pointercancel', () => press.stop());
		c.addEventListener('pointerup', () => press.stop());
		c.addEventListener('click', (e) => {
			if (down?.long) return;
			const hit = this.hit(e);
			if (!hit) return;
			const node = hit.node < 0 ? hit.parent : hit.node;
			this.select(node);
			this.on.zoom(node);
		});
		c.addEventListener('contextmenu', (e) => {
			e.preventDefault();
			this.openMenu(e);
		});
		c.addEventListener('keydown', (e) => this.key(e));
		c.addEventListener('blur', leaves);
	}

	private openMenu(e: { clientX: number; clientY: number }): void {
		const hit = this.hit(e);
		if (!hit || hit.node < 0) return;
		this.select(hit.node);
		this.hideHover();
		this.on.menu(hit.node, { x: e.clientX, y: e.clientY });
	}

	private openMenuOf(node: number): void {
		const box = this.more.getBoundingClientRect();
		if (node < 0) return;
		this.select(node);
		this.hideHover();
		this.on.menu(node, { x: box.left, y: box.bottom });
	}

	private point(e: PointerEvent): void {
		const t = this.tree, hit = this.hit(e);
		if (!t || !hit) {
			this.hideHover();
			return;
		}
		this.canvas.style.cursor = 'pointer';
		this.outline(this.hover, hit.node);
		this.pointed = hit.node;
		this.placeMore();
		this.tip.replaceChildren(...(hit.node < 0 ? this.describeNarrow(hit.parent) : this.describe(t, hit.node)));
		this.tip.hidden = false;
		const w = this.tip.offsetWidth, hgt = this.tip.offsetHeight;
		const x = e.clientX + 14 + w > innerWidth - 6 ? Math.max(e.clientX - w - 14, 6) : e.clientX + 14;
		const y = e.clientY + 18 + hgt > innerHeight - 6 ? Math.max(e.clientY - hgt - 14, 6) : e.clientY + 18;
		this.tip.style.transform = `translate(${x}px, ${y}px)`;
	}

	private describeNarrow(parent: number): Node[] {
		const t = this.tree!, scale = (this.to - this.from) / this.width;
		let n = 0, sum = 0;
		for (let c = t.first[parent]; c < t.first[parent + 1]; c++) if (t.weight[c] < 0.5 * scale) {
			n++;
			sum += t.total[c];
		}
		return [h('strong', {}, `${n} narrow frames below ${nodeName(t, parent)}`), h('div', { class: 'muted' }, `${value(sum, t.unit)}, ${percent(sum / t.whole)}. Zoom in to tell them apart.`)];
	}

	private hideHover(): void {
		this.hover.hidden = true;
		this.tip.hidden = true;
		this.canvas.style.cursor = '';
		this.pointed = -1;
		this.placeMore();
	}

	select(node: number): void {
		const t = this.tree!;
		this.selected = node;
		this.outline(this.mark, node);
		const y = this.levelY(depthOf(t, node)), s = this.scroller;
		if (y < s.scrollTop) s.scrollTop = y;
		else if (y + ROW > s.scrollTop + s.clientHeight) s.scrollTop = y + ROW - s.clientHeight;
		this.live.textContent = `${nodeName(t, node)}, ${value(t.total[node], t.unit)}, ${percent(t.total[node] / t.whole)}`;
		this.on.select?.(node);
	}

	/** Arrows walk from frame to frame: up and down as the picture shows it. */
	private key(e: KeyboardEvent): void {
		const t = this.tree;
		if (!t || e.ctrlKey || e.metaKey || e.altKey) return;
		const at = this.selected < 0 ? this.zoomed : this.selected;
		const deeper = t.first[at] < t.first[at + 1] ? t.first[at] : at;
		const up = at === this.part ? at : t.parent[at], sibling = (step: number) => (at !== this.part && at + step >= t.first[up] && at + step < t.first[up + 1] ? at + step : at);
		const moves: Record<string, () => number> = {
			ArrowDown: () => (this.flame ? up : deeper), ArrowUp: () => (this.flame ? deeper : up),
			ArrowLeft: () => sibling(-1), ArrowRight: () => sibling(1), Home: () => this.part,
		};
		if (e.key in moves) this.select(this.selected < 0 ? at : moves[e.key]());
		else if (e.key === 'Enter' || e.key === ' ') this.on.zoom(at);
		else if (e.key === 'ContextMenu' || e.key === 'm') {
			const r = this.mark.getBoundingClientRect();
			this.on.menu(at, { x: r.left, y: r.bottom });
		} else return;
		e.preventDefault();
	}
}
