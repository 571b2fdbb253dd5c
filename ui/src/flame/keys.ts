// SPDX-License-Identifier: Apache-2.0
//
// Keys of a page with a flame graph, those that nobody else wanted; in a field only the one that leads to the search.
import { copy } from '../dom';
import { FlameAddress, NO_SANDWICH } from './address';
import type { FlamePicture } from './picture';
import type { SearchBox } from './search_box';

export class FlameKeys {
	constructor(private readonly address: FlameAddress, private readonly picture: FlamePicture, private readonly search: SearchBox) {}

	heard(e: KeyboardEvent): void {
		const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test((e.target as HTMLElement).tagName), isFind = (e.ctrlKey || e.metaKey) && e.key === 'f';
		if (e.defaultPrevented || !this.picture.tree || (isTyping && !isFind)) return;
		const act = isFind || e.key === '/' ? () => this.search.select() : e.ctrlKey || e.metaKey || e.altKey ? undefined : this.actions()[e.key];
		if (!act) return;
		act();
		e.preventDefault();
	}

	private actions(): Record<string, () => void> {
		const { address, search } = this, { tree, node } = this.picture.chosen;
		const name = node > 0 || (node === 0 && tree !== this.picture.tree) ? tree.functions.name[tree.fn[node]] : undefined;
		return {
			'0': () => address.set({ at: null, ...NO_SANDWICH }),
			i: () => address.turn(!address.isFlame),
			t: () => address.show(address.mode === 'table' ? 'both' : 'table'),
			f: () => address.showWhole(!address.isWhole),
			n: () => search.step(1),
			N: () => search.step(-1),
			s: () => name && address.showSandwich(address.sandwich === name ? null : name),
			c: () => name && void copy(name, 'Name'),
			Escape: () => address.back(),
		};
	}
}
