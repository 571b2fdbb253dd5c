// SPDX-License-Identifier: Apache-2.0
//
// What the Export menu has for files: the formats that the scraper answers with, made here. Who saves is told what a format cannot hold.
import { notify, save } from '../dom';
import type { MenuItem } from '../popover';
import type { Format } from './write';

const FORMATS: [format: Format, suffix: string, label: string, ofTwo?: string][] = [
	['pprof', 'pb.gz', 'pprof', 'pprof (opens as a difference)'], ['folded', 'folded', 'Folded stacks', 'Folded stacks, two columns'], ['speedscope', 'speedscope.json', 'speedscope', 'speedscope, two profiles'],
	['svg', 'svg', 'Picture (SVG)'], ['page', 'html', 'Page (HTML)'], ['json', 'json', 'Arrays (JSON)'],
];
const SUFFIXES = /\.(?:gz|pb|pprof|prof|folded|txt|speedscope|json|cpuprofile|html?)$/i;

/** What a saved file is called, without suffix: what it is of and which values. */
export function savedName(names: string[], type: string): string {
	const plain = (name: string): string => (SUFFIXES.test(name) && name.replace(SUFFIXES, '') ? plain(name.replace(SUFFIXES, '')) : name);
	return [...names.slice().reverse().map(plain).join('-against-').split(/[^\p{L}\p{N}._]+/u), ...type.split(/[^\p{L}\p{N}._]+/u)].filter(Boolean).join('-');
}

export function exportMenu(name: string, isDiff: boolean, make: (format: Format) => Promise<{ saved: Blob; left: string[] }>): MenuItem[] {
	return FORMATS.map(([format, suffix, label, ofTwo]) => ({ label: (isDiff && ofTwo) || label, hint: suffix, pick: () => {
		const file = `${name}.${suffix}`;
		void make(format).then(({ saved, left }) => {
			save(file, saved);
			if (left.length) notify(`${file} is without ${left.join(', ')}: the format has no place for that`);
		}, (e: Error) => e.name === 'AbortError' || notify(`${file} is not saved: ${e.message}`));
	} }));
}
