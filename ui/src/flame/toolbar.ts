// SPDX-License-Identifier: Apache-2.0
//
// The row above a flame graph: what is seen, the search, how the graph is drawn, what can be saved.
import { fill, h, icon, segmented } from '../dom';
import { MenuItem, menuButton } from '../popover';
import type { FlameAddress, Mode } from './address';
import { COLOURS } from './colours';
import type { SearchBox } from './search_box';
import type { Tree } from './tree';

const MODES: [Mode, string, string][] = [['flame', 'Graph', 'Flame graph alone'], ['both', 'Both', 'Table and flame graph side by side'], ['table', 'Table', 'Table alone (t)']];

export interface ToolbarState {
	isDiff: boolean; // it has colours of its own
	isNarrow: boolean; // the search has a line of its own
	isLocal: boolean; // no scraper answers
	tree: () => Tree | undefined;
	exports: () => (MenuItem | string | null)[];
}

export class FlameToolbar {
	readonly root = h('div', { class: 'toolbar' });

	constructor(private readonly address: FlameAddress, private readonly search: SearchBox) {}

	clear(): void {
		this.root.replaceChildren();
	}

	update(s: ToolbarState): void {
		const { address, search, root } = this, hadFocus = search.hasFocus;
		search.update();
		fill(root, segmented('View', MODES, address.mode, (mode) => address.show(mode)), s.isNarrow ? null : search.root, h('div', { class: 'spacer' }),
			menuButton('Options', 'How the graph is drawn', () => this.options(s)), menuButton([icon('download'), 'Export'], 'Save the answer', s.exports), s.isNarrow && search.root);
		if (hadFocus) search.focus();
	}

	private options(s: ToolbarState): (MenuItem | string)[] {
		const { address } = this, { isFlame, collapsing } = address, t = s.tree();
		const collapse = (label: string, what: string): MenuItem => ({ label, pressed: collapsing.includes(what), pick: () => address.toggleCollapse(what) });
		return ['Root', { label: 'On top (icicle)', pressed: !isFlame, pick: () => address.turn(false) }, { label: 'Below (flame)', hint: 'i', pressed: isFlame, pick: () => address.turn(true) },
			'Functions', { label: 'Whole names', hint: 'f', pressed: address.isWhole, pick: () => address.showWhole(!address.isWhole) },
			...(s.isLocal ? [] : [{ label: 'Split by build', pressed: address.isSplit, pick: () => address.set({ by_build: address.isSplit ? null : '1', at: null }) }]),
			...(s.isDiff ? [] : ['Colours by', ...COLOURS.map(([by, label]) => ({ label, pressed: t !== undefined && address.colourBy(t) === by, pick: () => address.set({ colour: by }) })),
				'Collapse', collapse('Direct recursion', 'recursion'), collapse('Chains of single calls', 'chains')])];
	}
}
