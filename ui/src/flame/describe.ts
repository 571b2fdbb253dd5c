// SPDX-License-Identifier: Apache-2.0
//
// What stands in the box beside the pointer, of a frame whose page has no words of its own for it.
import { h } from '../dom';
import { languageOf, languageTitle } from '../mappings';
import { percent, value } from '../units';
import { nodeName } from './draw';
import type { Functions, Tree } from './tree';

export function tipRow(label: string, ...text: string[]): Node {
	return h('tr', {}, h('th', {}, label), text.map((t) => h('td', { class: 'num' }, t)));
}

export const BUILD_DIGITS = 12;
const MAX_BUILDS = 4;
const SILENT = new Set(['native', 'root', 'cut']); // kinds that say nothing more

/** The binary of a function with the builds that its code is of. */
export function moduleOf({ mapping, builds }: Functions, f: number): string {
	const ids = builds?.[f]?.split(', ') ?? [];
	const shown = ids.filter(Boolean).slice(0, MAX_BUILDS).map((id) => id.slice(0, BUILD_DIGITS));
	if (!shown.length) return mapping[f];
	return `${mapping[f]} (${ids.length > 1 ? 'builds' : 'build'} ${shown.join(', ')}${ids.length > MAX_BUILDS ? ` and ${ids.length - MAX_BUILDS} more` : ''})`;
}

/** "Python" of what its interpreter runs, "Java, jit" of what a compiler made of it. */
export function codeText(mapping: string, kind: string): string {
	const language = languageTitle(languageOf(mapping));
	return language ? [language, kind === 'interpreter' ? '' : kind].filter(Boolean).join(', ') : SILENT.has(kind) ? '' : kind;
}

export function describe(t: Tree, i: number): Node[] {
	const f = t.fn[i], kind = t.kinds[t.kind[i]] ?? '', place = [t.functions.file[f] && `${t.functions.file[f]}${t.line[i] ? `:${t.line[i]}` : ''}`, [moduleOf(t.functions, f), codeText(t.functions.mapping[f], kind)].filter(Boolean).join(' · ')].filter(Boolean);
	return [h('strong', { class: 'mono' }, nodeName(t, i)), ...place.map((text) => h('div', { class: 'muted path' }, text as string)),
		h('table', {}, h('tr', {}, h('th', {}), h('td', { class: 'muted' }, t.unit === 'nanoseconds' ? 'time' : t.unit), h('td', { class: 'muted' }, 'of all'), h('td', { class: 'muted' }, 'of parent')),
			tipRow('total', value(t.total[i], t.unit), percent(t.total[i] / t.whole), i ? percent(t.total[i] / t.total[t.parent[i]]) : '–'),
			tipRow('self', value(t.self[i], t.unit), percent(t.self[i] / t.whole), i ? percent(t.self[i] / t.total[t.parent[i]]) : '–')),
		h('div', { class: 'muted' }, i && !t.cut.has(i) ? 'Click zooms; right click or … has callers, lines and more' : 'Click zooms')];
}
