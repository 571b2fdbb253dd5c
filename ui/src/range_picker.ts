// SPDX-License-Identifier: Apache-2.0
//
// From when to when, and how often it is asked again.
import { fill, h, icon, iconButton } from './dom';
import { closePopover, menu, openPopover } from './popover';
import { Changes } from './router';
import { PRESETS, Range, instant, isRelative, rangeText, readRange, resolve, timeText } from './time';

const REFRESH: [string, string][] = [['', 'Off'], ['5', 'Every 5 s'], ['15', 'Every 15 s'], ['60', 'Every minute'], ['300', 'Every 5 minutes']];

export class RangePicker {
	readonly root = h('div', { class: 'range-picker', role: 'group', 'aria-label': 'Time range' });
	private range: Range = { start: 'now-1h', end: 'now' };
	private timer = 0;

	constructor(private readonly set: (c: Changes) => void, private readonly refresh?: () => void, private readonly suffix = '') {}

	update(p: URLSearchParams): void {
		this.range = readRange(p, this.suffix);
		const every = this.refresh ? Number(p.get('refresh') ?? 0) : 0;
		const button: HTMLButtonElement = h('button', { type: 'button', class: 'button range', 'aria-haspopup': 'dialog', onclick: () => this.open(button) }, icon('clock'), rangeText(this.range), icon('down'));
		fill(this.root, h('div', { class: 'joined' },
			h('button', { type: 'button', class: 'button', title: 'Earlier', 'aria-label': 'Earlier', onclick: () => this.shift(-0.5) }, '‹'), button,
			h('button', { type: 'button', class: 'button', title: 'Later', 'aria-label': 'Later', onclick: () => this.shift(0.5) }, '›'),
			h('button', { type: 'button', class: 'button', title: 'Twice the range', 'aria-label': 'Twice the range', onclick: () => this.zoomOut() }, '−')),
			this.refresh && this.refreshButtons(every));
		clearInterval(this.timer);
		if (every > 0 && isRelative(this.range.end)) this.timer = window.setInterval(() => document.hidden || this.refresh!(), every * 1e3);
	}

	leave(): void {
		clearInterval(this.timer);
	}

	private refreshButtons(every: number): HTMLElement {
		const choose: HTMLButtonElement = h('button', { type: 'button', class: `button${every ? ' is-on' : ''}`, title: 'Refresh by itself', 'aria-label': 'Refresh by itself', 'aria-haspopup': 'menu',
			onclick: () => openPopover(choose, menu(REFRESH.map(([s, label]) => ({ label, pressed: Number(s) === every, pick: () => this.set({ refresh: s || null }) }))), 'Refresh') },
			every ? REFRESH.find(([s]) => Number(s) === every)?.[1] ?? `${every} s` : '', icon('down'));
		return h('div', { class: 'joined' }, iconButton('refresh', 'Refresh', () => this.refresh!(), { class: 'button' }), choose);
	}

	private write(start: string, end: string): void {
		this.set({ [`start${this.suffix}`]: start, [`end${this.suffix}`]: end, [`seconds${this.suffix}`]: null });
	}

	private shift(share: number): void {
		const { start, end } = resolve(this.range), by = Math.round((end - start) * share);
		this.write(String(start + by), String(end + by));
	}

	private zoomOut(): void {
		const { start, end } = resolve(this.range), half = Math.round((end - start) / 2), now = Math.ceil(Date.now() / 1e3);
		this.write(String(start - half), String(Math.max(Math.min(end + half, now), end)));
	}

	private open(anchor: HTMLElement): void {
		const written = (text: string) => (isRelative(text) ? text : timeText(instant(text, 0)));
		const from = h('input', { class: 'input', value: written(this.range.start), 'aria-label': 'From' });
		const to = h('input', { class: 'input', value: written(this.range.end), 'aria-label': 'To' });
		const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
		const stored = (text: string) => (isRelative(text.trim()) ? text.replace(/\s/g, '') : String(instant(text, 0)));
		const apply = (e: Event) => {
			e.preventDefault();
			const now = Date.now() / 1e3, a = instant(from.value, now), b = instant(to.value, now);
			problem.hidden = a < b;
			if (Number.isNaN(a) || Number.isNaN(b)) problem.textContent = `${Number.isNaN(a) ? 'From' : 'To'} is no time: write now-1h or 2026-01-31 14:00.`;
			else problem.textContent = 'From must be before To.';
			if (!(a < b)) return;
			closePopover();
			this.write(stored(from.value), stored(to.value));
		};
		openPopover(anchor, h('div', { class: 'range-form' },
			h('form', { onsubmit: apply }, h('label', {}, 'From', from), h('label', {}, 'To', to), problem, h('button', { class: 'button primary' }, 'Apply')),
			menu(PRESETS.map(([start, label]) => ({ label, pressed: this.range.start === start && this.range.end === 'now', pick: () => this.write(start, 'now') })))), 'Time range');
	}
}
