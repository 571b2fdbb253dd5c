// SPDX-License-Identifier: Apache-2.0
//
// From when to when, and how often it is asked again.
import { fill, h, icon, iconButton } from './dom';
import { TIME_EXAMPLES, instant, isRelative, relative, split, stretch } from './instant';
import { closePopover, menu, openPopover } from './popover';
import { Changes } from './router';
import { PRESETS, Range, rangeText, readRange, resolve, timeText } from './time';
import { zoneText } from './zone';

const REFRESH: [string, string][] = [['', 'Off'], ['5', 'Every 5 s'], ['15', 'Every 15 s'], ['60', 'Every minute'], ['300', 'Every 5 minutes']];

export class RangePicker {
	readonly root = h('div', { class: 'range-picker', role: 'group', 'aria-label': 'Time range' });
	private range: Range = { start: 'now-1h', end: 'now' };
	private timer = 0;

	constructor(private readonly set: (c: Changes) => void, private readonly refresh?: () => void, private readonly suffix = '') {}

	update(p: URLSearchParams): void {
		this.range = readRange(p, this.suffix);
		const every = this.refresh ? Number(p.get('refresh') ?? 0) : 0;
		const button: HTMLButtonElement = h('button', { type: 'button', class: 'button range', 'aria-haspopup': 'dialog', title: this.exactly(), onclick: () => this.open(button) }, icon('clock'), rangeText(this.range), icon('down'));
		fill(this.root, h('div', { class: 'joined' },
			h('button', { type: 'button', class: 'button', title: 'Earlier', 'aria-label': 'Earlier', onclick: () => this.shift(-0.5) }, '‹'), button,
			h('button', { type: 'button', class: 'button', title: 'Later', 'aria-label': 'Later', onclick: () => this.shift(0.5) }, '›'),
			h('button', { type: 'button', class: 'button', title: 'Zoom out', 'aria-label': 'Zoom out', onclick: () => this.zoomOut() }, '−')),
			this.refresh && this.refreshButtons(every));
		clearInterval(this.timer);
		if (every > 0 && isRelative(this.range.end)) this.timer = window.setInterval(() => document.hidden || this.refresh!(), every * 1e3);
	}

	leave(): void {
		clearInterval(this.timer);
	}

	private refreshButtons(every: number): HTMLElement {
		const choose: HTMLButtonElement = h('button', { type: 'button', class: `button${every ? ' is-on' : ''}`, title: 'Auto-refresh', 'aria-label': 'Auto-refresh', 'aria-haspopup': 'menu',
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

	/** In full, with the zone. */
	private exactly(): string {
		const { start, end } = resolve(this.range);
		return start < end ? `${timeText(start)} – ${timeText(end)} ${zoneText(end)}` : rangeText(this.range);
	}

	private open(anchor: HTMLElement): void {
		const written = (text: string) => {
			const t = instant(text, Date.now() / 1e3);
			return isRelative(text) || Number.isNaN(t) ? text : timeText(t);
		};
		const from = timeField('From', written(this.range.start)), to = timeField('To', written(this.range.end));
		const problem = h('p', { class: 'problem', role: 'alert', hidden: true }), meant = h('p', { class: 'meant muted num', role: 'status' });
		// Either field takes a whole range.
		const read = () => {
			const now = Date.now() / 1e3, both = split(from.value, now) ?? split(to.value, now) ?? [from.value, to.value];
			return { texts: both, ...stretch(both[0], both[1], now) };
		};
		const preview = () => {
			const { start, end } = read();
			problem.hidden = true;
			meant.textContent = start < end ? `${timeText(start)} – ${timeText(end)} ${zoneText(end)}` : '';
		};
		const apply = (e: Event) => {
			e.preventDefault();
			const { texts, start, end } = read(), bad = Number.isNaN(start) ? 'From' : Number.isNaN(end) ? 'To' : '';
			problem.hidden = start < end;
			problem.textContent = bad ? `${bad} is no time: write ${TIME_EXAMPLES}, or a range as 10:05-10:10.` : 'From must be before To.';
			if (!(start < end)) return;
			closePopover();
			this.write(relative(texts[0]) ?? String(start), relative(texts[1]) ?? String(end));
		};
		openPopover(anchor, h('div', { class: 'range-form' },
			h('form', { onsubmit: apply, oninput: preview }, h('label', {}, 'From', from), h('label', {}, 'To', to), problem, meant, h('button', { class: 'button primary' }, 'Apply'), h('p', { class: 'muted' }, `As ${TIME_EXAMPLES}; a range as 10:05-10:10.`)),
			menu(PRESETS.map(([start, label]) => ({ label, pressed: this.range.start === start && this.range.end === 'now', pick: () => this.write(start, 'now') })))), 'Time range');
		preview();
	}
}

/** Its text is selected when it gets the focus, so that what is typed replaces it. */
function timeField(label: string, value: string): HTMLInputElement {
	const input = h('input', { class: 'input', value, 'aria-label': label, autocomplete: 'off', onfocus: () => input.select(), onmousedown: (e) => {
		if (document.activeElement === input) return;
		e.preventDefault(); // else the click puts the caret where it was, and nothing is selected
		input.focus();
	} });
	return input;
}
