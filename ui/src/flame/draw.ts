// SPDX-License-Identifier: Apache-2.0
//
// Draws the visible part of a tree. The way down goes only into bars of at least half a pixel, so that a frame costs what it shows.
import type { Palette } from './colours';
import { shownName } from '../names';
import type { Tree } from './tree';

export const ROW = 19;
export const MIN_WIDTH = 0.5;
const GAP = 1; // between rows
const TEXT_MIN = 22;
const REST_MIN = 2;
const MARK = 2; // a stripe at the left end
const MARK_MIN = 8;
const OUTLINE = 2; // of frames of the function that is marked
const FONT = '11.5px ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';

export interface Scene {
	tree: Tree;
	palette: Palette;
	from: number; // values at the left and right edge
	to: number;
	width: number; // CSS pixels
	height: number;
	scroll: number;
	flame: boolean; // the root is below
	focusLevel: number; // rows above it are only there to lead back
	matched?: Uint8Array; // per function
	isDimming: boolean; // what does not match is grey
	marked?: Uint8Array; // per function: outlined
	depth: number; // of all rows
}

/** What a frame drew; tests and the tooltip of what is too narrow ask. */
export interface Drawn {
	bars: number;
	narrowest: number;
	visited: number;
}

const TWO_CHARS = 2, LEAST_ENDS = 12; // characters: in less room both ends of a name say less than its begin

export class Painter {
	private lists = [new Int32Array(4096), new Int32Array(4096)];
	private rects = new Float32Array(4 * 4096);
	private fills = new Uint16Array(4096);
	private nodes = new Int32Array(4096);
	private counts = new Uint32Array(64);
	private order = new Uint32Array(4096);
	private n = 0;
	private charWidth = 0;
	private ratio = 1; // pixels of the screen per CSS pixel
	private covered = 0; // pixels of the row, from the left, that are drawn
	readonly drawn: Drawn = { bars: 0, narrowest: Infinity, visited: 0 };

	constructor(private readonly canvas: HTMLCanvasElement) {}

	draw(s: Scene): void {
		const c = this.canvas, ratio = devicePixelRatio || 1, w = Math.round(s.width * ratio), h = Math.round(s.height * ratio);
		if (c.width !== w || c.height !== h) {
			c.width = w;
			c.height = h;
		}
		const ctx = c.getContext('2d', { alpha: true })!;
		ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
		ctx.clearRect(0, 0, s.width, s.height);
		this.n = 0;
		this.ratio = ratio;
		Object.assign(this.drawn, { bars: 0, narrowest: Infinity, visited: 0 });
		this.collect(s);
		this.fillRects(ctx, s);
		if (s.marked) this.outline(ctx, s, s.marked);
		this.label(ctx, s);
	}

	private y(s: Scene, level: number): number {
		return this.snap((s.flame ? s.depth - 1 - level : level) * ROW - s.scroll);
	}

	private snap(v: number): number {
		return Math.round(v * this.ratio) / this.ratio;
	}

	/** Level by level: the children of what was wide enough. */
	private collect(s: Scene): void {
		const t = s.tree, scale = s.width / (s.to - s.from);
		let n = 1, [current, next] = this.lists;
		current[0] = 0;
		for (let level = 0; n > 0; level++) {
			const y = this.y(s, level), isVisible = y + ROW > 0 && y < s.height;
			let m = 0;
			this.covered = 0;
			for (let k = 0; k < n; k++) {
				const i = current[k];
				if (isVisible) this.bar(s, i, y, scale, level);
				const end = t.first[i + 1];
				let child = t.first[i];
				if (child < end && t.start[child] + t.weight[child] <= s.from) child = firstEndingAfter(t, child, end, s.from);
				for (; child < end; child++) {
					const width = t.weight[child] * scale;
					if (t.start[child] >= s.to || width < MIN_WIDTH) break;
					if (m === next.length) next = grown(next);
					next[m++] = child;
				}
				this.drawn.visited++;
				if (child < end && t.start[child] < s.to) this.rest(s, child, end, this.y(s, level + 1), scale);
			}
			n = m;
			[current, next] = [next, current];
		}
		this.lists = [current, next];
	}

	/** All the bars that are too narrow, as one shade: nothing is silently missing. */
	private rest(s: Scene, child: number, end: number, y: number, scale: number): void {
		const t = s.tree, from = Math.max((t.start[child] - s.from) * scale, 0), to = Math.min((t.start[end - 1] + t.weight[end - 1] - s.from) * scale, s.width);
		if (to - from >= REST_MIN && y + ROW > 0 && y < s.height) this.rect(-1, this.snap(from), this.snap(to), y, s.palette.rest, false);
	}

	private fillOf(s: Scene, i: number): number {
		if (!s.matched || i === 0) return s.palette.of(i);
		return s.matched[s.tree.fn[i]] && !s.tree.cut.has(i) ? s.palette.match : s.isDimming ? s.palette.dim : s.palette.of(i);
	}

	/**
	 * Edges lie on pixels of the screen: rectangles that do are several times cheaper to draw, and sharper. A bar has at least one pixel, but
	 * none that a neighbour to its left has: those come first.
	 */
	private bar(s: Scene, node: number, y: number, scale: number, level: number): void {
		const { start, weight } = s.tree, ratio = this.ratio, from = Math.max((start[node] - s.from) * scale, 0), to = Math.min((start[node] + weight[node] - s.from) * scale, s.width);
		if (to - from < MIN_WIDTH) return;
		const left = Math.max(Math.round(from * ratio), this.covered), right = Math.max(Math.round(to * ratio), Math.round(from * ratio) + 1);
		if (right <= left) return;
		this.covered = right;
		this.rect(node, left / ratio, right / ratio, y, this.fillOf(s, node), level < s.focusLevel);
	}

	private rect(node: number, left: number, right: number, y: number, fill: number, isFaint: boolean): void {
		if (this.n === this.nodes.length) this.grow();
		const k = this.n++, width = right - left > 3 ? right - left - 1 : right - left; // a hairline between neighbours that are wide enough for it
		this.rects[4 * k] = left;
		this.rects[4 * k + 1] = y;
		this.rects[4 * k + 2] = width;
		this.rects[4 * k + 3] = isFaint ? 1 : 0;
		this.fills[k] = fill;
		this.nodes[k] = node;
		this.drawn.bars++;
		if (width < this.drawn.narrowest) this.drawn.narrowest = width;
	}

	private grow(): void {
		const rects = new Float32Array(this.rects.length * 2), fills = new Uint16Array(this.fills.length * 2);
		rects.set(this.rects);
		fills.set(this.fills);
		this.rects = rects;
		this.fills = fills;
		this.nodes = grown(this.nodes);
		this.order = new Uint32Array(this.order.length * 2);
	}

	/** By colour: one change of the fill for all bars that have it. */
	private fillRects(ctx: CanvasRenderingContext2D, s: Scene): void {
		const fills = s.palette.fills, nFills = fills.length;
		if (this.counts.length < nFills + 1) this.counts = new Uint32Array(nFills + 1);
		const counts = this.counts.fill(0);
		for (let k = 0; k < this.n; k++) counts[this.fills[k] + 1]++;
		for (let f = 0; f < nFills; f++) counts[f + 1] += counts[f];
		const next = counts.slice();
		for (let k = 0; k < this.n; k++) this.order[next[this.fills[k]]++] = k;
		const { order, rects } = this, height = this.snap(ROW - GAP);
		let alpha = 1;
		for (let f = 0; f < nFills; f++) {
			if (counts[f] === counts[f + 1]) continue;
			ctx.fillStyle = fills[f];
			for (let o = counts[f]; o < counts[f + 1]; o++) {
				const k = 4 * order[o], wanted = rects[k + 3] ? 0.55 : 1;
				if (wanted !== alpha) ctx.globalAlpha = alpha = wanted;
				ctx.fillRect(rects[k], rects[k + 1], rects[k + 2], height);
			}
		}
		ctx.globalAlpha = 1;
	}

	/** Frames too narrow for an outline are filled. */
	private outline(ctx: CanvasRenderingContext2D, s: Scene, marked: Uint8Array): void {
		const height = this.snap(ROW - GAP);
		ctx.strokeStyle = ctx.fillStyle = getComputedStyle(this.canvas).color;
		ctx.lineWidth = OUTLINE;
		for (let k = 0; k < this.n; k++) {
			const node = this.nodes[k], [x, y, width] = this.rects.subarray(4 * k, 4 * k + 3);
			if (node < 0 || !marked[s.tree.fn[node]] || s.tree.cut.has(node)) continue;
			if (width < 3 * OUTLINE) ctx.fillRect(x, y, width, height);
			else ctx.strokeRect(x + OUTLINE / 2, y + OUTLINE / 2, width - OUTLINE, height - OUTLINE);
		}
	}

	private label(ctx: CanvasRenderingContext2D, s: Scene): void {
		const t = s.tree, style = getComputedStyle(this.canvas);
		ctx.font = FONT;
		ctx.textBaseline = 'middle';
		ctx.fillStyle = style.color;
		if (!this.charWidth) this.charWidth = ctx.measureText('MMMMMMMMMM').width / 10;
		for (let k = 0; k < this.n; k++) {
			const width = this.rects[4 * k + 2], node = this.nodes[k], mark = node < 0 || width < MARK_MIN ? '' : s.palette.mark?.(node) ?? '';
			if (mark) {
				ctx.globalAlpha = 0.45;
				ctx.fillRect(this.rects[4 * k], this.rects[4 * k + 1], MARK, this.snap(ROW - GAP));
			}
			if (width < TEXT_MIN || node < 0) continue;
			const room = Math.floor((width - 8) / this.charWidth) - 2 * mark.length;
			if (room < TWO_CHARS) continue;
			const text = `${mark && `${mark} `}${fit(shownName(nodeName(t, node)), room)}`;
			ctx.globalAlpha = s.isDimming && s.matched && node && !s.matched[t.fn[node]] ? 0.6 : 1;
			ctx.fillText(text, this.rects[4 * k] + (mark ? 4 + MARK : 4), this.rects[4 * k + 1] + (ROW - GAP) / 2 + 0.5);
		}
		ctx.globalAlpha = 1;
	}
}

export function nodeName(t: Tree, i: number): string {
	const cut = t.cut.get(i);
	return cut === undefined ? t.functions.name[t.fn[i]] : `${cut} more frames, not loaded`;
}

function grown(list: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
	const more = new Int32Array(list.length * 2);
	more.set(list);
	return more;
}

/** The first of the children [from, to) that reaches beyond `value`. */
export function firstEndingAfter(t: Tree, from: number, to: number, value: number): number {
	while (from < to) {
		const mid = (from + to) >> 1;
		if (t.start[mid] + t.weight[mid] > value) to = mid;
		else from = mid + 1;
	}
	return from;
}

/** As much of a name as there is room for: its path goes first, then its middle. */
export function fit(name: string, room: number): string {
	if (name.length <= room) return name;
	const slash = name.lastIndexOf('/', name.indexOf('(') < 0 ? undefined : name.indexOf('('));
	const short = slash > 0 && slash < name.length - 1 ? name.slice(slash + 1) : name;
	return short.length <= room ? short : room < LEAST_ENDS ? `${short.slice(0, room - 1)}…` : `${short.slice(0, room >> 1)}…${short.slice(1 + (room >> 1) - room)}`;
}
