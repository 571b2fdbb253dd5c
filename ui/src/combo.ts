// SPDX-License-Identifier: Apache-2.0
//
// A text field that completes: the list below it follows what is typed, arrow keys choose, Enter or Tab takes.
import { fill, h } from './dom';

export interface Suggestion {
	text: string; // shown
	hint?: string;
	insert?: string; // put in place of the word, default: text
}
export interface Suggestions {
	from: number; // where the word begins that a suggestion replaces
	list: Suggestion[];
}

const MOST = 60;
let lists = 0;

export function combo(input: HTMLInputElement, suggest: (text: string, caret: number) => Promise<Suggestions>, onPick?: (text: string) => void): HTMLElement {
	const id = `list-${++lists}`;
	const list = h('div', { class: 'combo-list', role: 'listbox', id, hidden: true });
	const box = h('div', { class: 'combo' }, input, list);
	let shown: Suggestions = { from: 0, list: [] }, at = -1, asked = 0;
	Object.entries({ role: 'combobox', 'aria-autocomplete': 'list', 'aria-controls': id, 'aria-expanded': 'false', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' })
		.forEach(([k, v]) => input.setAttribute(k, v));

	function close(): void {
		list.hidden = true;
		at = -1;
		input.setAttribute('aria-expanded', 'false');
		input.removeAttribute('aria-activedescendant');
	}
	function choose(i: number): void {
		at = i;
		[...list.children].forEach((el, k) => el.setAttribute('aria-selected', String(k === i)));
		const el = list.children[i] as HTMLElement | undefined;
		el?.scrollIntoView({ block: 'nearest' });
		if (el) input.setAttribute('aria-activedescendant', el.id);
	}
	function take(i: number): void {
		const s = shown.list[i], caret = input.selectionStart ?? input.value.length, insert = s.insert ?? s.text;
		input.value = input.value.slice(0, shown.from) + insert + input.value.slice(caret);
		input.setSelectionRange(shown.from + insert.length, shown.from + insert.length);
		close();
		onPick?.(input.value);
		if (/[={]$/.test(insert)) void ask();
	}
	async function ask(): Promise<void> {
		const mine = ++asked;
		let answer: Suggestions;
		try {
			answer = await suggest(input.value, input.selectionStart ?? input.value.length);
		} catch {
			answer = { from: 0, list: [] }; // completion is a help: the query itself will tell what is wrong
		}
		if (mine !== asked || document.activeElement !== input) return;
		shown = { from: answer.from, list: answer.list.slice(0, MOST) };
		fill(list, shown.list.map((s, i) => h('div', {
			role: 'option', class: 'combo-option', id: `${id}-${i}`, 'aria-selected': 'false',
			onpointerdown: (e) => {
				e.preventDefault();
				take(i);
			},
		}, h('span', {}, s.text), s.hint ? h('span', { class: 'hint' }, s.hint) : null)));
		at = -1;
		list.hidden = !shown.list.length;
		input.setAttribute('aria-expanded', String(!list.hidden));
	}

	input.addEventListener('input', () => void ask());
	input.addEventListener('focus', () => void ask());
	input.addEventListener('click', () => list.hidden && void ask());
	input.addEventListener('blur', close);
	input.addEventListener('keydown', (e) => {
		if (list.hidden) {
			if (e.key === 'ArrowDown') void ask();
			return;
		}
		if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
			const n = shown.list.length;
			choose((at + (e.key === 'ArrowDown' ? 1 : at < 0 ? 0 : -1) + n) % n);
		} else if ((e.key === 'Enter' && at >= 0) || (e.key === 'Tab' && (at >= 0 || shown.list.length === 1) && !e.shiftKey)) {
			take(Math.max(at, 0));
			e.stopImmediatePropagation();
		} else if (e.key === 'Escape') {
			close();
			e.stopPropagation();
		} else return;
		e.preventDefault();
	});
	return box;
}

/** Those that begin with the word, then those that hold it. */
export function matching(all: string[], word: string): Suggestion[] {
	const w = word.toLowerCase(), begins: string[] = [], holds: string[] = [];
	for (const s of all) {
		const at = s.toLowerCase().indexOf(w);
		if (at === 0) begins.push(s);
		else if (at > 0) holds.push(s);
	}
	return [...begins, ...holds].map((text) => ({ text }));
}
