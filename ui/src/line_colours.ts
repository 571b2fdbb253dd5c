// SPDX-License-Identifier: Apache-2.0
//
// Colours of lines over time. They follow from a line's label or id, so that neither a refresh nor another rank changes them.
import { hash } from './flame/colours';

const HUES = 20, SATURATION = 54;
const LIGHTNESS = { light: [43, 33, 55], dark: [66, 55, 77] };

export const N_COLOURS = HUES * LIGHTNESS.light.length;
const NEXT = [7, 13, 17, 23, 29, 31, 37, 43, 47, 53]; // from a colour that is taken, by the label; none has a divisor of their number, so that all are tried

/** One for each label, by its hash. Of two labels with the same the later one of the alphabet takes another that is free. */
export function lineColours(labels: string[], isDark: boolean): string[] {
	const steps = isDark ? LIGHTNESS.dark : LIGHTNESS.light, taken = new Set<number>(), at = new Map<string, number>();
	for (const label of [...new Set(labels)].sort()) {
		const x = hash(label), next = NEXT[Math.floor(x / N_COLOURS) % NEXT.length];
		let i = x % N_COLOURS;
		while (taken.has(i) && taken.size < N_COLOURS) i = (i + next) % N_COLOURS;
		taken.add(i);
		at.set(label, i);
	}
	return labels.map((label) => {
		const i = at.get(label)!;
		return `hsl(${((i % HUES) * 360) / HUES}, ${SATURATION}%, ${steps[Math.floor(i / HUES)]}%)`;
	});
}

const AREA = 62; // percent of the line's colour

/** For an area that stands on others: calmer than its edge, and as far from what is drawn behind it. */
export function areaColour(colour: string): string {
	return `color-mix(in srgb, ${colour} ${AREA}%, ${getComputedStyle(document.documentElement).getPropertyValue('--surface').trim()})`;
}

/** For the area below a line. */
export function translucent(colour: string): string {
	return colour.startsWith('#') ? `${colour}30` : colour.replace(/^hsl\((.*)\)$/, 'hsla($1, 0.19)');
}
