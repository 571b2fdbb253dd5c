// SPDX-License-Identifier: Apache-2.0
//
// The flame graph with all that is around it: views, search, breadcrumbs, sandwich, table, menus, exports.
import { Query, TopRow, address, get } from '../api';
import { copy, fill, h, icon, iconButton, notify, save, segmented } from '../dom';
import { Panel } from '../panel';
import { MenuItem, menu, menuButton, openPopover } from '../popover';
import { Changes } from '../router';
import { escapeRegexp } from '../selector';
import { integer, percent, value } from '../units';
import { ColourBy, Palette, defaultColours, paint } from './colours';
import { Derivation, derive } from './derive';
import { nodeName } from './draw';
import { Loaded, deriveAside, load } from './load';
import { FlamePanels } from './panels';
import { Found, search } from './search';
import { Column, Table, meter } from './table';
import { Tree, Width, follow, isCutBelow, pathOf } from './tree';
import { FlameView } from './view';

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
	side?: Side; // in place of the table of functions
	text?: (v: number) => string; // of the bars' widths
}
/** What stands beside the graph. */
export interface Side {
	root: HTMLElement;
	show(p: URLSearchParams, search: string, height: number): void;
	csv(): string;
	menu?: (name: string, at: { x: number; y: number }) => void; // set by the panel
}
type Row = TopRow & { fn?: number };

/** Out of callers and callees, and of what is zoomed into there. */
export const NO_SANDWICH = { sandwich: null, up: null, down: null };

const NARROW = matchMedia('(max-width: 900px)'); // as style.css has it
const LARGE = 50_000; // nodes: trees made of larger ones are made by the worker
const MAX_NODES = '20000'; // what `nodes` in the address changes
const COLOURS: [ColourBy, string][] = [['binary', 'Binary'], ['kind', 'Kind of code'], ['package', 'Package'], ['function', 'Function']];
const VIEWS: [string, string, string][] = [['flame', 'Graph', 'Flame graph alone'], ['both', 'Both', 'Table and flame graph side by side'], ['table', 'Table', 'Table alone (t)']];

export class FlamePanel {
	private readonly view = this.makeView();
	private readonly callers = this.makeView();
	private readonly callees = this.makeView();
	private readonly panels: FlamePanels = new FlamePanels({ makeView: () => this.makeView(), open: (node) => this.zoom(node), title: (t, node) => this.source!.panelTitle!(t, node) });
	private readonly toolbar = h('div', { class: 'toolbar' });
	private readonly crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Zoom' });
	private readonly found = h('span', { class: 'found', role: 'status' });
	private readonly legend = h('div', { class: 'flame-legend' });
	private readonly facts = h('p', { class: 'facts' });
	private readonly input = h('input', { class: 'input', type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions by regular expression', title: 'A regular expression; n and N go from match to match' });
	private readonly graph = h('div', { class: 'flame-side' });
	private readonly sandwich = h('div', { class: 'sandwich', hidden: true });
	private readonly tableSide = h('div', { class: 'table-side' });
	private readonly table: Table<Row>;
	private readonly panel = new Panel('flame', this.toolbar, this.crumbs);
	readonly root = this.panel.root;
	private source?: Source;
	private asked = '';
	private base?: Loaded;
	/** From the arrival of the data in the worker to the first frame. */
	firstPaintMs = 0;
	private detail?: { path: string[]; tree: Tree };
	private shown?: Tree; // after collapsing
	private shownKey = '';
	private making = ''; // the key of what is being collapsed
	private sandwiched = ''; // of what stands in the sandwich
	private panelled = '';
	private active: FlameView = this.view; // where a frame was chosen last
	private palette?: Palette;
	private top?: TopRow[]; // of an answer that a limit cut: all functions
	private askingTop?: AbortController;
	private p = new URLSearchParams();
	private hits?: Found;
	private hit = -1;
	private typing = 0;
	private largest = { self: 1, total: 1 }; // of the rows: as wide as the cell
	private readonly onTheme = () => this.repaint();
	private readonly split = h('div', { class: 'flame-split' });
	/** What a window has above or left comes first for keys and for readers too. */
	private readonly onWidth = () => {
		this.split.append(...(NARROW.matches ? [this.graph, this.tableSide] : [this.tableSide, this.graph]));
		if (this.source) this.drawToolbar();
	};

	/** Pages from disk have no worker. */
	constructor(private readonly set: (c: Changes, replace?: boolean) => void, private readonly hasWorker = true) {
		this.table = new Table<Row>(this.columns(), 'self', { sort: (s) => this.set({ sort: s }, true), pick: (r) => this.searchFor(r.function), menu: (r, at) => this.functionMenu(r.function, at) });
		this.graph.append(this.view.root, this.panels.root, this.sandwich);
		this.tableSide.append(this.table.root);
		this.onWidth();
		NARROW.addEventListener('change', this.onWidth);
		this.panel.body.append(this.split, this.legend, this.facts);
		this.input.addEventListener('input', () => {
			clearTimeout(this.typing);
			this.typing = window.setTimeout(() => this.set({ search: this.input.value || null }, true), 120);
		});
		this.input.addEventListener('keydown', (e) => {
			if (e.key === 'Enter') this.step(e.shiftKey ? -1 : 1);
			if (e.key === 'Escape') {
				this.set({ search: null }, true);
				this.view.focus();
			}
		});
		document.addEventListener('sonde-theme', this.onTheme);
		(this.root as HTMLElement & { flame?: FlamePanel }).flame = this; // for measurements
	}

	leave(): void {
		document.removeEventListener('sonde-theme', this.onTheme);
		NARROW.removeEventListener('change', this.onWidth);
		this.askingTop?.abort();
		for (const v of [this.view, this.callers, this.callees, this.panels]) v.dispose();
		this.panel.leave();
	}

	/* ---- loading ---- */

	update(source: Source, p: URLSearchParams): void {
		const key = JSON.stringify([source.path, source.query, source.options, p.get('nodes')]);
		this.p = p;
		this.source = source;
		this.drawToolbar();
		if (key === this.asked && this.base) this.apply();
		else {
			this.asked = key;
			this.reload();
		}
	}

	/** Nothing to draw: says why. */
	empty(title: string, text: string): void {
		this.asked = '';
		this.base = undefined;
		this.panel.leave();
		this.toolbar.replaceChildren();
		this.crumbs.replaceChildren();
		this.panel.say('empty', title, text);
	}

	private reload(): void {
		const source = this.source!;
		void this.panel.run(async (signal, progress) => {
			if (source.local) return { tree: await source.local(signal), decodeMs: 0, arrived: Date.now(), stats: '' };
			return load(source.path, [...source.query, ['max_nodes', this.maxNodes]], source.options ?? {}, signal, (n) => progress(`Receiving, ${value(n, 'bytes')}…`));
		}, (got) => {
			this.base = got;
			this.top = undefined;
			this.askingTop?.abort();
			this.askingTop = undefined;
			requestAnimationFrame(() => setTimeout(() => {
				this.firstPaintMs = Date.now() - got.arrived;
				performance.mark('sonde-painted');
			}));
			this.detail = undefined;
			this.shownKey = this.making = this.sandwiched = this.panelled = '';
			if (got.tree.total[0] > 0) this.apply();
			else this.panel.say('empty', 'No profiles here', 'Nothing was stored for this selector in this range. Widen the range, or take matchers away.');
		}, () => this.reload());
	}

	private get maxNodes(): string {
		const n = this.p.get('nodes');
		return n && /^\d+$/.test(n) ? n : MAX_NODES;
	}

	private get path(): string[] {
		return this.p.getAll('at');
	}

	private get collapsing(): string[] {
		return (this.p.get('collapse') ?? '').split(',').filter(Boolean);
	}

	/** Which tree has the most of what the zoom shows. */
	private treeFor(path: string[]): Tree {
		const d = this.detail;
		return d && path.length >= d.path.length && d.path.every((name, i) => path[i] === name) ? d.tree : this.base!.tree;
	}

	private apply(): void {
		if (!(this.base!.tree.total[0] > 0)) return;
		const path = this.path, tree = this.treeFor(path), wanted = this.collapsing, dir = this.p.get('dir') ?? 'icicle';
		const key = JSON.stringify([wanted, tree === this.base!.tree ? '' : this.detail!.path, this.p.get('colour'), dir, this.asked, this.source!.options]);
		if (key === this.shownKey || key === this.making) {
			if (key === this.shownKey) this.arrange(tree, false);
			return;
		}
		this.making = key;
		const show = (t: Tree) => {
			if (this.making !== key) return;
			this.making = '';
			this.shownKey = key;
			this.shown = t;
			this.palette = this.paintTree(t);
			this.view.show(t, this.palette, dir === 'flame');
			this.arrange(tree, true);
		};
		if (!wanted.length || tree.sides) show(tree);
		else this.derive(tree, [{ what: 'collapsed', recursion: wanted.includes('recursion'), chains: wanted.includes('chains') }], ([t]) => show(t), () => {
			this.making = '';
			this.apply();
		});
	}

	/** Large trees are made by the worker, so that the page goes on answering. */
	private derive(t: Tree, wanted: Derivation[], then: (made: Tree[]) => void, again: () => void): void {
		if (t.n < LARGE || !this.hasWorker) then(wanted.map((d) => derive(t, d)));
		else void this.panel.run((signal, progress) => {
			progress('Rearranging the graph…');
			return deriveAside(t, wanted, signal);
		}, then, again);
	}

	/** All that is around the tree that is shown, which came of `tree`. */
	private arrange(tree: Tree, isNew: boolean): void {
		const path = this.path, wanted = this.collapsing, t = this.shown!, { node, found } = follow(t, path);
		this.panel.clear(); // what was cancelled is over
		this.view.zoomTo(node, !isNew);
		this.drawCrumbs(path.slice(0, found));
		this.drawSearch();
		this.drawViews();
		this.drawFacts();
		if (!wanted.length && path.length && (found < path.length || isCutBelow(t, node)) && tree === this.base!.tree && t.cut.size && !this.source!.local) this.loadDetail(path);
	}

	/** The subtree of which the limit left something out, by itself: with all nodes that there is room for. */
	private loadDetail(path: string[]): void {
		const source = this.source!, query: Query = [...source.query, ['max_nodes', this.maxNodes], ...path.map((name): [string, string] => ['at', name])];
		void this.panel.run((signal) => load(source.path, query, source.options ?? {}, signal), (got) => {
			if (got.tree.n > 1) {
				got.tree.whole = this.base!.tree.whole;
				this.detail = { path, tree: got.tree };
			}
			if (JSON.stringify(this.path) === JSON.stringify(path) && got.tree.n > 1) this.apply();
		}, () => this.loadDetail(path));
	}

	private paintTree(t: Tree): Palette {
		return this.source!.paint?.(t, t === this.shown) ?? paint(t, this.colourBy(t));
	}

	private colourBy(t: Tree): ColourBy {
		const asked = this.p.get('colour') as ColourBy | null;
		return asked && COLOURS.some(([by]) => by === asked) ? asked : defaultColours(t);
	}

	private repaint(): void {
		if (!this.shown) return;
		this.palette = this.paintTree(this.shown);
		this.view.colour(this.palette);
		this.panels.colour(this.palette);
		for (const [view, tree] of this.trees) view.colour(this.paintTree(tree));
		this.drawLegend();
		this.drawViews();
	}

	/* ---- what is around the picture ---- */

	private makeView(): FlameView {
		let view: FlameView;
		const zoom = (node: number) => {
			if (this.treeOf(view) === this.shown) this.zoom(node);
			else {
				const t = this.treeOf(view);
				this.set({ [view === this.callers ? 'up' : 'down']: node === view.zoomNode ? null : pathOf(t, node) });
			}
		};
		view = new FlameView({ zoom, menu: (node, at) => this.nodeMenu(this.treeOf(view), node, at), select: () => (this.active = view) },
			(t, node) => this.source?.describe?.(t, node) ?? describe(t, node), () => Math.max(innerHeight - 260, 300) * (view === this.view ? 1 : 0.45));
		return view;
	}

	private readonly trees = new Map<FlameView, Tree>();

	private treeOf(view: FlameView): Tree {
		return this.trees.get(view) ?? this.shown!;
	}

	private drawToolbar(): void {
		const p = this.p, dir = p.get('dir') ?? 'icicle', mode = p.get('view') ?? 'both', isDiff = Boolean(this.source!.paint);
		if (document.activeElement !== this.input) this.input.value = p.get('search') ?? '';
		const collapsing = this.collapsing;
		const toggle = (what: string) => this.set({ collapse: (collapsing.includes(what) ? collapsing.filter((c) => c !== what) : [...collapsing, what]).join(',') || null, at: null });
		const options = () => ['Root', { label: 'On top (icicle)', pressed: dir === 'icicle', pick: () => this.set({ dir: null }) }, { label: 'Below (flame)', hint: 'i', pressed: dir === 'flame', pick: () => this.set({ dir: 'flame' }) },
			...(isDiff ? [] : ['Colours by', ...COLOURS.map(([by, label]) => ({ label, pressed: this.shown !== undefined && this.colourBy(this.shown) === by, pick: () => this.set({ colour: by }) })),
				'Collapse', { label: 'Direct recursion', pressed: collapsing.includes('recursion'), pick: () => toggle('recursion') }, { label: 'Chains of single calls', pressed: collapsing.includes('chains'), pick: () => toggle('chains') }])];
		const hadFocus = document.activeElement === this.input;
		const find = h('div', { class: 'search' }, icon('search'), this.input, this.found, iconButton('up', 'Previous match (N)', () => this.step(-1), { class: 'icon-button step' }), iconButton('down', 'Next match (n)', () => this.step(1), { class: 'icon-button step' }));
		fill(this.toolbar, segmented('View', VIEWS.map(([v, text, title]) => [v, text, title]), mode, (v) => this.set({ view: v === 'both' ? null : v })),
			NARROW.matches ? null : find, h('div', { class: 'spacer' }), menuButton('Options', 'How the graph is drawn', options), menuButton([icon('download'), 'Export'], 'Save the answer', () => this.exportItems()), NARROW.matches && find);
		if (hadFocus) this.input.focus();
	}

	private exportItems(): (MenuItem | string | null)[] {
		const s = this.source!, own: (MenuItem | null)[] = [
			{ label: 'Picture (PNG)', pick: () => void this.png() },
			{ label: 'Table as shown (CSV)', pick: () => save('functions.csv', new Blob([(s.side ?? this.table).csv()], { type: 'text/csv' })) },
		];
		return [...(s.exports ?? []), null, ...own];
	}

	private async png(): Promise<void> {
		const sandwich = [{ view: this.callers, title: 'Callers' }, { view: this.callees, title: 'Callees' }];
		const blob = await FlameView.picture(!this.sandwich.hidden ? sandwich : !this.panels.root.hidden ? this.panels.shown(this.shown!) : [{ view: this.view, title: '' }], getComputedStyle(document.body).backgroundColor);
		if (blob) save('flamegraph.png', blob);
		else notify('The browser made no picture of the graph');
	}

	private drawCrumbs(path: string[]): void {
		const base = this.base!.tree;
		this.crumbs.hidden = !path.length;
		if (!path.length) return;
		const go = (n: number) => this.set({ at: path.slice(0, n) });
		const { node } = follow(base, path), here = node && follow(base, path).found === path.length ? base.total[node] : this.shown!.total[follow(this.shown!, path).node];
		const shown = path.length > 8 ? [...path.slice(0, 2).map((name, i) => ({ name, i })), null, ...path.slice(-5).map((name, k) => ({ name, i: path.length - 5 + k }))] : path.map((name, i) => ({ name, i }));
		fill(this.crumbs, h('button', { type: 'button', class: 'crumb', onclick: () => go(0), title: 'The whole graph (0)' }, 'all'),
			shown.map((c) => (c === null ? h('span', { class: 'crumb-gap' }, '…') : h('button', { type: 'button', class: 'crumb', title: c.name, onclick: () => go(c.i + 1), 'aria-current': c.i === path.length - 1 ? 'location' : undefined }, c.name))),
			h('span', { class: 'muted num' }, `${this.text(here)} · ${percent(here / base.whole)}`));
	}

	private drawSearch(): void {
		const text = this.p.get('search') ?? '', t = this.shown!;
		this.hits = text ? search(t, text) : undefined;
		this.hit = -1;
		this.view.search(this.hits?.matched);
		this.callers.search(this.hits?.matched);
		this.callees.search(this.hits?.matched);
		this.panels.search(this.hits?.matched);
		this.toolbar.classList.toggle('is-searching', Boolean(text));
		const most = this.hits ? percent(this.hits.total / t.whole) : '', isLeast = this.hits && this.hits.total < t.total[0] && t.cut.size > 0;
		this.found.textContent = this.hits ? `${isLeast ? '≥ ' : ''}${most}${this.hits.isLiteral ? ' (as text)' : ''}` : '';
		this.found.title = this.hits ? `${integer(this.hits.count)} frames match; ${this.text(this.hits.total)} in and below them${isLeast ? ', and in what is not loaded' : ''}` : '';
	}

	private step(by: number): void {
		if (!this.hits?.count) return;
		const nodes = this.hits.nodes();
		this.hit = (this.hit + by + nodes.length) % nodes.length;
		const view = this.panels.root.hidden ? this.view : this.panels.viewOf(nodes[this.hit]);
		if (view) {
			view.select(nodes[this.hit]);
			if (view !== this.view) view.root.scrollIntoView({ block: 'nearest' });
		} else this.zoom(nodes[this.hit]);
		this.found.textContent = `${this.hit + 1} of ${integer(nodes.length)}`;
	}

	private drawViews(): void {
		const mode = this.p.get('view') ?? 'both', focus = this.p.get('sandwich'), t = this.shown!;
		this.panel.body.dataset.view = mode;
		this.panel.body.dataset.side = this.source!.side ? 'diff' : '';
		this.tableSide.hidden = mode === 'flame';
		this.graph.hidden = mode === 'table';
		const f = focus === null ? -1 : t.functions.name.indexOf(focus);
		const isPanelled = focus === null && !this.path.length && Boolean(t.sides && this.source!.panelTitle);
		this.sandwich.hidden = focus === null;
		this.panels.root.hidden = !isPanelled;
		this.view.root.hidden = focus !== null || isPanelled;
		if (focus !== null) this.drawSandwich(focus, f);
		else if (this.trees.has(this.active)) this.active = this.view;
		if (isPanelled && this.panelled !== this.shownKey) {
			this.panelled = this.shownKey;
			this.panels.show(t, this.palette!, this.p.get('dir') === 'flame');
		}
		const height = Math.max(innerHeight - 286, 274), side = this.source!.side;
		if (this.tableSide.firstChild !== (side ?? this.table).root) this.tableSide.replaceChildren((side ?? this.table).root);
		if (mode === 'flame') return this.drawLegend();
		if (side) {
			side.menu = (name, at) => this.functionMenu(name, at);
			side.show(this.p, this.p.get('search') ?? '', height);
		} else {
			this.loadTop();
			const rows = this.rows();
			this.largest = { self: rows.reduce((m, r) => Math.max(m, r.self), 0) || 1, total: rows.reduce((m, r) => Math.max(m, r.total), 0) || 1 };
			this.table.show(rows, this.p.get('sort') ?? '-self', height);
		}
		this.drawLegend();
	}

	/** What a limit left out counts in the table. The graph does not wait for it. */
	private loadTop(): void {
		const base = this.base!, source = this.source!;
		if (source.local || this.askingTop || !base.tree.cut.size || base.tree.sides) return;
		const abort = (this.askingTop = new AbortController());
		void get<{ rows: TopRow[] }>('api/v1/top', [...source.query, ['limit', '5000']], abort.signal, 'POST').then(({ rows }) => {
			if (this.base !== base) return;
			this.top = rows;
			this.drawViews();
		}, () => undefined); // the functions of the answer are there
	}

	private text(v: number): string {
		return this.source!.text?.(v) ?? value(v, this.base!.tree.unit);
	}

	private drawSandwich(name: string, f: number): void {
		const key = JSON.stringify([name, this.shownKey]);
		if (key === this.sandwiched) {
			this.zoomSandwich(true);
			return;
		}
		this.sandwiched = key;
		const head = h('div', { class: 'sandwich-head' }, h('strong', { class: 'mono' }, name), f >= 0 && h('span', { class: 'muted num' }, `self ${this.text(this.shown!.fnSelf[f])}, total ${this.text(this.shown!.fnTotal[f])}, ${percent(this.shown!.fnTotal[f] / this.shown!.whole)}`),
			h('button', { type: 'button', class: 'button small', onclick: () => this.set(NO_SANDWICH) }, 'Back to the graph'));
		if (f < 0) {
			fill(this.sandwich, head, h('p', { class: 'muted' }, 'This function is in no stack of the answer.'));
			return;
		}
		fill(this.sandwich, head, h('h3', {}, 'Callers'), this.callers.root, h('h3', {}, 'Callees'), this.callees.root);
		this.derive(this.shown!, [{ what: 'callers', f }, { what: 'callees', f }], (made) => {
			if (key === this.sandwiched) [this.callers, this.callees].forEach((view, k) => {
				this.trees.set(view, made[k]);
				view.show(made[k], this.paintTree(made[k]), view === this.callers);
				view.search(this.hits?.matched);
			});
			this.zoomSandwich(false);
		}, () => {
			this.sandwiched = '';
			this.apply();
		});
	}

	/** As the address says, in trees that are made already. */
	private zoomSandwich(animate: boolean): void {
		for (const [view, key] of [[this.callers, 'up'], [this.callees, 'down']] as const) {
			const t = this.trees.get(view), node = t && follow(t, this.p.getAll(key)).node;
			if (node !== undefined && node !== view.zoomNode) view.zoomTo(node, animate);
		}
	}

	private drawLegend(): void {
		const p = this.palette!, whole = this.shown!.whole, isDiff = Boolean(this.source!.paint);
		fill(this.legend, p.legend.map(([text, colour, self, mark]) => h('span', { class: 'legend-key' }, h('span', { class: 'swatch', style: { background: colour } }, mark), text, self ? h('span', { class: 'muted num' }, percent(self / whole)) : null)),
			isDiff ? null : h('span', { class: 'muted' }, 'by self'));
	}

	private drawFacts(): void {
		const { tree, decodeMs, stats } = this.base!, read = new Map(stats.split(' ').map((kv) => kv.split('=') as [string, string]));
		const n = Number(read.get('profiles')), how = read.get('source') === 'run' ? `${integer(n)} ${n === 1 ? 'profile' : 'profiles'} read` : 'an answer that the scraper had';
		const work = read.size > 1 ? ` · ${how} in ${value(Number(read.get('seconds')), 'seconds')}, decoded in ${value(decodeMs, 'milliseconds')}` : '';
		let hidden = 0;
		for (const n of tree.cut.values()) hidden += n;
		fill(this.facts, `${this.source!.text ? '' : `${value(tree.whole, tree.unit)} · `}${integer(tree.n)} frames`, hidden ? `, ${integer(hidden)} narrow ones ${this.source!.local ? 'were left out' : 'are loaded when you zoom in'}` : '',
			work, this.source!.summary ? ` · ${this.source!.summary}` : '');
	}

	/* ---- the table ---- */

	private rows(): Row[] {
		const t = this.shown!, re = this.hits;
		let rows: Row[];
		if (this.top && !this.collapsing.length) {
			rows = this.top;
			if (re) {
				const names = new Set(t.functions.name.filter((_, f) => re.matched[f]));
				rows = rows.filter((r) => names.has(r.function));
			}
			return rows;
		}
		rows = [];
		for (let f = 0; f < t.functions.name.length; f++) {
			if (!t.fnTotal[f] || f === t.fn[0] || (f === 1 && t.functions.name[1] === '(cut)') || (re && !re.matched[f])) continue;
			rows.push({ function: t.functions.name[f], file: t.functions.file[f], mapping: t.functions.mapping[f], line: 0, kind: '', self: t.fnSelf[f], total: t.fnTotal[f], fn: f });
		}
		return rows;
	}

	private columns(): Column<Row>[] {
		const unit = () => this.shown!.unit, whole = () => this.shown!.whole;
		return [
			{ key: 'function', title: 'Function', kind: 'text', width: 'minmax(120px, 1fr)', sort: (a, b) => a.function.localeCompare(b.function), csv: (r) => r.function,
				cell: (r) => h('span', { class: 'function mono', title: `${r.function}\n${[r.mapping, r.file].filter(Boolean).join('\n')}` }, r.function) },
			{ key: 'self', title: 'Self', isOptional: true, kind: 'number', width: '66px', sort: (a, b) => a.self - b.self, csv: (r) => r.self, cell: (r) => h('span', { class: 'num' }, value(r.self, unit())) },
			{ key: 'self_share', title: 'Self %', kind: 'number', width: '62px', sort: (a, b) => a.self - b.self, csv: (r) => r.self / whole(), cell: (r) => meter(percent(r.self / whole()), r.self / this.largest.self) },
			{ key: 'total', title: 'Total', isOptional: true, kind: 'number', width: '66px', sort: (a, b) => a.total - b.total, csv: (r) => r.total, cell: (r) => h('span', { class: 'num' }, value(r.total, unit())) },
			{ key: 'total_share', title: 'Total %', kind: 'number', width: '66px', sort: (a, b) => a.total - b.total, csv: (r) => r.total / whole(), cell: (r) => meter(percent(r.total / whole()), r.total / this.largest.total) },
		];
	}

	/* ---- what a person does ---- */

	private zoom(node: number): void {
		const t = this.shown!;
		// A cut node stands for what lies below its parent.
		this.set({ at: pathOf(t, t.cut.has(node) ? t.parent[node] : node) });
	}

	private searchFor(name: string): void {
		const text = `^${escapeRegexp(name)}$`;
		this.set({ search: this.p.get('search') === text ? null : text }, true);
	}

	private functionItems(name: string): (MenuItem | string | null)[] {
		const exact = `^${escapeRegexp(name)}$`, canQuery = !this.source!.local;
		return [
			{ label: 'Callers and callees', hint: 's', pick: () => this.set({ ...NO_SANDWICH, sandwich: name, view: this.p.get('view') === 'table' ? null : this.p.get('view') }) },
			{ label: 'Search for this name', pick: () => this.searchFor(name) },
			...(this.source!.more?.(name) ?? []),
			...(canQuery ? ['Query again',
				{ label: 'Only stacks with it', hint: 'focus', pick: () => this.set({ focus: exact, at: null }) },
				{ label: 'Without stacks with it', hint: 'ignore', pick: () => this.set({ ignore: exact, at: null }) },
				{ label: 'Without this frame', hint: 'hide', pick: () => this.set({ hide: exact, at: null }) }] : []),
			null,
			{ label: 'Copy the name', hint: 'c', pick: () => void copy(name, 'Name') },
		];
	}

	private nodeMenu(t: Tree, node: number, at: { x: number; y: number }): void {
		const name = t.functions.name[t.fn[node]], items: (MenuItem | string | null)[] = [];
		if (t === this.shown) items.push({ label: 'Zoom here', hint: 'Enter', pick: () => this.zoom(node) });
		if (node && !t.cut.has(node)) items.push(...this.functionItems(name));
		if (node) items.push({ label: 'Copy the stack', pick: () => void copy(pathOf(t, node).join('\n'), 'Stack') });
		openPopover(at, menu([fitHeading(nodeName(t, node)), ...items]), 'Frame');
	}

	private functionMenu(name: string, at: { x: number; y: number }): void {
		openPopover(at, menu([fitHeading(name), ...this.functionItems(name)]), 'Function');
	}

	/** Keys of the page that nobody else wanted; in a field only the one that leads to the search. */
	readonly onKey = (e: KeyboardEvent): void => {
		const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test((e.target as HTMLElement).tagName);
		if ((!isTyping || ((e.ctrlKey || e.metaKey) && e.key === 'f')) && !e.defaultPrevented && this.key(e)) e.preventDefault();
	};

	/** True when the key was ours. */
	private key(e: KeyboardEvent): boolean {
		if (!this.shown) return false;
		const mode = this.p.get('view') ?? 'both', selected = this.active.selectedNode, t = this.treeOf(this.active);
		if ((e.ctrlKey || e.metaKey) && e.key === 'f' || e.key === '/') {
			this.input.focus();
			this.input.select();
			return true;
		}
		if (e.ctrlKey || e.metaKey || e.altKey) return false;
		const name = selected > 0 || (selected === 0 && t !== this.shown) ? t.functions.name[t.fn[selected]] : undefined;
		const keys: Record<string, () => void> = {
			'0': () => this.set({ at: null, ...NO_SANDWICH }),
			i: () => this.set({ dir: this.p.get('dir') === 'flame' ? null : 'flame' }),
			t: () => this.set({ view: mode === 'table' ? null : 'table' }),
			n: () => this.step(1),
			N: () => this.step(-1),
			s: () => name && this.set({ ...NO_SANDWICH, sandwich: this.p.get('sandwich') === name ? null : name }),
			c: () => name && void copy(name, 'Name'),
			Escape: () => (this.p.has('up') || this.p.has('down') ? this.set({ up: null, down: null }) : this.p.get('sandwich') !== null ? this.set(NO_SANDWICH) : this.path.length ? this.set({ at: this.path.slice(0, -1) }) : this.set({ search: null }, true)),
		};
		const act = keys[e.key];
		act?.();
		return Boolean(act);
	}

	/** For tests and for who wants to know: how long frames took, how many bars they drew. */
	get timing(): { frames: number[]; drawn: { bars: number; narrowest: number }; decodeMs: number; nodes: number } {
		return { frames: this.view.frameTimes, drawn: this.view.painter.drawn, decodeMs: this.base?.decodeMs ?? 0, nodes: this.shown?.n ?? 0 };
	}
}

function fitHeading(name: string): string {
	return name.length > 56 ? `${name.slice(0, 55)}…` : name;
}

export function tipRow(label: string, ...text: string[]): Node {
	return h('tr', {}, h('th', {}, label), text.map((t) => h('td', { class: 'num' }, t)));
}

function describe(t: Tree, i: number): Node[] {
	const f = t.fn[i], place = [t.functions.file[f] && `${t.functions.file[f]}${t.line[i] ? `:${t.line[i]}` : ''}`, t.functions.mapping[f]].filter(Boolean);
	return [h('strong', { class: 'mono' }, nodeName(t, i)), ...place.map((text) => h('div', { class: 'muted path' }, text as string)),
		h('table', {}, h('tr', {}, h('th', {}), h('td', { class: 'muted' }, t.unit === 'nanoseconds' ? 'time' : t.unit), h('td', { class: 'muted' }, 'of all'), h('td', { class: 'muted' }, 'of parent')),
			tipRow('total', value(t.total[i], t.unit), percent(t.total[i] / t.whole), i ? percent(t.total[i] / t.total[t.parent[i]]) : '–'),
			tipRow('self', value(t.self[i], t.unit), percent(t.self[i] / t.whole), i ? percent(t.self[i] / t.total[t.parent[i]]) : '–')),
		h('div', { class: 'muted' }, t.kinds[t.kind[i]] ?? '')];
}

export function exportLinks(path: { profile: string; graph: string; top: string }, query: Query): MenuItem[] {
	const link = (p: string, format: string, extension: string, label: string, more: Query = []): MenuItem => ({ label, hint: extension, href: address(p, [...query, ['format', format], ...more]), download: `profile.${extension}` });
	return [link(path.profile, 'pprof', 'pb.gz', 'pprof'), link(path.graph, 'folded', 'folded', 'Folded stacks'), link(path.graph, 'speedscope', 'speedscope.json', 'speedscope'),
		link(path.graph, 'svg', 'svg', 'Picture (SVG)'), link(path.graph, 'html', 'html', 'Page (HTML)', [['max_nodes', MAX_NODES]]), link(path.top, 'csv', 'csv', 'Functions (CSV)'), link(path.graph, 'json', 'json', 'Arrays (JSON)')];
}
