// SPDX-License-Identifier: Apache-2.0
//
// What a page gives the panel of a flame graph: where the tree comes from, and what is special about it.
import type { Query } from '../api';
import type { MenuItem } from '../popover';
import type { Caption } from './caption';
import type { Palette } from './colours';
import type { Tree, Width } from './tree';

export interface Source {
	path: string; // of the answer
	local?: (signal: AbortSignal) => Tree | Promise<Tree>; // in place of an answer
	query: Query;
	options?: { width?: Width; scale?: [number, number] };
	paint?: (t: Tree, isWhole: boolean) => Palette; // else by the chosen colours
	panelTitle?: (t: Tree, node: number) => Node[]; // of a difference whose root's children each have a canvas of their own
	describe?: (t: Tree, node: number) => Node[];
	exports?: (MenuItem | string | null)[];
	more?: (name: string) => MenuItem[]; // of the menu of a function
	summary?: string;
	caption?: Caption; // of a picture that is saved
	side?: Side; // in place of the table of functions
	text?: (v: number) => string; // of the bars' widths
}

/** What stands beside the graph. */
export interface Side {
	root: HTMLElement;
	show(p: URLSearchParams, search: string, height: number, of: Tree, node: number): void; // what lies below a node of the graph
	csv(): string;
	print(): void;
	menu?: (name: string, at: Place) => void; // set by the panel
}

/** Of a pointer, in the window. */
export interface Place {
	x: number;
	y: number;
}
