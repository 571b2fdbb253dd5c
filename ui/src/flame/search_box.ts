// SPDX-License-Identifier: Apache-2.0
//
// The field that searches functions: how much of the graph matches, and the way from match to match.
import { h, icon, iconButton } from '../dom';
import { Life, TYPING_MS } from '../life';
import { integer, percent } from '../units';
import type { FlameAddress } from './address';
import { Found, search } from './search';
import type { Tree } from './tree';

export class SearchBox {
	private readonly input = h('input', { class: 'input', type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions by regular expression', title: 'A regular expression; n and N go from match to match' });
	private readonly share = h('span', { class: 'found', role: 'status' });
	readonly root = h('div', { class: 'search' }, icon('search'), this.input, this.share, iconButton('up', 'Previous match (N)', () => this.step(-1), { class: 'icon-button step' }), iconButton('down', 'Next match (n)', () => this.step(1), { class: 'icon-button step' }));
	found?: Found;
	private at = -1;

	constructor(private readonly address: FlameAddress, life: Life, private readonly on: { goTo(node: number): void; escape(): void }) {
		const typed = life.delay(TYPING_MS, () => address.set({ search: this.input.value || null }, true));
		this.input.addEventListener('input', () => typed.start());
		this.input.addEventListener('keydown', (e) => {
			if (e.key === 'Enter') this.step(e.shiftKey ? -1 : 1);
			if (e.key !== 'Escape') return;
			address.set({ search: null }, true);
			on.escape();
		});
	}

	get hasFocus(): boolean {
		return document.activeElement === this.input;
	}

	focus(): void {
		this.input.focus();
	}

	select(): void {
		this.input.focus();
		this.input.select();
	}

	/** What is being typed stays. */
	update(): void {
		if (!this.hasFocus) this.input.value = this.address.search;
	}

	run(t: Tree, text: (v: number) => string): Found | undefined {
		const wanted = this.address.search, found = (this.found = wanted ? search(t, wanted) : undefined);
		this.at = -1;
		if (!found) this.share.textContent = this.share.title = '';
		else {
			const isLeast = found.total < t.total[0] && t.cut.size > 0;
			this.share.textContent = `${isLeast ? '≥ ' : ''}${percent(found.total / t.whole)}${found.isLiteral ? ' (as text)' : ''}`;
			this.share.title = `${integer(found.count)} frames match; ${text(found.total)} in and below them${isLeast ? ', and in what is not loaded' : ''}`;
		}
		return found;
	}

	step(by: number): void {
		if (!this.found?.count) return;
		const nodes = this.found.nodes();
		this.at = (this.at + by + nodes.length) % nodes.length;
		this.on.goTo(nodes[this.at]);
		this.share.textContent = `${this.at + 1} of ${integer(nodes.length)}`;
	}
}
