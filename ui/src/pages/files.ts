// SPDX-License-Identifier: Apache-2.0
//
// Profiles from files, read here and sent nowhere: one is a flame graph, two are a difference.
import { fill, h, iconButton, segmented } from '../dom';
import { paintDiff } from '../flame/colours';
import { describeDiff } from '../flame/diff';
import { FlamePanel } from '../flame/panel';
import { NO_SANDWICH } from '../flame/address';
import { read } from '../flame/load';
import { Tree } from '../flame/tree';
import { Life } from '../life';
import { Page, go, href, params, set } from '../router';
import { integer, percent, value } from '../units';
import { DiffTable } from './diff_table';

interface Opened {
	name: string;
	file: File;
	tree: Tree;
}

const MOST = 2;
const NAME = 'file'; // of the address: names of what is open
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
	private readonly missing = h('p', { class: 'missing', role: 'status', hidden: true });
	private readonly problem = h('p', { class: 'problem', role: 'alert', hidden: true });
	private readonly busy = h('p', { class: 'facts', role: 'status', hidden: true });
	private readonly zone = h('section', { class: 'panel drop' }, this.input, h('label', { class: 'button primary', for: 'files' }, 'Choose files'),
		h('span', { class: 'muted' }, 'or drop pprof (.pb, .pb.gz) or folded stacks here; two files are compared. They stay in this browser.'), this.list, this.busy, this.missing, this.problem);
	readonly root = h('div', { class: 'page' }, this.zone, this.flame.root);
	private files: Opened[] = [];
	private version = 0;
	private shown?: { path: string; table: DiffTable };
	private reading = new AbortController();
	private readonly life = new Life();

	constructor() {
		this.life.listen(document, 'keydown', this.flame.onKey);
		open_ = this;
		if (dropped.length) queueMicrotask(() => {
			void this.take(dropped);
			dropped = [];
		});
	}

	leave(): void {
		this.life.end();
		open_ = undefined;
		this.reading.abort();
		this.flame.leave();
	}

	/** A link holds names, and no files. */
	shared(): { note?: string } {
		const names = this.files.map((f) => f.name).join(' and ');
		return names ? { note: `It does not hold ${names}: whoever follows it has to open ${this.files.length > 1 ? 'these files' : 'this file'} there` } : {};
	}

	/** In the order of the link that asks for them. */
	private arrange(wanted: string[]): string[] {
		const left = [...this.files], found: Opened[] = [], missing: string[] = [];
		for (const name of wanted) {
			const at = left.findIndex((f) => f.name === name);
			if (at < 0) missing.push(name);
			else found.push(...left.splice(at, 1));
		}
		this.files = [...found, ...left];
		return missing;
	}

	private get names(): string[] {
		return this.files.map((f) => f.name);
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
		const p = params(), wanted = p.getAll(NAME);
		// What the link waits for is shown as it says, other files from the beginning.
		if (!wanted.length || this.files.some((f) => !wanted.includes(f.name))) set({ [NAME]: this.names, at: null, ...NO_SANDWICH }, !p.has('at'));
		else this.update(p);
	}

	update(p: URLSearchParams): void {
		const mode = p.get('mode') === 'relative' ? 'relative' : 'absolute', missing = this.arrange(p.getAll(NAME)), what = missing.join(' and ');
		fill(this.list, this.files.map((f, i) => h('span', { class: 'chip' }, this.files.length > 1 ? h('span', { class: `file-letter ${i ? 'b' : 'a'}` }, i ? 'B' : 'A') : null, h('span', { class: 'chip-text' }, `${f.name} · ${value(f.tree.whole, f.tree.unit)}, ${integer(f.tree.n)} frames`),
			iconButton('close', `Close ${f.name}`, () => {
				this.files.splice(i, 1);
				this.version++;
				set({ [NAME]: this.names }, true);
			}))), this.files.length > 1 && segmented('Compared', [['absolute', 'Sums'], ['relative', 'Shares', 'Each file as a share of its own total']], mode, (m) => set({ mode: m === 'relative' ? m : null })));
		this.missing.hidden = !missing.length || !this.files.length;
		this.missing.textContent = `${what} is missing: the link was made with ${p.getAll(NAME).join(' and ')} open. Open it too for the same picture.`;
		if (!this.files.length && missing.length) this.flame.empty(`${what} ${missing.length > 1 ? 'are' : 'is'} not here`, `The link was made with ${missing.length > 1 ? 'files' : 'a file'} open, and links do not hold files. Open ${missing.length > 1 ? 'them' : 'it'} here for the same picture.`);
		else if (!this.files.length) this.flame.empty('No file is open', 'Profiles that someone sent, or that go tool pprof, perf and other tools wrote, can be looked at here.');
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
