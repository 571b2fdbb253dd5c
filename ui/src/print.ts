// SPDX-License-Identifier: Apache-2.0
//
// A page on paper: light, as wide as a landscape sheet, graphs and tables whole. Drawings are no elements that follow a style, so each is told.

/** In CSS pixels: fits A4 and Letter in landscape with the margins that browsers have. */
export const SHEET = 960;
/** Rows of a table that are printed. */
export const PRINTED_ROWS = 100;

let printing = false;
let theme: string | undefined; // of the screen

export function isPrinting(): boolean {
	return printing;
}

/** Who is told first sets the colours for all. */
function begin(yes: boolean): void {
	const { dataset } = document.documentElement;
	if (yes === printing) return;
	printing = yes;
	if (yes) [theme, dataset.theme] = [dataset.theme, 'light'];
	else if (theme) dataset.theme = theme;
	else delete dataset.theme;
}

/** Until the signal, for what is drawn at once: the sheet is taken when the event is over. */
export function onPrint(signal: AbortSignal, draw: () => void): void {
	for (const [name, yes] of [['beforeprint', true], ['afterprint', false]] as const) addEventListener(name, () => {
		begin(yes);
		draw();
	}, { signal });
}
