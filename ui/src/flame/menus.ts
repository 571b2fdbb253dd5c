// SPDX-License-Identifier: Apache-2.0
//
// What a right click, a long press or `m` offers on a frame or a function.
import { copy } from '../dom';
import { shownName } from '../names';
import { MenuItem, menu, openPopover } from '../popover';
import { FlameAddress, exactly } from './address';
import { nodeName } from './draw';
import type { Place, Source } from './source';
import { Tree, pathOf } from './tree';

const HEADING = 56; // letters

function heading(whole: string): string {
	const name = shownName(whole);
	return name.length > HEADING ? `${name.slice(0, HEADING - 1)}…` : name;
}

export class FlameMenus {
	constructor(private readonly address: FlameAddress, private readonly source: () => Source, private readonly zoom: { can(t: Tree): boolean; to(node: number): void }) {}

	ofFrame(t: Tree, node: number, at: Place): void {
		const items: (MenuItem | string | null)[] = [];
		if (this.zoom.can(t)) items.push({ label: 'Zoom here', hint: 'Enter', pick: () => this.zoom.to(node) });
		if (node && !t.cut.has(node)) items.push(...this.items(t.functions.name[t.fn[node]]));
		if (node) items.push({ label: 'Copy the stack', pick: () => void copy(pathOf(t, node).join('\n'), 'Stack') });
		openPopover(at, menu([heading(nodeName(t, node)), ...items]), 'Frame');
	}

	ofFunction(name: string, at: Place): void {
		openPopover(at, menu([heading(name), ...this.items(name)]), 'Function');
	}

	private items(name: string): (MenuItem | string | null)[] {
		const exact = exactly(name), { address } = this, source = this.source();
		return [
			{ label: 'Callers and callees', hint: 's', pick: () => address.showSandwich(name, { view: address.mode === 'table' ? null : address.params.get('view') }) },
			{ label: 'Search for this name', pick: () => address.searchFor(name) },
			...(source.more?.(name) ?? []),
			...(source.local ? [] : ['Query again',
				{ label: 'Only stacks with it', hint: 'focus', pick: () => address.set({ focus: exact, at: null }) },
				{ label: 'Without stacks with it', hint: 'ignore', pick: () => address.set({ ignore: exact, at: null }) },
				{ label: 'Without this frame', hint: 'hide', pick: () => address.set({ hide: exact, at: null }) }]),
			null,
			{ label: 'Copy the name', hint: 'c', pick: () => void copy(name, 'Name') },
		];
	}
}
