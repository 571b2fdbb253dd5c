// SPDX-License-Identifier: Apache-2.0
//
// A function's cell in a table: its name, and behind it what distinguishes it from others of that name.
import { h } from '../dom';
import { shownName } from '../names';
import { BUILD_DIGITS, moduleOf } from './describe';
import { Functions, baseName } from './tree';

export interface Named {
	function: string;
	file?: string;
	mapping: string;
	build?: string; // of a row that is of one build
}

const keyOf = (r: Named) => `${r.function}\0${r.file ?? ''}\0${r.mapping}`;

export class FunctionCells {
	private names = new Map<string, number>(); // how many rows have it
	private modules = new Map<string, string>(); // per function of the graph: its binary with its builds

	show(rows: Named[], of?: Functions): void {
		this.names = new Map();
		for (const r of rows) this.names.set(r.function, (this.names.get(r.function) ?? 0) + 1);
		this.modules = new Map(of?.name.map((name, f) => [keyOf({ function: name, file: of.file[f], mapping: of.mapping[f] }), moduleOf(of, f)]));
	}

	cell(r: Named): HTMLElement {
		const module = r.build ? moduleOf({ name: [], file: [], mapping: [r.mapping], builds: [r.build] }, 0) : this.modules.get(keyOf(r)) ?? r.mapping;
		const others = [r.build?.slice(0, BUILD_DIGITS), r.mapping, r.file && baseName(r.file)].filter(Boolean).join(' ');
		return h('span', { class: 'function mono', title: [r.function, module, r.file].filter(Boolean).join('\n') }, shownName(r.function), this.names.get(r.function)! > 1 && h('span', { class: 'muted' }, `  ${others}`));
	}
}
