// SPDX-License-Identifier: Apache-2.0
//
// What answers of this page lack, above it: the scraper says it in the header Sonde-Warnings.
import { fill, h } from './dom';

export const warnings = h('div', { class: 'warnings', role: 'status', hidden: true });

const said = new Map<string, string>(); // by what was asked, so that a later answer takes an earlier one's back

function draw(): void {
	const texts = new Set([...said.values()].flatMap((text) => text.split('; ')));
	warnings.hidden = !texts.size;
	fill(warnings, [...texts].map((text) => h('p', {}, text)));
}

/** The header of an answer; null: nothing is missing from it. */
export function warn(path: string, header: string | null): void {
	if (header === (said.get(path) ?? null)) return;
	if (header) said.set(path, header);
	else said.delete(path);
	draw();
}

/** The address has changed: all is asked again. */
export function forgetWarnings(): void {
	if (!said.size) return;
	said.clear();
	draw();
}
