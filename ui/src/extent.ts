// SPDX-License-Identifier: Apache-2.0
//
// How far a function's text goes. Profiles know where it begins; its end is read off the indentation, which all formatters keep.

const MOST = 2000; // lines
const BY_INDENT = /\.(py|pyx|pyi|nim|hs|coffee)$/; // nothing closes a block there

const indentOf = (line: string) => line.search(/\S/);

/** The last line of the function that begins at line `start`, counted from 1; undefined where its end is not seen. */
export function lastLine(text: string[], start: number, file: string): number | undefined {
	const head = text[start - 1];
	if (!head?.trim()) return undefined;
	const base = indentOf(head), isOpen = !BY_INDENT.test(file);
	let last = start;
	if (isOpen && /\{.*\}\s*;?\s*$/.test(head)) return start; // all on one line
	for (let n = start + 1; n <= Math.min(text.length, start + MOST); n++) {
		const line = text[n - 1], indent = indentOf(line);
		if (indent < 0) continue;
		if (indent <= base && isOpen) {
			if (/^(#|\w+:)/.test(line)) continue; // of the preprocessor, a label: those stand at the left
			if (indent < base) return undefined; // what it is in ended
			if (/^\s*(\}|end\b)/.test(line)) return n;
			continue; // a brace on a line of its own
		}
		if (indent <= base && /^\s*#/.test(line)) continue;
		if (indent <= base && last > start && !/^\s*[)\]}]/.test(line)) return last; // what closes the parameters ends nothing
		last = n;
	}
	return !isOpen && last > start ? last : undefined;
}
