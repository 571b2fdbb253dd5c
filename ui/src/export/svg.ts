// SPDX-License-Identifier: Apache-2.0
//
// A flame graph as a picture that scales, with the look and the colours of lib/render/svg.c and lib/render/diff_svg.c. Only what is wide
// enough to see becomes an element, so the size follows the picture and not the profile.
import { defaultColours, paint } from '../flame/colours';
import type { Tree } from '../flame/tree';
import { shownName } from '../names';
import { percent, unitName, value } from '../units';
import { Shown, Written, frameName, titleOf } from './format';

const WIDTH = 1200, SIDE = 10, BAR = 18, HEAD = 34, SUBTITLE = 18, LEGEND = 26, FOOT = 24, MAX_DEPTH = 200; // pixels, and levels
const CHAR = 7.25; // pixels of the 12 px monospace font
const KEY_GAP = 26, KEY_MAX = 170, TOTAL_MAX = 380; // pixels of the legend: its square and what is between two, a name, the text left of it
const GREY = 'hsl(210,6%,88%)', LEAST_CHANGE = 0.1; // of the colours' scale, as log2

export function escape(text: string): string {
	return text.replace(/[\0-\x08\x0b-\x1f\x7f\ufffe\uffff]/g, '\ufffd').replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** What of a name fits, between characters. */
function fit(name: string, width: number): string {
	const room = width > 2 * CHAR + 6 ? Math.floor((width - 6) / CHAR) : 0, chars = [...name];
	return !room || chars.length <= room ? (room ? name : '') : `${chars.slice(0, room - 1).join('')}…`;
}

/** How bars are filled, what their tooltips say below the name, and the legend. */
interface Look {
	style: string;
	fill(i: number): string; // attribute
	note(i: number): string;
	caption: string;
	keys: [fill: string, text: string][];
}

function coloursLook({ whole: t }: Shown, shown: number[]): Look {
	const { fills, of, legend: groups } = paint(t, defaultColours(t), false), css = (colour: string) => colour.replace(/ /g, ','), share = (v: number) => `${((100 * Math.abs(v)) / (t.whole || 1)).toFixed(2)}%`;
	return {
		style: [...new Set(shown.map(of))].map((k) => `.fg .c${k}{fill:${css(fills[k])}}\n`).join(''), // with commas, which all readers of SVG know
		fill: (i) => `class="c${of(i)}"`,
		note: (i) => `${value(t.total[i], t.unit)}, ${share(t.total[i])}${t.self[i] && t.self[i] !== t.total[i] ? ` (self ${value(t.self[i], t.unit)}, ${share(t.self[i])})` : ''}`,
		caption: `${t.type || 'value'} in ${unitName(t.unit)}, total ${value(t.total[0], t.unit)}`,
		keys: groups.filter(([, , self]) => self).map(([text, colour]) => [`fill="${css(colour)}"`, text]),
	};
}

function diffLook({ whole: t, scale, isRelative, names }: Shown): Look {
	const s = t.sides!, a = (i: number) => s.totalA[i] * scale[0], b = (i: number) => s.totalB[i] * scale[1], text = (v: number) => (isRelative ? percent(v) : value(v, t.unit));
	const change = (i: number) => (a(i) <= 0 || b(i) <= 0 ? Math.sign(b(i) - a(i)) : Math.max(-1, Math.min(1, Math.log2(b(i) / a(i)))));
	const colour = (strength: number, more: boolean) => `hsl(${more ? 8 : 214},${Math.round(60 + 25 * strength)}%,${Math.round(92 - 30 * strength)}%)`;
	let largest = LEAST_CHANGE;
	for (let i = 0; i < t.n; i++) if (a(i) !== b(i)) largest = Math.max(largest, Math.abs(change(i)));
	return {
		style: '', fill: (i) => `fill="${a(i) === b(i) ? GREY : colour(Math.abs(change(i)) / largest, change(i) > 0)}"`,
		note: (i) => `${names[0]}: ${text(a(i))}\n${names[1]}: ${text(b(i))}\n${a(i) > 0 && b(i) > 0 ? `${b(i) >= a(i) ? '+' : ''}${(100 * (b(i) / a(i) - 1)).toFixed(1)} %` : b(i) > 0 ? 'new' : 'gone'}`,
		caption: `${t.type || 'value'}${isRelative ? ', shares of each file' : ` in ${unitName(t.unit)}`}, B against A`,
		keys: [[`fill="${colour(1, true)}"`, 'more in B'], [`fill="${colour(1, false)}"`, 'less in B'], [`fill="${GREY}"`, 'equal']],
	};
}

function place(t: Tree, i: number): string {
	const f = t.fn[i], mapping = t.functions.mapping[f], file = t.functions.file[f];
	if (!i || t.cut.has(i)) return '';
	return `${mapping && (mapping[0] === '[' ? ` ${mapping}` : ` [${mapping.slice(mapping.lastIndexOf('/') + 1)}]`)}${file && `\n${file}${t.line[i] ? `:${t.line[i]}` : ''}`}`;
}

/** The first keys that there is room for, from the right. */
function legend(look: Look, y: number): string {
	const widthOf = (text: string) => KEY_GAP + Math.min(7.5 * text.length, KEY_MAX);
	let x = WIDTH - SIDE, room = WIDTH - 2 * SIDE - TOTAL_MAX;
	const n = look.keys.findIndex(([, text]) => (room -= widthOf(text)) < 0), keys = look.keys.slice(0, n < 0 ? undefined : n).reverse().map(([fill, text]) => {
		x -= widthOf(text);
		return `<rect ${fill} x="${x}" y="${y + 2}" width="12" height="12" rx="2"/><text class="l" x="${x + 16}" y="${y + 12}">${escape(fit(text, KEY_MAX + 6))}</text>\n`;
	});
	return `<text class="l" x="${SIDE}" y="${y + 12}">${escape(look.caption)}</text>\n${keys.join('')}`;
}

/** The picture, its root on top. Bars narrower than `least` pixels are counted. */
export function picture(shown: Shown, least = 0.3): string {
	const { whole: t, subtitle } = shown, scale = t.weight[0] ? (WIDTH - 2 * SIDE) / t.weight[0] : 0, level = new Uint32Array(t.n), isShown = new Uint8Array(t.n), drawn: number[] = [];
	let nHidden = 0, depth = 0;
	for (let i = 0; i < t.n; i++) {
		level[i] = i ? level[t.parent[i]] + 1 : 0;
		isShown[i] = Number(!i || (isShown[t.parent[i]] && t.weight[i] * scale >= least && level[i] <= MAX_DEPTH));
		if (isShown[i]) drawn.push(i);
		else nHidden += t.cut.get(i) ?? 1;
		if (isShown[i]) depth = Math.max(depth, level[i]);
	}
	const look = t.sides ? diffLook(shown) : coloursLook(shown, drawn), title = escape(titleOf(shown)), head = HEAD + (subtitle ? SUBTITLE : 0), top = head + LEGEND, foot = top + (depth + 1) * BAR, height = foot + FOOT;
	const bars = drawn.map((i) => {
		const w = t.weight[i] * scale, x = SIDE + (t.start[i] - t.start[0]) * scale, y = top + level[i] * BAR, name = frameName(t, i), text = fit(i && !t.cut.has(i) ? shownName(name) : name, w);
		return `<g><title>${escape(`${name}${place(t, i)}\n${look.note(i)}`)}</title><rect ${look.fill(i)} x="${x.toFixed(2)}" y="${y}" width="${(w - (w > 3 ? 0.8 : 0)).toFixed(2)}" height="${BAR - 1}" rx="1.5"/>${text && `<text x="${(x + 3).toFixed(2)}" y="${y + 13}">${escape(text)}</text>`}</g>\n`;
	});
	const said = t.n <= 1 ? 'The file has no stacks.' : `${nHidden ? `${nHidden} frames narrower than ${least} px${depth >= MAX_DEPTH ? ' or too deep' : ''} are not drawn.` : 'All frames are drawn.'}${t.weight[0] !== t.total[0] ? ' A bar is as wide as its values without their signs.' : ''}`;
	return `<svg class="fg" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>${title}</title>
<style>
.fg .bg{fill:#fff}.fg text{font:12px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#1b1f24;pointer-events:none}
.fg .t{font:600 16px system-ui,"DejaVu Sans",sans-serif}.fg .l{font:12px system-ui,"DejaVu Sans",sans-serif;fill:#57606a}
.fg g:hover>rect{stroke:#1b1f24;stroke-width:1}
${look.style}</style>
<rect class="bg" width="${WIDTH}" height="${height}"/>
<text class="t" x="${SIDE}" y="24">${title}</text>
${subtitle && `<text class="l" x="${SIDE}" y="${HEAD + 8}">${escape(subtitle)}</text>\n`}${legend(look, head)}${bars.join('')}<text class="l" x="${SIDE}" y="${foot + 14}">${said}</text>
</svg>
`;
}

export function svg(shown: Shown): Written {
	return { parts: [picture(shown)], left: [] };
}
