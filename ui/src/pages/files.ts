// SPDX-License-Identifier: Apache-2.0
//
// Profiles from files, read here and sent nowhere: one is a flame graph, two are a difference.
import { fill, h, iconButton, segmented } from '../dom';
import { paintDiff } from '../flame/colours';
import { describeDiff } from '../flame/diff';
import { FlamePanel } from '../flame/panel';
import { read } from '../flame/load';
import { Tree } from '../flame/tree';
import { Page, go, href, params, set } from '../router';
import { integer, percent, value } from '../units';
import { DiffTable } from './diff_table';

interface Opened {
	name: string;
	file: File;
	tree: Tree;
}

const MOST = 2;
const DRAGS = ['dragover', 'dragleave', 'drop'] as const;
let dropped: File[] = []; // on another page
let open_: FilesPage | undefined;

/** Files that are dropped on any page lead to this one. Text that is dragged into a field is none of it. */
export function takeDrops(): void {
	const onDrag = (e: DragEvent) => {
		if (!e.dataTransfer?.types.includes('Files')) return;
		e.preventDefault();
		document.body.classList.toggle('is-dropping', e.type === 'dragover');
		const files = e.type === 'drop' ? [...e.dataTransfer.files] : [];
		if (!files.length) return;
		if (open_) void open_.take(files);
		else {
			dropped = files;
			go(href('files'));
		}
	};
	for (const type of DRAGS) document.addEventListener(type, onDrag);
}

export class FilesPage implements Page {
	private readonly flame = new FlamePanel((c, replace) => set(c, replace));
	private readonly input = h('input', { type: 'file', multiple: true, class: 'offscreen', id: 'files', onchange: () => void this.take([...(this.input.files ?? [])]) });
	private readonly list = h('div', { class: 'file-list' });
	private readonly problem = h('p', { class: 'problem', role: 'alert', hidden: true });
	private readonly busy = h('p', { class: 'facts', role: 'status', hidden: true });
	private readonly zone = h('section', { class: 'panel drop' }, this.input, h('label', { class: 'button primary', for: 'files' }, 'Choose files'),
		h('span', { class: 'muted' }, 'or drop pprof (.pb, .pb.gz) or folded stacks here; two files are compared. They stay in this browser.'), this.list, this.busy, this.problem);
	readonly root = h('div', { class: 'page' }, this.zone, this.flame.root);
	private files: Opened[] = [];
	private version = 0;
	private shown?: { path: string; table: DiffTable };
	private reading = new AbortController();

	constructor() {
		document.addEventListener('keydown', this.flame.onKey);
		open_ = this;
		if (dropped.length) queueMicrotask(() => {
			void this.take(dropped);
			dropped = [];
		});
	}

	leave(): void {
		document.removeEventListener('keydown', this.flame.onKey);
		open_ = undefined;
		this.reading.abort();
		this.flame.leave();
	}

	async take(files: File[]): Promise<void> {
		this.reading.abort();
		const abort = (this.reading = new AbortController());
		this.problem.hidden = true;
		for (const file of files) {
			this.busy.hidden = false;
			fill(this.busy, `Reading ${file.name}… `, h('button', { type: 'button', class: 'button small', onclick: () => abort.abort() }, 'Cancel'));
			try {
				const { tree } = await read([file], [1, 1], abort.signal);
				this.files = [...this.files, { name: file.name, file, tree }].slice(-MOST);
			} catch (e) {
				if (abort.signal.aborted) break;
				this.problem.hidden = false;
				this.problem.textContent = `${file.name}: ${(e as Error).message}`;
			}
		}
		if (abort !== this.reading || !this.root.isConnected) return;
		this.busy.hidden = true;
		this.input.value = '';
		this.version++;
		if (params().has('at')) set({ at: null });
		else this.update(params());
	}

	update(p: URLSearchParams): void {
		const mode = p.get('mode') === 'relative' ? 'relative' : 'absolute';
		fill(this.list, this.files.map((f, i) => h('span', { class: 'chip' }, this.files.length > 1 ? h('span', { class: `file-letter ${i ? 'b' : 'a'}` }, i ? 'B' : 'A') : null, h('span', { class: 'chip-text' }, `${f.name} · ${value(f.tree.whole, f.tree.unit)}, ${integer(f.tree.n)} frames`),
			iconButton('close', `Close ${f.name}`, () => {
				this.files.splice(i, 1);
				this.version++;
				this.update(params());
			}))), this.files.length > 1 && segmented('Compared', [['absolute', 'Sums'], ['relative', 'Shares', 'Each file as a share of its own total']], mode, (m) => set({ mode: m === 'relative' ? m : null })));
		if (!this.files.length) this.flame.empty('No file is open', 'Profiles that someone sent, or that go tool pprof, perf and other tools wrote, can be looked at here.');
		else this.draw(p, mode);
	}

	private draw(p: URLSearchParams, mode: string): void {
		const [a, b] = this.files, path = `${this.version}/${mode}`;
		if (!b) {
			this.flame.update({ path, query: [], local: () => a.tree, summary: a.name }, p);
			return;
		}
		const scale: [number, number] = mode === 'relative' ? [1 / a.tree.whole, 1 / b.tree.whole] : [1, 1];
		const text = mode === 'relative' ? percent : (v: number) => value(v, a.tree.unit);
		if (a.tree.unit !== b.tree.unit) {
			this.flame.empty('These files cannot be compared', `${a.name} is in ${a.tree.unit}, ${b.name} in ${b.tree.unit}.`);
			return;
		}
		if (this.shown?.path !== path) this.shown = { path, table: new DiffTable((c, replace) => set(c, replace), false) };
		const { table } = this.shown, local = async (signal: AbortSignal) => {
			const { tree, rows } = await read([a.file, b.file], scale, signal);
			table.fill(rows!, rows!.length, scale, { text, unit: mode === 'relative' ? 'shares of each file' : `${a.tree.type}, ${a.tree.unit}` });
			return tree;
		};
		this.flame.update({
			path, query: [], options: { scale }, local, side: table, text: (v) => text(v / 2), paint: (t) => paintDiff(t, { scale }),
			describe: (t, i) => describeDiff(t, i, { scale, text }), summary: 'bars are as wide as A and B together',
		}, p);
	}
}
