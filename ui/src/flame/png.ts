// SPDX-License-Identifier: Apache-2.0
//
// What is on the screen as one picture: lines that say what it is of, the canvases one below the other, what the colours mean.
import { percent } from '../units';
import type { Palette } from './colours';
import type { FlameView } from './view';

export interface Part {
	view: FlameView;
	title: string; // or none
}

const LINE = 18, TITLE = 22, MARGIN = 8, SWATCH = 11, GAP = 16; // CSS pixels

/** A text as far as there is room. */
function fitted(g: CanvasRenderingContext2D, text: string, room: number): string {
	let n = text.length;
	while (n > 1 && g.measureText(n < text.length ? `${text.slice(0, n)}…` : text).width > room) n--;
	return n < text.length ? `${text.slice(0, n)}…` : text;
}

/** Where each entry of the legend stands; it goes on in the next line. */
function flow(g: CanvasRenderingContext2D, texts: string[], width: number): { x: number; line: number }[] {
	let x = MARGIN, line = 0;
	return texts.map((text) => {
		const w = SWATCH + 6 + g.measureText(text).width + GAP;
		if (x > MARGIN && x + w > width) [x, line] = [MARGIN, line + 1];
		x += w;
		return { x: x - w, line };
	});
}

export function png(parts: Part[], lines: string[], palette: Palette, whole: number): Promise<Blob | null> {
	const c = document.createElement('canvas'), g = c.getContext('2d')!, ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement), css = (name: string) => style.getPropertyValue(name).trim();
	const width = Math.max(...parts.map((p) => p.view.image.width)) / ratio, keys = palette.legend.map(([text, colour, self]) => ({ text: self ? `${text} ${percent(self / whole)}` : text, colour }));
	const font = (bold = false) => (g.font = `${bold ? '600 13' : '12'}px system-ui, sans-serif`);
	font();
	const places = flow(g, keys.map((k) => k.text), width), head = lines.length ? lines.length * LINE + MARGIN : 0, foot = places.length ? (places[places.length - 1].line + 1) * LINE + MARGIN : 0;
	const heights = parts.map((p) => (p.title ? TITLE : 0) + p.view.image.height / ratio), body = heights.reduce((sum, h) => sum + h, 0);
	c.width = width * ratio;
	c.height = (head + body + foot) * ratio;
	g.scale(ratio, ratio);
	g.fillStyle = css('--surface');
	g.fillRect(0, 0, width, head + body + foot);
	lines.forEach((line, i) => {
		font(i === 0);
		g.fillStyle = css(i ? '--muted' : '--text');
		g.fillText(fitted(g, line, width - 2 * MARGIN), MARGIN, (i + 1) * LINE - 2);
	});
	font();
	let y = head;
	parts.forEach(({ view, title }, k) => {
		g.fillStyle = css('--text');
		if (title) g.fillText(title, 4, y + 15);
		const top = y + (title ? TITLE : 0);
		g.drawImage(view.image, 0, top, view.image.width / ratio, view.image.height / ratio);
		y += heights[k];
	});
	keys.forEach(({ text, colour }, k) => {
		const { x, line } = places[k], base = y + MARGIN + line * LINE + SWATCH;
		g.fillStyle = colour;
		g.fillRect(x, base - SWATCH + 1, SWATCH, SWATCH);
		g.fillStyle = css('--muted');
		g.fillText(text, x + SWATCH + 6, base);
	});
	return new Promise((done) => c.toBlob(done));
}
