// SPDX-License-Identifier: Apache-2.0
//
// A flame graph with all that is around it. This file says what follows from what: the address asks for an answer (answer.ts), of the
// answer comes the tree that is shown, of the tree the picture (picture.ts), the table and the lines around them.
import { fill, h, notify, save } from '../dom';
import { Life } from '../life';
import { chooseNames, shownName } from '../names';
import { Panel } from '../panel';
import type { MenuItem } from '../popover';
import { onPrint } from '../print';
import { advice } from '../selector';
import { value } from '../units';
import { FlameAddress, Write } from './address';
import { FlameAnswer } from './answer';
import { crumbs, facts, legend } from './around';
import { Palette, paint } from './colours';
import { Derive, derive } from './derive';
import { FunctionTable } from './function_table';
import { FlameKeys } from './keys';
import { deriveAside } from './load';
import { FlameMenus } from './menus';
import { FlamePicture } from './picture';
import { SearchBox } from './search_box';
import type { Source } from './source';
import { FlameToolbar } from './toolbar';
import { Tree, follow } from './tree';
import type { FlameView } from './view';

const NARROW = matchMedia('screen and (max-width: 900px)'); // as style.css has it
const LARGE = 50_000; // nodes: trees made of larger ones are made by the worker
const LEAST_ROWS = 274, AROUND = 286; // pixels: of the table, and of what the window shows beside it

export class FlamePanel {
	private readonly life = new Life();
	private readonly address: FlameAddress;
	private readonly search: SearchBox;
	private readonly toolbar: FlameToolbar;
	private readonly crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Zoom' });
	private readonly legend = h('div', { class: 'flame-legend' });
	private readonly facts = h('p', { class: 'facts' });
	private readonly tableSide = h('div', { class: 'table-side' });
	private readonly split = h('div', { class: 'flame-split' });
	private readonly panel: Panel;
	private readonly answer: FlameAnswer;
	private readonly picture: FlamePicture;
	private readonly menus: FlameMenus;
	private readonly table: FunctionTable;
	readonly root: HTMLElement;
	private revealed: string | null = null; // the function that was scrolled to
	private making = ''; // the key of what is being collapsed

	/** Pages from disk have no worker. */
	constructor(write: Write, private readonly hasWorker = true) {
		const address = (this.address = new FlameAddress(write));
		this.search = new SearchBox(address, this.life, { goTo: (node) => this.picture.goTo(node), escape: () => this.view.focus() });
		this.toolbar = new FlameToolbar(address, this.search);
		this.panel = new Panel('flame', this.toolbar.root, this.crumbs);
		this.root = this.panel.root;
		this.answer = new FlameAnswer(this.panel, address, { loaded: () => this.loaded(), subtree: () => this.apply(), functions: () => this.drawViews() });
		this.picture = new FlamePicture({
			address, source: () => this.answer.source, paint: (t) => this.paint(t), text: (v) => this.answer.text(v),
			derive: (...job) => this.derive(...job), again: () => this.apply(), menu: (t, node, at) => this.menus.ofFrame(t, node, at),
		});
		this.menus = new FlameMenus(address, () => this.answer.source!, { can: (t) => t === this.shown, to: (node) => this.picture.zoom(node) });
		this.table = new FunctionTable(address, (name, at) => this.menus.ofFunction(name, at));
		const keys = new FlameKeys(address, this.picture, this.search);
		this.onKey = (e) => keys.heard(e);
		this.tableSide.append(this.table.root);
		this.place();
		this.panel.body.append(this.split, this.legend, this.facts);
		this.life.listen(NARROW, 'change', () => this.place());
		this.life.listen(document, 'sonde-theme', () => this.repaint());
		onPrint(this.life.signal, () => this.print());
		(this.root as HTMLElement & { flame?: FlamePanel }).flame = this; // for measurements
	}

	readonly onKey: (e: KeyboardEvent) => void;

	leave(): void {
		this.life.end();
		this.answer.leave();
		this.picture.dispose();
		this.panel.leave();
	}

	update(source: Source, p: URLSearchParams): void {
		this.address.params = p;
		this.root.classList.remove('is-former');
		const isRenamed = chooseNames(p);
		const isThere = this.answer.ask(source);
		this.drawToolbar();
		if (isThere) this.apply();
		if (isThere && isRenamed) this.repaint();
	}

	/** The page asks for something else: until it says what, this is a former picture. */
	await(): void {
		this.root.classList.add('is-former');
	}

	/** The page will not say: its query has no answer. */
	unanswered(): void {
		if (this.root.classList.contains('is-former')) this.empty('No picture', 'The query above has no answer.');
	}

	/** Nothing to draw: says why. */
	empty(title: string, text: string): void {
		this.root.classList.remove('is-former');
		this.answer.forget();
		this.picture.clear();
		this.panel.leave();
		this.toolbar.clear();
		this.crumbs.replaceChildren();
		this.crumbs.hidden = true;
		this.panel.say('empty', title, text);
	}

	/* ---- from the answer to the tree that is shown ---- */

	private loaded(): void {
		this.making = '';
		this.picture.forget();
		if (this.answer.base!.tree.weight[0] > 0) {
			this.apply();
			return;
		}
		this.picture.clear();
		if (this.answer.source!.local) this.panel.say('empty', 'Nothing to draw', 'All values of this sample type are 0.');
		else this.panel.say('empty', 'No profiles here', advice(this.answer.source!.query.find(([name]) => name === 'query')?.[1] ?? ''));
	}

	private apply(): void {
		const { address, answer, picture } = this, { collapsing } = address;
		if (!answer.isThere || !(answer.base!.tree.weight[0] > 0)) return;
		const tree = answer.treeFor(address.path), key = `${address.shapeKey} ${answer.keyOf(tree)}`;
		if (key === picture.shownKey || key === this.making) {
			if (key === picture.shownKey) this.arrange(false);
			return;
		}
		this.making = key;
		const show = (t: Tree) => {
			if (this.making !== key) return;
			this.making = '';
			picture.show(t, key);
			this.arrange(true);
		};
		if (!collapsing.length || tree.sides) show(tree);
		else this.derive(tree, [{ what: 'collapsed', recursion: collapsing.includes('recursion'), chains: collapsing.includes('chains') }], ([t]) => show(t), () => {
			this.making = '';
			this.apply();
		});
	}

	/** Large trees are made by the worker, so that the page goes on answering. */
	private readonly derive: Derive = (t, wanted, then, again) => {
		if (t.n < LARGE || !this.hasWorker) then(wanted.map((d) => derive(t, d)));
		else void this.panel.run((signal, progress) => {
			progress('Rearranging the graph…');
			return deriveAside(t, wanted, signal);
		}, then, again);
	};

	/** All that is around the tree that is shown. */
	private arrange(isNew: boolean): void {
		const { address, answer } = this, { path } = address, t = this.shown!, { node, found } = follow(t, path);
		this.panel.clear(); // what was cancelled is over
		this.view.zoomTo(node, !isNew);
		this.crumbs.hidden = !found;
		if (found) fill(this.crumbs, crumbs(path.slice(0, found), t, answer, address));
		this.drawSearch();
		this.drawViews();
		this.drawChosen();
		fill(this.facts, facts(answer));
		if (!address.collapsing.length) answer.completeBelow(path, t, node, found === path.length);
	}

	private paint(t: Tree): Palette {
		return this.answer.source!.paint?.(t, t === this.shown) ?? paint(t, this.address.colourBy(t));
	}

	/* ---- what is drawn ---- */

	/** What a window has above or left comes first for keys and for readers too. */
	private place(): void {
		this.split.append(...(NARROW.matches ? [this.picture.root, this.tableSide] : [this.tableSide, this.picture.root]));
		if (this.answer.source) this.drawToolbar();
	}

	private print(): void {
		if (!this.shown) return;
		this.picture.print();
		(this.answer.source!.side ?? this.table).print();
		fill(this.legend, legend(this.palette!, this.shown.whole, Boolean(this.answer.source!.paint)));
	}

	private repaint(): void {
		if (!this.shown || !this.answer.isThere) return; // what it derives would take the place of the load
		this.picture.repaint();
		this.drawViews();
	}

	private drawToolbar(): void {
		this.toolbar.update({ isDiff: Boolean(this.answer.source!.paint), isNarrow: NARROW.matches, isLocal: Boolean(this.answer.source!.local), tree: () => this.shown, exports: () => this.exports() });
	}

	private drawSearch(): void {
		this.picture.search(this.search.run(this.shown!, (v) => this.answer.text(v))?.matched);
		this.toolbar.root.classList.toggle('is-searching', Boolean(this.address.search));
	}

	private drawChosen(): void {
		const { chosen, sandwich } = this.address;
		this.picture.mark(chosen);
		if (chosen !== this.revealed && chosen !== null && sandwich === null) this.picture.reveal(chosen);
		this.revealed = chosen;
	}

	private drawViews(): void {
		const { mode } = this.address, { side } = this.answer.source!, { body } = this.panel;
		body.dataset.view = mode;
		body.dataset.side = side ? 'diff' : '';
		this.tableSide.hidden = mode === 'flame';
		this.picture.root.hidden = mode === 'table';
		this.picture.arrange();
		if (mode !== 'flame') this.drawTable();
		fill(this.legend, legend(this.palette!, this.shown!.whole, Boolean(this.answer.source!.paint)));
	}

	private drawTable(): void {
		const { side } = this.answer.source!, root = (side ?? this.table).root, height = Math.max(innerHeight - AROUND, LEAST_ROWS);
		if (this.tableSide.firstChild !== root) this.tableSide.replaceChildren(root);
		if (side) {
			side.menu = (name, at) => this.menus.ofFunction(name, at);
			side.show(this.address.params, this.address.search, height, this.shown!, this.zoomed);
		} else {
			this.answer.loadFunctions();
			this.table.show(this.shown!, this.zoomed, this.answer.functions, this.search.found, height);
		}
	}

	/** What the table is of. */
	private get zoomed(): number {
		return follow(this.shown!, this.address.path).node;
	}

	private exports(): (MenuItem | string | null)[] {
		const { exports, side } = this.answer.source!;
		if (!this.shown) return exports ?? [];
		return [...(exports ?? []), null, { label: 'Picture (PNG)', pick: () => void this.savePicture() },
			{ label: 'Table as shown (CSV)', pick: () => save(`${this.fileName}-functions.csv`, new Blob([(side ?? this.table).csv()], { type: 'text/csv' })) }];
	}

	private get fileName(): string {
		return this.answer.source!.caption?.name ?? 'flamegraph';
	}

	private async savePicture(): Promise<void> {
		const { answer, address: { path, sandwich } } = this, { caption, summary, text } = answer.source!, whole = answer.base!.tree.whole;
		const part = sandwich !== null ? `callers and callees of ${shownName(sandwich)}` : path.length ? `zoomed into ${path.map(shownName).join(' › ')}` : '';
		const blob = await this.picture.png([...(caption?.lines ?? []), text ? summary ?? '' : `${value(whole, this.shown!.unit)} in all`, part].filter(Boolean));
		if (blob) save(`${this.fileName}.png`, blob);
		else notify('The browser made no picture of the graph');
	}

	/* ---- for tests and for who wants to know ---- */

	get view(): FlameView {
		return this.picture.view;
	}

	/** After collapsing. */
	get shown(): Tree | undefined {
		return this.picture.tree;
	}

	get palette(): Palette | undefined {
		return this.picture.palette;
	}

	get firstPaintMs(): number {
		return this.answer.firstPaintMs;
	}

	/** How long frames took, how many bars they drew. */
	get timing(): { frames: number[]; drawn: { bars: number; narrowest: number }; decodeMs: number; nodes: number } {
		return { frames: this.view.frameTimes, drawn: this.view.painter.drawn, decodeMs: this.answer.base?.decodeMs ?? 0, nodes: this.shown?.n ?? 0 };
	}
}
