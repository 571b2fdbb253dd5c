// SPDX-License-Identifier: Apache-2.0
//
// The frame of pages that show what the scraper is and does: asked for once, drawn anew as the address changes, asked again by a button.
import { Child, fill, h, iconButton } from '../dom';
import { Life, TYPING_MS } from '../life';
import { Panel } from '../panel';
import { Page, params, set } from '../router';
import { agoText } from '../time';

export abstract class StatusPage<T> implements Page {
	protected readonly head = h('div', { class: 'toolbar' });
	protected readonly panel: Panel;
	private readonly filterInput?: HTMLInputElement;
	private readonly controls = h('div', { class: 'controls' });
	private readonly count = h('span', { class: 'muted', role: 'status' });
	readonly root: HTMLElement;
	private answer?: T;
	protected readonly life = new Life();

	constructor(title: string, filterLabel?: string) {
		const typed = this.life.delay(TYPING_MS, () => set({ filter: this.filterInput!.value || null }, true));
		if (filterLabel) this.filterInput = h('input', { class: 'input filter', type: 'search', placeholder: filterLabel, 'aria-label': filterLabel, oninput: () => typed.start() });
		this.head.append(this.controls, ...(this.filterInput ? [this.filterInput] : []), this.count, h('div', { class: 'spacer' }), iconButton('refresh', 'Ask again', () => this.load(), { class: 'icon-button button' }));
		this.panel = new Panel('status', this.head);
		this.root = h('div', { class: 'page' }, h('h1', {}, title), this.panel.root);
	}

	protected abstract ask(signal: AbortSignal): Promise<T>;
	/** What stands left of the filter. */
	protected drawControls(_answer: T, _p: URLSearchParams): Child {
		return null;
	}
	/** The body and how much of it there is; null: the page said itself that there is nothing. */
	protected abstract draw(answer: T, p: URLSearchParams, filter: string): { body: Child; count?: string } | null;

	update(p: URLSearchParams): void {
		if (this.filterInput && document.activeElement !== this.filterInput) this.filterInput.value = p.get('filter') ?? '';
		if (this.answer) this.show();
		else this.load();
	}

	leave(): void {
		this.life.end();
		this.panel.leave();
	}

	protected load(): void {
		void this.panel.run((signal) => this.ask(signal), (answer) => {
			this.answer = answer;
			this.show();
		}, () => this.load());
	}

	protected show(): void {
		const p = params(), focused = focusPath(this.root), drawn = this.draw(this.answer!, p, (p.get('filter') ?? '').trim().toLowerCase());
		fill(this.controls, this.drawControls(this.answer!, p));
		this.count.textContent = drawn?.count ?? '';
		if (drawn) fill(this.panel.body, drawn.body);
		focused?.();
	}
}

/** Elements are made anew: the one that takes the place of the focused one gets the focus. */
function focusPath(root: HTMLElement): (() => void) | undefined {
	const key = (document.activeElement as HTMLElement | null)?.dataset?.key;
	if (!key || !root.contains(document.activeElement)) return undefined;
	return () => root.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/** Choices whose buttons keep the focus when the page is drawn anew. */
export function choices(label: string, list: [string, string, string?][], chosen: string, pick: (value: string) => void): HTMLElement {
	return h('div', { class: 'segmented', role: 'group', 'aria-label': label }, list.map(([v, text, title]) =>
		h('button', { type: 'button', title, 'data-key': `${label}/${v}`, 'data-value': v, 'aria-pressed': String(v === chosen), onclick: () => pick(v) }, text)));
}

export function labelChips(labels: Record<string, string>, marks: Record<string, string> = {}): HTMLElement {
	return h('span', { class: 'labels' }, Object.entries(labels).map(([name, v]) => h('span', { class: `label ${marks[name] ?? ''}` }, h('span', { class: 'label-name' }, `${name}=`), v || '""')));
}

export function badge(state: string): HTMLElement {
	return h('span', { class: `badge badge-${state}` }, state);
}

/** Of an RFC 3339 time; the scraper writes the year 1 or 1970 for never. */
export function since(text: string): string {
	const t = Date.parse(text) / 1e3;
	return t > 86400 ? agoText(Math.max(Date.now() / 1e3 - t, 0)) : 'never';
}

/** A table: class of the column, its title, and rows of cells. */
export function plainTable(columns: [string, string][], rows: Child[][], caption?: string): HTMLElement {
	return h('div', { class: 'wide' }, h('table', { class: 'plain' }, caption && h('caption', {}, caption), h('thead', {}, h('tr', {}, columns.map(([c, title]) => h('th', { class: c, scope: 'col' }, title)))),
		h('tbody', {}, rows.map((cells) => h('tr', {}, cells.map((cell, i) => h('td', { class: columns[i][0], 'data-title': columns[i][1] }, cell)))))));
}

/** Names and values below each other. */
export function factList(facts: [string, Child][]): HTMLElement {
	return h('dl', { class: 'fact-list' }, facts.map(([name, v]) => [h('dt', {}, name), h('dd', {}, v)]));
}
