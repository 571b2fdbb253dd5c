// SPDX-License-Identifier: Apache-2.0
//
// A page that opens from disk. The scraper has the frame of it, with the viewer and without contents (lib/render/page.c); what it shows is
// filled in here, and so is what stands there without script.
import { rowsOf } from '../flame/diff_rows';
import { percent, value } from '../units';
import { protobuf } from './arrays';
import { Shown, Written, titleOf, wholeUnit } from './format';
import { escape, picture } from './svg';

const PLAIN_LEAST = 1; // pixels of a bar in the picture without script
const ROWS = 50; // of the table without script
const CHUNK = 3 * 8192; // bytes
const SHARES = 'ppm', MILLION = 1e6; // what the viewer shows as shares

function base64(data: Uint8Array): string {
	let text = '';
	for (let i = 0; i < data.length; i += CHUNK) text += btoa(String.fromCharCode(...data.subarray(i, i + CHUNK)));
	return text;
}

function about(shown: Shown, scale: [number, number], factor: number): object {
	const { whole: t, names, time, seconds, isFull } = shown, all = { title: titleOf(shown), subtitle: '', ...(isFull && { names: 'full' }), type: t.type, time, seconds };
	if (!t.sides) return { kind: 'graph', ...all };
	const side = (k: number) => ({ label: names[k], scale: scale[k], files: [] }), whole = (v: number) => Math.round(v * factor);
	const rows = rowsOf(t, scale).map((r) => [r.function, r.mapping, ...[r.self_a, r.self_b, r.total_a, r.total_b].map(whole), r.mark]);
	return { kind: 'diff', ...all, head: '', panels: false, a: side(0), b: side(1), rows, metrics: [] };
}

/** The largest functions. */
function table({ whole: t, scale, isRelative, names }: Shown): string {
	const cell = (text: string, kind: string) => `<td class="${kind}">${escape(text)}</td>`, rows = (all: string[][]) => all.slice(0, ROWS).map(([name, mapping, ...numbers]) => `<tr>${numbers.map((n) => cell(n, 'n')).join('')}${cell(name, 'f')}${cell(mapping, 'm')}</tr>\n`).join('');
	const made = (heads: string[], all: string[][]) => `<h2>Top functions</h2><table><thead><tr>${heads.map((text) => `<th class="n">${escape(text)}</th>`).join('')}<th>Function</th><th>Binary</th></tr></thead><tbody>\n${rows(all)}</tbody></table>\n${all.length > ROWS ? `<p>${all.length - ROWS} more functions are not listed.</p>\n` : ''}`;
	if (t.sides) {
		const text = (v: number, k: number) => (isRelative ? percent(v * scale[k]) : value(v, t.unit)), all = rowsOf(t, scale).sort((x, y) => Math.max(y.self_a * scale[0], y.self_b * scale[1]) - Math.max(x.self_a * scale[0], x.self_b * scale[1]));
		return made([`Self of ${names[0]}`, `Self of ${names[1]}`, `Total of ${names[0]}`, `Total of ${names[1]}`], all.map((r) => [r.function, r.mapping, text(r.self_a, 0), text(r.self_b, 1), text(r.total_a, 0), text(r.total_b, 1)]));
	}
	const share = (v: number) => `${((100 * Math.abs(v)) / (t.whole || 1)).toFixed(2)}%`, order = t.functions.name.map((_, f) => f).filter((f) => f && (t.fnSelf[f] || t.fnTotal[f])).sort((x, y) => Math.abs(t.fnSelf[y]) - Math.abs(t.fnSelf[x]) || Math.abs(t.fnTotal[y]) - Math.abs(t.fnTotal[x]));
	return made(['Self', '', 'Total', ''], order.map((f) => [t.functions.name[f], t.functions.mapping[f], value(t.fnSelf[f], t.unit), share(t.fnSelf[f]), value(t.fnTotal[f], t.unit), share(t.fnTotal[f])]));
}

export async function page(shown: Shown): Promise<Written> {
	const answer = await fetch('page.html').catch(() => undefined); // beside this script
	if (!answer?.ok) throw new Error(`the scraper, which has the viewer of pages, ${answer ? `answers ${answer.status}` : 'does not answer'}`);
	const { trees, isRelative, scale } = shown, whole = wholeUnit(trees), own: [number, number] = isRelative ? [(MILLION * scale[0]) / whole.factor, (MILLION * scale[1]) / whole.factor] : scale;
	const tree = protobuf({ ...shown, scale: own }, isRelative ? { ...whole, unit: SHARES } : whole), facts = JSON.stringify(about(shown, own, whole.factor)).replace(/</g, '\\u003c');
	let frame = await answer.text();
	const put = (where: string, text: string) => {
		const [before, after, ...more] = frame.split(where);
		if (after === undefined || more.length) throw new Error(`the frame of pages has ${more.length + (after === undefined ? 0 : 1)} places like ${where}`);
		frame = before + text + after;
	};
	put('<title></title>', `<title>${escape(titleOf(shown))}</title>`);
	put('id="about">{}</script>', `id="about">${facts}</script>`);
	put('id="tree"></script>', `id="tree">${base64(tree)}</script>`);
	put('<div id="plain">\n</div>', `<div id="plain">\n${picture(shown, PLAIN_LEAST)}${table(shown)}</div>`);
	return { parts: [frame], left: whole.left };
}
