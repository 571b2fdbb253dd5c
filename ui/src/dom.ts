// SPDX-License-Identifier: Apache-2.0
//
// Elements from code. Text is always a text node, so that names from outside stay text.

export type Child = Node | string | number | null | undefined | false | Child[];
type Handlers = { [K in keyof HTMLElementEventMap as `on${K}`]?: (e: HTMLElementEventMap[K]) => void };
export type Props = Handlers & { class?: string; style?: Record<string, string> } & Record<string, unknown>;

function apply(el: Element, props: Props): void {
	for (const [key, value] of Object.entries(props)) {
		if (value === undefined || value === null || value === false) continue;
		if (key.startsWith('on')) el.addEventListener(key.slice(2), value as EventListener);
		else if (key === 'style') {
			for (const [k, v] of Object.entries(value as Record<string, string>)) (el as HTMLElement).style.setProperty(k, v);
		} else if (key === 'value' || key === 'checked' || key === 'disabled' || key === 'hidden') {
			(el as unknown as Record<string, unknown>)[key] = value;
		} else el.setAttribute(key, value === true ? '' : String(value));
	}
}

export function append(el: Node, children: Child[]): void {
	for (const c of children) {
		if (c === null || c === undefined || c === false) continue;
		if (Array.isArray(c)) append(el, c);
		else el.appendChild(c instanceof Node ? c : document.createTextNode(String(c)));
	}
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
	const el = document.createElement(tag);
	append(el, children);
	apply(el, props);
	return el;
}

/** What takes the place of the focused element gets the focus. */
export function fill(el: Element, ...children: Child[]): void {
	const focused = document.activeElement, path: number[] = [];
	for (let e = focused; e && e !== el; e = e.parentElement) path.unshift(e.parentElement ? [...e.parentElement.children].indexOf(e) : -1);
	el.replaceChildren();
	append(el, children);
	if (!path.length || path[0] < 0) return;
	const next = path.reduce((e: Element | undefined, i) => e?.children[i], el);
	if (next?.tagName === focused!.tagName) (next as HTMLElement).focus({ preventScroll: true });
}

const SVG = 'http://www.w3.org/2000/svg';

/** Strokes of 24 × 24 icons. */
const ICONS = {
	refresh: 'M20 11a8 8 0 1 0-2.3 6M20 5v6h-6',
	clock: 'M12 7v5l3 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0',
	search: 'M16.5 16.5 21 21M18 10.5a7.5 7.5 0 1 1-15 0 7.5 7.5 0 0 1 15 0',
	close: 'M6 6l12 12M18 6 6 18',
	down: 'M6 9.5l6 6 6-6',
	plus: 'M12 5v14M5 12h14',
	download: 'M12 4v11m-5-5 5 5 5-5M5 20h14',
	link: 'M10 14a4.5 4.5 0 0 0 6.4 0l3-3A4.5 4.5 0 0 0 13 4.6l-1 1M14 10a4.5 4.5 0 0 0-6.4 0l-3 3A4.5 4.5 0 0 0 11 19.4l1-1',
	sun: 'M12 4V2m0 20v-2m8-8h2M2 12h2m13.700-5.7 1.4-1.4M4.900 19.100l1.4-1.4m0-11.4L4.900 4.900m14.200 14.200-1.4-1.4M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0',
	moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5',
	auto: 'M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0M12 3v18M12 7h5.5M12 12h8M12 17h5.5',
	help: 'M9.5 9.200a2.6 2.6 0 1 1 3.600 2.400c-.8.4-1.1.9-1.1 1.900M12 17v.1M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0',
	up: 'M6 14.5l6-6 6 6',
	swap: 'M7 4v14m-4-4 4 4 4-4M17 20V6m-4 4 4-4 4 4',
	more: 'M5 12h.01M12 12h.01M19 12h.01',
	code: 'M8 7l-5 5 5 5M16 7l5 5-5 5',
} as const;
export type Icon = keyof typeof ICONS;

export function icon(name: Icon): SVGElement {
	const svg = document.createElementNS(SVG, 'svg');
	const path = document.createElementNS(SVG, 'path');
	svg.setAttribute('viewBox', '0 0 24 24');
	svg.setAttribute('class', 'icon');
	svg.setAttribute('aria-hidden', 'true');
	path.setAttribute('d', ICONS[name]);
	svg.appendChild(path);
	return svg;
}

export function iconButton(name: Icon, label: string, onclick: (e: MouseEvent) => void, props: Props = {}): HTMLButtonElement {
	return h('button', { type: 'button', class: 'icon-button', title: label, 'aria-label': label, onclick, ...props }, icon(name));
}

/** A row of exclusive choices. */
export function segmented<T extends string>(label: string, choices: [T, string, string?][], chosen: T, pick: (value: T) => void): HTMLElement {
	return h('div', { class: 'segmented', role: 'group', 'aria-label': label }, choices.map(([value, text, title]) =>
		h('button', { type: 'button', title, 'data-value': value, 'aria-pressed': String(value === chosen), onclick: () => pick(value) }, text)));
}

let toast: HTMLElement | undefined;

/** A short message that goes by itself. */
export function notify(text: string): void {
	toast?.remove();
	toast = h('div', { class: 'toast', role: 'status' }, text);
	document.body.appendChild(toast);
	const mine = toast;
	setTimeout(() => mine.remove(), 2000 + 50 * text.length);
}

export async function copy(text: string, what: string, note = ''): Promise<void> {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		// Without a secure context there is no clipboard API.
		const area = h('textarea', { class: 'offscreen', 'aria-hidden': 'true' });
		area.value = text;
		document.body.appendChild(area);
		area.select();
		document.execCommand('copy');
		area.remove();
	}
	notify(`${what} copied${note && `. ${note}`}`);
}

export function save(name: string, blob: Blob): void {
	const a = h('a', { href: URL.createObjectURL(blob), download: name });
	a.click();
	setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}
