// SPDX-License-Identifier: Apache-2.0
//
// In the place of a page whose address has times that cannot be read: says which, and takes others.
import { h } from '../dom';
import { Panel } from '../panel';
import { RangePicker } from '../range_picker';
import { Page, set } from '../router';
import { DEFAULT_RANGE, rangeProblem } from '../time';

export class BadRange implements Page {
	readonly root: HTMLElement;
	private readonly picker: RangePicker;

	private constructor(private readonly suffix: string, problem: string) {
		const panel = new Panel('range');
		this.picker = new RangePicker((c) => set(c), undefined, suffix);
		this.root = h('div', { class: 'page' }, h('div', { class: 'bars' }, this.picker.root), panel.root);
		panel.say('error', 'The time range is not understood', problem, ['Last hour', () => set({ [`start${suffix}`]: DEFAULT_RANGE.start, [`end${suffix}`]: DEFAULT_RANGE.end, [`seconds${suffix}`]: null })]);
	}

	/** undefined: all times of the address are right. */
	static of(p: URLSearchParams, suffixes: string[]): BadRange | undefined {
		for (const suffix of suffixes) {
			const problem = rangeProblem(p, suffix);
			if (problem) return new BadRange(suffix, problem);
		}
		return undefined;
	}

	update(p: URLSearchParams): void {
		if (rangeProblem(p, this.suffix)) this.picker.update(p);
	}

	leave(): void {
		this.picker.leave();
	}
}
