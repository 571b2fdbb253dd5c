// SPDX-License-Identifier: Apache-2.0
//
// The address is the state: a page reads it, a change writes it, and a shared link shows the same picture.
import { closePopover } from './popover';

/** Ends in '/': the route prefix, whatever proxy is in front, since all pages lie one level below it. Documents without an address have none. */
export const BASE = location.href.includes('/') ? new URL('.', location.href.split(/[?#]/)[0]).href : '';

export interface Page {
	readonly root: HTMLElement;
	/** What `now` was, unix seconds, when what is shown was asked for. Only of pages with a range. */
	readonly now?: number;
	/** What a link needs beside the address for the same picture elsewhere, and what it cannot hold. */
	shared?(p: URLSearchParams): { changes?: Changes; note?: string };
	/** The address changed, or a refresh is due. */
	update(params: URLSearchParams): void;
	leave(): void;
}
export type Changes = Record<string, string | string[] | null>;

/** `ranges`: suffixes of the parameters that hold its times. */
type Route = { title: string; make: () => Page; ranges?: string[] };

let routes: Record<string, Route> = {};
let current: { name: string; page: Page; isRefused: boolean } | undefined;
let shown: (name: string) => void = () => {};
let refused: (p: URLSearchParams, ranges: string[]) => Page | undefined;
let host: HTMLElement;

export function pageName(): string {
	return location.pathname.slice(new URL(BASE).pathname.length);
}

export function params(): URLSearchParams {
	return new URLSearchParams(location.search);
}

export function href(page: string, p: URLSearchParams | Record<string, string> = {}): string {
	const text = new URLSearchParams(p as Record<string, string>).toString();
	return BASE + page + (text ? `?${text}` : '');
}

export function changed(p: URLSearchParams, changes: Changes): URLSearchParams {
	const next = new URLSearchParams(p);
	for (const [key, value] of Object.entries(changes)) {
		next.delete(key);
		if (Array.isArray(value)) value.forEach((v) => next.append(key, v));
		else if (value !== null) next.set(key, value);
	}
	return next;
}

/** Writes parameters of this page; `replace` leaves no step in the history. */
export function set(changes: Changes, replace = false): void {
	go(href(pageName(), changed(params(), changes)), replace);
}

export function go(url: string, replace = false): void {
	if (url !== location.href) history[replace ? 'replaceState' : 'pushState'](null, '', url);
	show();
}

export function page(): Page | undefined {
	return current?.page;
}

function show(): void {
	const name = pageName() in routes ? pageName() : '';
	const instead = refused(params(), routes[name].ranges ?? []);
	if (current?.name !== name || instead || current.isRefused) {
		closePopover(); // it belongs to the page that is left
		current?.page.leave();
		current = { name, page: instead ?? routes[name].make(), isRefused: Boolean(instead) };
		host.replaceChildren(current.page.root);
		scrollTo(0, 0);
	}
	document.title = `${routes[name].title} · Sonde`;
	shown(name);
	current.page.update(params());
}

/** The page anew, for what is not in its address. */
export function again(): void {
	current?.page.leave();
	current = undefined;
	show();
}

export function ranges(): string[] {
	return routes[pageName()]?.ranges ?? [];
}

/** `refuse` makes what stands in the place of a page whose times are wrong. */
export function start(table: Record<string, Route>, into: HTMLElement, onShown: (name: string) => void, refuse: typeof refused): void {
	routes = table;
	host = into;
	shown = onShown;
	refused = refuse;
	addEventListener('popstate', show);
	document.addEventListener('click', (e) => {
		const a = (e.target as Element).closest?.('a');
		if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || a.target || a.hasAttribute('download')) return;
		const url = new URL(a.href);
		if (!url.href.startsWith(BASE) || !(url.pathname.slice(new URL(BASE).pathname.length) in routes)) return;
		e.preventDefault();
		go(url.href);
	});
	show();
}
