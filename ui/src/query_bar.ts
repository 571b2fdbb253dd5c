// SPDX-License-Identifier: Apache-2.0
//
// What is asked for: profile type, matchers (as parts or as text), groups, filters of frames.
import { ProfileType, Query, recall } from './api';
import { Suggestions, combo, matching } from './combo';
import { Child, fill, h, icon, iconButton } from './dom';
import { closePopover, menu, openPopover } from './popover';
import { Changes, params, set } from './router';
import { Matcher, OPS, Op, Selector, parse, print, quote } from './selector';

export const FILTERS: [string, string, string][] = [
	['focus', 'Focus', 'only stacks with a frame that matches'],
	['ignore', 'Ignore', 'no stacks with a frame that matches'],
	['hide', 'Hide', 'without the frames that match'],
	['show', 'Show', 'only the frames that match'],
	['show_from', 'Show from', 'from the first frame that matches on'],
];

export interface BarState {
	query: string;
	groupBy: string[];
	filters: [string, string][];
	range: () => Query; // start and end of what completion looks at
}

export function readFilters(p: URLSearchParams): [string, string][] {
	return FILTERS.flatMap(([name]) => (p.get(name) ? [[name, p.get(name)!] as [string, string]] : []));
}

/** What else says which stacks are there and which frames are one: filters, and whether builds are apart. */
export function readFrames(p: URLSearchParams): [string, string][] {
	return [...readFilters(p), ...(p.get('by_build') === '1' ? [['by_build', '1'] as [string, string]] : [])];
}

/** Whether selectors are text: as a link says, else as was chosen. */
export function sharedText(): string | null {
	return params().get('text') ?? localStorage.getItem('sonde.text');
}

/** Matchers alone are of the type that is chosen. */
const withType = (text: string, type: string) => (text.startsWith('{') ? `${type}${text}` : text);

const nice = (type: string) => {
	const [name, sample, unit] = type.split(':');
	return unit ? `${name} · ${sample}` : type;
};

export class QueryBar {
	readonly root = h('div', { class: 'query-bar', role: 'group', 'aria-label': 'Query' });
	private state: BarState = { query: '', groupBy: [], filters: [], range: () => [] };
	private types: ProfileType[] = [];
	private isText = false;
	private drawn = '';

	/** `suffix` makes the parameters of one side of a comparison. */
	constructor(private readonly set: (c: Changes) => void, private readonly suffix = '', private readonly withFilters = true, private readonly withGroups = true) {}

	update(state: BarState, types: ProfileType[]): void {
		this.state = state;
		this.types = types;
		this.isText = sharedText() === '1';
		const key = JSON.stringify([state.query, state.groupBy, state.filters, types.map((t) => t.id), this.isText]);
		if (key === this.drawn) return; // what is being typed stays
		this.drawn = key;
		this.draw();
	}

	private query(text: string): void {
		this.set({ [`query${this.suffix}`]: text });
	}

	private draw(): void {
		const s = parse(this.state.query);
		fill(this.root, this.typeSelect(s), this.isText || !s ? this.textField() : this.parts(s),
			h('button', { type: 'button', class: 'button quiet mode', 'aria-pressed': String(this.isText), title: 'Write the selector as text', onclick: () => {
				localStorage.setItem('sonde.text', this.isText ? '0' : '1');
				set({ text: null }, true);
				this.update(this.state, this.types);
				this.root.querySelector<HTMLElement>('.selector-text input')?.focus(); // what is typed next is meant for it
			} }, icon('code'), 'Edit as text'),
			this.withGroups && this.groups(s), this.withFilters && this.filters());
	}

	private typeSelect(s: Selector | null): HTMLElement {
		const ids = this.types.map((t) => t.id), chosen = s?.type ?? '';
		const select = h('select', { class: 'select type', 'aria-label': 'Profile type', onchange: () => this.query(print({ type: select.value, matchers: s?.matchers ?? [] })) },
			chosen && !ids.includes(chosen) ? h('option', { value: chosen }, `${nice(chosen)} (not in this range)`) : null,
			chosen ? null : h('option', { value: '' }, ids.length ? 'Profile type' : 'No profile types yet'),
			this.types.map((t) => h('option', { value: t.id, title: t.id }, `${nice(t.id)}`)));
		select.value = chosen;
		return select;
	}

	/* ---- matchers as parts ---- */

	private parts(s: Selector): HTMLElement {
		const without = (i: number) => ({ ...s, matchers: s.matchers.filter((_, k) => k !== i) });
		const field = h('div', { class: 'chips selector' }, s.matchers.map((m, i) => {
			const open = h('button', { type: 'button', class: 'chip-text', title: 'Change this matcher', onclick: () => this.edit(open, s, i) },
				h('span', { class: 'chip-name' }, m.name), h('span', { class: 'chip-op' }, m.op), h('span', { class: 'chip-value' }, m.value || '""'));
			return h('span', { class: 'chip' }, open, iconButton('close', `Remove ${m.name}`, () => this.query(print(without(i)))));
		}));
		const add: HTMLButtonElement = h('button', { type: 'button', class: 'button quiet add', onclick: () => this.edit(add, s, s.matchers.length) }, icon('plus'), s.matchers.length ? 'Label' : 'Select by label');
		field.append(add);
		return field;
	}

	private edit(anchor: HTMLElement, s: Selector, i: number): void {
		const old: Matcher = s.matchers[i] ?? { name: '', op: '=', value: '' };
		const name = h('input', { class: 'input', value: old.name, placeholder: 'label', 'aria-label': 'Label' });
		const op = h('select', { class: 'select', 'aria-label': 'Comparison' }, OPS.map(([o, text]) => h('option', { value: o }, `${o}  ${text}`)));
		const value = h('input', { class: 'input', value: old.value, placeholder: 'value', 'aria-label': 'Value' });
		op.value = old.op;
		const others = { ...s, matchers: s.matchers.filter((_, k) => k !== i) };
		const apply = () => {
			if (!name.value) return;
			const matchers = [...s.matchers];
			matchers[i] = { name: name.value, op: op.value as Op, value: value.value };
			closePopover();
			this.query(print({ ...s, matchers }));
		};
		const form = h('form', { class: 'matcher-form', onsubmit: (e) => {
			e.preventDefault();
			apply();
		} },
			combo(name, async (text, caret) => ({ from: 0, list: matching(await this.labelNames(others), text.slice(0, caret)) }), () => value.focus()), op,
			combo(value, async (text, caret) => ({ from: 0, list: matching(name.value ? await this.labelValues(name.value, others) : [], text.slice(0, caret)) })),
			h('button', { class: 'button primary' }, 'Apply'));
		openPopover(anchor, form, 'Matcher');
	}

	private async labelNames(s: Selector): Promise<string[]> {
		const names = await recall<string[]>('api/v1/labels', [['query', print(s)], ...this.state.range()]);
		return names.filter((n) => !n.startsWith('__'));
	}

	/** Of a label that a matcher already names: what could stand there instead. */
	private labelValues(name: string, s: Selector): Promise<string[]> {
		const others = { ...s, matchers: s.matchers.filter((m) => m.name !== name) };
		return recall<string[]>(`api/v1/label/${encodeURIComponent(name)}/values`, [['query', print(others)], ...this.state.range()]);
	}

	/* ---- the selector as text ---- */

	private textField(): HTMLElement {
		const write = () => this.query(withType(input.value.trim(), parse(this.state.query)?.type ?? ''));
		const input = h('input', { class: 'input selector mono', value: this.state.query, 'aria-label': 'Selector', placeholder: 'type{label="value"}', onkeydown: (e) => {
			if (e.key === 'Enter' && !e.defaultPrevented) write();
		}, onchange: write });
		return h('div', { class: 'selector-text' }, combo(input, (text, caret) => this.complete(text, caret)));
	}

	/** A type before the brace, then a name, an operator, a value, as the text up to the caret tells. */
	private async complete(text: string, caret: number): Promise<Suggestions> {
		const before = text.slice(0, caret), brace = before.indexOf('{');
		if (brace < 0) return { from: 0, list: this.types.map((t) => ({ text: t.id, insert: `${t.id}{` })).filter((s) => s.text.includes(before.trim())) };
		const type = before.slice(0, brace).trim(), base: Selector = { type, matchers: [] };
		const inValue = /(?:^|[{,])\s*("?[\w.]+"?)\s*(?:=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*|)$/.exec(before);
		if (inValue) {
			const values = await this.labelValues(inValue[1].replace(/"/g, ''), base), from = caret - inValue[2].length;
			const rest = text.slice(caret).startsWith('"') ? (v: string) => quote(v).slice(0, -1) : quote;
			return { from, list: matching(values, inValue[2].slice(1)).map((s) => ({ ...s, insert: rest(s.text) })) };
		}
		const word = /[{,]\s*([\w.]*)$/.exec(before);
		if (!word) return { from: caret, list: [] };
		return { from: caret - word[1].length, list: matching(await this.labelNames(base), word[1]).map((s) => ({ ...s, insert: `${/^\w+$/.test(s.text) ? s.text : quote(s.text)}=` })) };
	}

	/* ---- groups and filters ---- */

	private groups(s: Selector | null): HTMLElement {
		const chosen = this.state.groupBy;
		const button: HTMLButtonElement = h('button', { type: 'button', class: `button quiet${chosen.length ? ' is-on' : ''}`, 'aria-haspopup': 'menu', onclick: async () => {
			const names = await this.labelNames(s ?? { type: '', matchers: [] }).catch(() => []);
			const toggle = (n: string) => this.set({ group_by: chosen.includes(n) ? chosen.filter((c) => c !== n) : [...chosen, n] });
			const items = [...new Set([...chosen, ...names])].map((n) => ({ label: n, pressed: chosen.includes(n), pick: () => toggle(n) }));
			if (!button.isConnected) return; // the page was left, or the bar was drawn anew
			openPopover(button, menu(['Group by', ...items, ...(chosen.length ? [null, { label: 'No groups', pick: () => this.set({ group_by: null }) }] : [])]), 'Group by');
		} }, chosen.length ? `By ${chosen.join(', ')}` : 'Group by', icon('down'));
		return button;
	}

	private filters(): Child {
		const chips = this.state.filters.map(([name, text]) => {
			const title = FILTERS.find(([n]) => n === name)![1];
			const open: HTMLButtonElement = h('button', { type: 'button', class: 'chip-text', title: 'Change this filter', onclick: () => this.editFilter(open, name, text) },
				h('span', { class: 'chip-op' }, title), h('span', { class: 'chip-value' }, text));
			return h('span', { class: 'chip filter' }, open, iconButton('close', `Remove ${title}`, () => this.set({ [name]: null })));
		});
		const add: HTMLButtonElement = h('button', { type: 'button', class: 'button quiet', 'aria-haspopup': 'menu', onclick: () => openPopover(add, menu(['Filter frames by a regular expression',
			...FILTERS.map(([name, title, hint]) => ({ label: title, hint, pick: () => this.editFilter(add, name, this.state.filters.find(([n]) => n === name)?.[1] ?? '') }))]), 'Filters') }, 'Filter frames', icon('down'));
		return [add, chips];
	}

	private editFilter(anchor: HTMLElement, name: string, text: string): void {
		const [, title, hint] = FILTERS.find(([n]) => n === name)!;
		const input = h('input', { class: 'input mono', value: text, placeholder: 'regular expression', 'aria-label': title });
		openPopover(anchor, h('form', { class: 'filter-form', onsubmit: (e) => {
			e.preventDefault();
			closePopover();
			this.set({ [name]: input.value || null });
		} }, h('label', {}, `${title}: ${hint}`), h('div', { class: 'row' }, input, h('button', { class: 'button primary' }, 'Apply'))), title);
	}
}
