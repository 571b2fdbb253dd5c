// SPDX-License-Identifier: Apache-2.0
//
// What stands in the head of every page: colours and the list of keys.
import { fill, h, icon, iconButton } from './dom';
import { openPopover } from './popover';

type Theme = 'auto' | 'light' | 'dark';
const THEMES: Theme[] = ['auto', 'light', 'dark'];
const STORED = 'sonde.theme';
const KEYS: [string, string][] = [
	['0', 'the whole graph'], ['i', 'turn the graph over'], ['t', 'table or graph'], ['f', 'short or whole names'], ['/ or Ctrl-F', 'search'], ['n, N', 'next and previous match'],
	['arrows', 'from frame to frame'], ['Enter', 'zoom into the frame'], ['m', 'menu of the frame'], ['s', 'callers and callees'], ['c', 'copy the name'], ['Esc', 'one step back'], ['?', 'this list'],
];

let theme: Theme = 'auto';

/** Pages from disk may have no storage: the choice then lasts as long as the page. */
function stored(write?: Theme): string | null {
	try {
		if (write) localStorage.setItem(STORED, write);
		return localStorage.getItem(STORED);
	} catch {
		return null;
	}
}

function apply(): void {
	if (theme === 'auto') delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = theme;
	document.dispatchEvent(new CustomEvent('sonde-theme'));
}

/** What a link says of it: nothing where the system decides. */
export function sharedTheme(): string | null {
	return theme === 'auto' ? null : theme;
}

/** Applies what the address asks for, else what was chosen; tells of changes by `sonde-theme`. A choice goes before the address: `forget` takes it out. */
export function themeButton(asked: string | null, forget: () => void): HTMLElement {
	const box = h('span'), draw = () => {
		const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
		fill(box, iconButton(theme === 'auto' ? 'auto' : theme === 'dark' ? 'moon' : 'sun', `Colours: ${theme === 'auto' ? 'as the system' : theme}`, () => {
			theme = next;
			stored(theme);
			forget();
			apply();
			draw();
		}, { class: 'icon-button theme' }));
	};
	theme = THEMES.find((t) => t === asked) ?? THEMES.find((t) => t === stored()) ?? 'auto';
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
	apply();
	draw();
	return box;
}

export function shareButton(title: string): HTMLElement {
	return h('button', { type: 'button', class: 'button share', title, 'aria-label': 'Share', onclick: () => document.dispatchEvent(new CustomEvent('sonde-share')) }, icon('link'), h('span', {}, 'Share'));
}

export function keysButton(): HTMLElement {
	const show = () => openPopover(button, h('div', { class: 'keys', tabindex: '-1' }, h('h3', {}, 'Keys'), h('dl', {}, KEYS.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)]))), 'Keys');
	const button: HTMLButtonElement = iconButton('help', 'Keys (?)', show);
	document.addEventListener('keydown', (e) => {
		if (e.key === '?' && !/^(INPUT|TEXTAREA|SELECT)$/.test((e.target as Element).tagName)) show();
	});
	return button;
}
