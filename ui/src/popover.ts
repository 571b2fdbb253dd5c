// SPDX-License-Identifier: Apache-2.0
//
// What opens below a button: menus and small forms. One at a time; Escape, a click elsewhere and leaving the focus close it.
import { Child, Props, append, h, icon } from './dom';

let closeOpen: (() => void) | undefined;

export function closePopover(): void {
	closeOpen?.();
}

export function openPopover(anchor: HTMLElement | { x: number; y: number }, content: HTMLElement, label: string): () => void {
	closePopover();
	const opener = document.activeElement as HTMLElement | null;
	const box = h('div', { class: 'popover', role: 'dialog', 'aria-label': label }, content);
	const outside = (e: Event) => {
		const target = e.target as Node;
		if (!box.contains(target) && !(anchor instanceof HTMLElement && anchor.contains(target))) close();
	};
	const key = (e: KeyboardEvent) => {
		// It stands behind the whole page: whoever tabs out of it goes on where it was opened.
		const all = [...box.querySelectorAll<HTMLElement>('input,button,select,a[href]')].filter((el) => el.checkVisibility());
		if (e.key === 'Tab' && (content.getAttribute('role') === 'menu' || all.indexOf(document.activeElement as HTMLElement) === (e.shiftKey ? 0 : all.length - 1))) close();
		if (e.key !== 'Escape') return;
		e.stopPropagation();
		close();
	};
	function close(): void {
		if (box.contains(document.activeElement)) opener?.focus({ preventScroll: true });
		box.remove();
		document.removeEventListener('pointerdown', outside, true);
		if (anchor instanceof HTMLElement) anchor.setAttribute('aria-expanded', 'false');
		closeOpen = undefined;
	}
	document.body.appendChild(box);
	place(box, anchor);
	document.addEventListener('pointerdown', outside, true);
	box.addEventListener('keydown', key);
	if (anchor instanceof HTMLElement) anchor.setAttribute('aria-expanded', 'true');
	closeOpen = close;
	box.querySelector<HTMLElement>('input,button,select,[tabindex]')?.focus({ preventScroll: true });
	return close;
}

/** Below its anchor, or above it where there is no room, inside the window. */
export function place(box: HTMLElement, anchor: HTMLElement | { x: number; y: number }): void {
	const r = anchor instanceof HTMLElement ? anchor.getBoundingClientRect() : { left: anchor.x, right: anchor.x, top: anchor.y, bottom: anchor.y };
	const width = box.offsetWidth, height = box.offsetHeight;
	let top = r.bottom + 4;
	if (top + height > innerHeight - 8 && r.top - height - 4 > 8) top = r.top - height - 4;
	box.style.left = `${Math.max(8, Math.min(r.left, document.documentElement.clientWidth - width - 8)) + scrollX}px`;
	box.style.top = `${Math.max(8, top) + scrollY}px`;
}

export interface MenuItem {
	label: string;
	hint?: string;
	href?: string;
	download?: string;
	pressed?: boolean;
	pick?: () => void;
}

/** A list that arrow keys walk through; null is a line between groups, a string a heading. */
export function menu(items: (MenuItem | string | null)[]): HTMLElement {
	const list = h('div', { class: 'menu', role: 'menu' });
	for (const item of items) {
		if (item === null) append(list, [h('hr')]);
		else if (typeof item === 'string') append(list, [h('div', { class: 'menu-heading' }, item)]);
		else append(list, [menuEntry(item)]);
	}
	list.addEventListener('keydown', (e) => {
		const step = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
		if (!step) return;
		const all = [...list.querySelectorAll<HTMLElement>('.menu-item')];
		const at = all.indexOf(document.activeElement as HTMLElement);
		all[(at + step + all.length) % all.length]?.focus();
		e.preventDefault();
	});
	return list;
}

function menuEntry(item: MenuItem): HTMLElement {
	const children: Child[] = [h('span', {}, item.label), item.hint ? h('span', { class: 'hint' }, item.hint) : null];
	const props: Props = { class: 'menu-item', role: item.pressed === undefined ? 'menuitem' : 'menuitemradio' };
	if (item.pressed !== undefined) props['aria-checked'] = String(item.pressed);
	const done = () => {
		closePopover();
		item.pick?.();
	};
	if (item.href !== undefined)
		return h('a', { ...props, href: item.href, download: item.download ?? '', onclick: () => setTimeout(closePopover) }, ...children);
	return h('button', { ...props, type: 'button', onclick: done }, ...children);
}

export function menuButton(label: Child, name: string, items: () => (MenuItem | string | null)[], props: Props = {}): HTMLButtonElement {
	const button: HTMLButtonElement = h('button', { type: 'button', class: 'button', 'aria-haspopup': 'menu', 'aria-expanded': 'false', title: name, ...props,
		onclick: () => {
			if (button.getAttribute('aria-expanded') === 'true') closePopover();
			else openPopover(button, menu(items()), name);
		} }, label, icon('down'));
	return button;
}
