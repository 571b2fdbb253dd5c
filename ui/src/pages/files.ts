// SPDX-License-Identifier: Apache-2.0
//
// Profiles from files, read here and sent nowhere. A list has all that are open: one of them is a flame graph, two are a difference.
import { fill, h, iconButton, segmented } from '../dom';
import { exportMenu, savedName } from '../export/menu';
import type { Type } from '../files/profile';
import { paintDiff } from '../flame/colours';
import { describeDiff } from '../flame/diff';
import { FlamePanel } from '../flame/panel';
import { NO_SANDWICH } from '../flame/address';
import { Loaded, read, readAndSave } from '../flame/load';
import type { Source } from '../flame/source';
import type { Tree } from '../flame/tree';
import type { FileFacts } from '../flame/worker';
import { Life } from '../life';
import { Page, go, href, params, set } from '../router';
import { timeText } from '../time';
import { percent, unitName, value } from '../units';
import { zoneText } from '../zone';
import { DiffTable } from './diff_table';

interface Opened {
	id: number;
	name: string; // of which no two have the same
	file: File;
	facts: FileFacts;
}
/** A sample type that all shown files have: its number in each. */
interface Choice extends Type {
	columns: number[];
}

const NAME = 'file', TYPE = 'type'; // of the address: names of what is shown, A before B, and what is shown of it
const DRAGS = ['dragover', 'dragleave', 'drop'] as const;
const opened: Opened[] = []; // they stay when the page is left
let nextId = 1;
let dropped: { files: File[]; isCompared: boolean } | undefined; // on another page
let open_: FilesPage | undefined;

/** Files that are dropped on any page lead to this one. Text that is dragged into a field is none of it. */
export function takeDrops(): void {
	const onDrag = (e: DragEvent) => {
		if (!e.dataTransfer?.types.includes('Files')) return;
		e.preventDefault();
		document.body.classList.toggle('is-dropping', e.type === 'dragover');
		const files = e.type === 'drop' ? [...e.dataTransfer.files] : [];
		if (!files.length) return;
		if (open_) void open_.take(files, e.shiftKey);
		else {
			dropped = { files, isCompared: e.shiftKey };
			go(href('files'));
		}
	};
	for (const type of DRAGS) document.addEventListener(type, onDrag);
}

function uniqueName(name: string): string {
	let unique = name;
	for (let n = 2; opened.some((f) => f.name === unique); n++) unique = `${name} (${n})`;
	return unique;
}

/** Of one file all its types; of two those that both have, or else what has the same unit. */
function choices(files: Opened[]): Choice[] {
	const [a, b] = files.map((f) => f.facts);
	if (!b) return a.types.map((t, i) => ({ ...t, columns: [i] }));
	const both = a.types.flatMap((t, i) => {
		const k = b.types.findIndex((u) => u.type === t.type && u.unit === t.unit);
		return k < 0 ? [] : [{ ...t, columns: [i, k] }];
	});
	if (both.length) return both;
	const main = a.types[a.main];
	return main.unit === b.types[b.main].unit ? [{ ...main, columns: [a.main, b.main] }] : [];
}

export class FilesPage implements Page {
	private readonly flame = new FlamePanel((c, replace) => set(c, replace));
	private readonly input = h('input', { type: 'file', multiple: true, class: 'offscreen', id: 'files', onchange: () => void this.take([...(this.input.files ?? [])]) });
	private readonly list = h('ul', { class: 'file-list', 'aria-label': 'Open files' });
	private readonly choice = h('div', { class: 'file-choice' });
	private readonly missing = h('p', { class: 'missing', role: 'status', hidden: true });
	private readonly problem = h('div', { class: 'problem', role: 'alert', hidden: true });
	private readonly busy = h('p', { class: 'facts', role: 'status', hidden: true });
	private readonly zone = h('section', { class: 'panel drop' }, this.input, h('label', { class: 'button primary', for: 'files' }, 'Choose files'),
		h('span', { class: 'muted' }, 'or drop them on any page: pprof, folded stacks, perf script, speedscope, .cpuprofile or a page of Sonde. With Shift, what you drop is compared. Files stay in this browser.'), this.list, this.choice, this.busy, this.missing, this.problem);
	readonly root = h('div', { class: 'page' }, this.zone, this.flame.root);
	private side?: { path: string; table: DiffTable; scale: [number, number] };
	private fresh?: { path: string; tree: Tree }; // of the file that was opened last
	private reading = new AbortController();
	private readonly saving = new AbortController();
	private readonly life = new Life();

	constructor() {
		this.life.listen(document, 'keydown', this.flame.onKey);
		open_ = this;
		const waiting = dropped;
		dropped = undefined;
		if (waiting) queueMicrotask(() => void this.take(waiting.files, waiting.isCompared));
	}

	leave(): void {
		this.life.end();
		open_ = undefined;
		this.reading.abort();
		this.saving.abort();
		this.flame.leave();
	}

	/** A link holds names, and no files. */
	shared(): { note?: string } {
		const { files } = this.shown(params()), names = files.map((f) => f.name).join(' and ');
		return names ? { note: `It does not hold ${names}: whoever follows it has to open ${files.length > 1 ? 'these files' : 'this file'} there` } : {};
	}

	/** What the address asks for. */
	private shown(p: URLSearchParams): { files: Opened[]; missing: string[] } {
		const wanted = p.getAll(NAME).slice(0, 2);
		if (!wanted.length) return { files: opened.slice(0, 1), missing: [] };
		const found = wanted.map((name) => opened.find((f) => f.name === name));
		return { files: found.filter((f): f is Opened => f !== undefined), missing: wanted.filter((_, i) => !found[i]) };
	}

	/** Opens all of them and shows the first, or compares: two with each other, one with what is shown. */
	async take(files: File[], isCompared = false): Promise<void> {
		this.reading.abort();
		const abort = (this.reading = new AbortController()), added: Opened[] = [], problems: string[] = [];
		this.problem.hidden = true;
		for (const [i, file] of files.entries()) {
			this.busy.hidden = false;
			fill(this.busy, `Reading ${file.name}… `, h('button', { type: 'button', class: 'button small', onclick: () => abort.abort() }, 'Cancel'));
			try {
				const { tree, facts } = await read([{ file }], false, abort.signal), f = { id: nextId++, name: uniqueName(file.name), file, facts: facts![0] };
				added.push(f);
				opened.push(f);
				this.fresh = { path: this.pathOf([f], [f.facts.main]), tree };
			} catch (e) {
				if (!abort.signal.aborted) {
					problems.push(`${file.name}: ${(e as Error).message}`);
					continue;
				}
				problems.push(`Cancelled: ${files.slice(i).map((f) => f.name).join(', ')} ${files.length - i > 1 ? 'are' : 'is'} not open`);
				break;
			}
		}
		if (!this.root.isConnected) return;
		if (abort === this.reading) this.busy.hidden = true;
		this.problem.hidden = !problems.length;
		fill(this.problem, problems.map((text) => h('p', {}, text)));
		this.input.value = '';
		const p = params(), wanted = p.getAll(NAME), before = wanted.length ? this.shown(p).files : opened.filter((f) => !added.includes(f)).slice(0, 1);
		// What the link waits for is shown as it says, other files from the beginning.
		if (added.some((f) => wanted.includes(f.name))) {
			const rank = (f: Opened) => (wanted.includes(f.name) ? wanted.indexOf(f.name) : wanted.length);
			opened.sort((x, y) => rank(x) - rank(y));
			this.update(p);
		} else if (!added.length) this.update(p);
		else if (!isCompared) this.show(added.slice(0, 1), !p.has('at'));
		else this.show(added.length > 1 ? added.slice(0, 2) : [...before.slice(0, 1), ...added], !p.has('at'));
	}

	private show(files: Opened[], replace = false): void {
		set({ [NAME]: files.map((f) => f.name), at: null, ...NO_SANDWICH }, replace);
	}

	/** Makes a file A or B. What is there already changes places, and B once more ends the comparison. */
	private pick(f: Opened, isB: boolean): void {
		const [a, b] = this.shown(params()).files, swapped = b ? [b, a] : [a];
		const files = isB ? (f === b ? [a] : f === a ? swapped : a ? [a, f] : [f]) : f === a ? [a, b] : f === b ? swapped : [f, b];
		set({ [NAME]: files.filter((x) => x).map((x) => x.name) });
	}

	private close(f: Opened): void {
		const { files } = this.shown(params());
		opened.splice(opened.indexOf(f), 1);
		set({ [NAME]: files.filter((x) => x !== f).map((x) => x.name) }, true);
	}

	private pathOf(files: Opened[], columns: number[], mode = ''): string {
		return JSON.stringify([files.map((f) => f.id), columns, mode]);
	}

	update(p: URLSearchParams): void {
		const mode = p.get('mode') === 'relative' ? 'relative' : 'absolute', { files, missing } = this.shown(p), all = files.length ? choices(files) : [];
		const chosen = all.find((c) => c.type === p.get(TYPE)) ?? all.find((c) => c.columns[0] === files[0].facts.main) ?? all[0];
		this.drawList(files);
		this.drawChoice(all, chosen, files.length > 1, mode);
		const what = missing.join(' and '), isMany = missing.length > 1;
		this.missing.hidden = !missing.length || !files.length;
		this.missing.textContent = `${what} is missing: the link was made with ${p.getAll(NAME).join(' and ')} open. Open it too for the same picture.`;
		if (files.length) this.draw(p, files, chosen, mode);
		else if (missing.length) this.flame.empty(`${what} ${isMany ? 'are' : 'is'} not here`, `The link was made with ${isMany ? 'files' : 'a file'} open, and links do not hold files. Open ${isMany ? 'them' : 'it'} here for the same picture.`);
		else this.flame.empty('No file is open', 'Profiles that someone sent, or that go tool pprof, perf and other tools wrote, can be looked at here.');
	}

	private drawList(shown: Opened[]): void {
		fill(this.list, opened.map((f) => {
			const [a, b] = shown, { format, types, notes } = f.facts;
			const letter = (text: 'A' | 'B', isPressed: boolean, title: string) => h('button', { type: 'button', class: `file-letter ${text.toLowerCase()}`, 'aria-pressed': String(isPressed), 'aria-label': `${text}: ${f.name}`, title,
				disabled: text === 'B' && f === a && !b, onclick: () => this.pick(f, text === 'B') }, text);
			return h('li', { class: 'file-row' }, letter('A', f === a, b ? 'Compare as A' : 'Show'), letter('B', f === b, f === b ? 'Compare no more' : 'Compare as B'),
				h('button', { type: 'button', class: 'file-name', title: 'Show alone', onclick: () => this.show([f]) }, f.name), h('span', { class: 'muted' }, format, types.length > 1 && `, ${types.length} sample types`),
				iconButton('close', `Close ${f.name}`, () => this.close(f)), notes.length > 0 && h('p', { class: 'file-notes' }, notes.join('. ')));
		}));
	}

	private drawChoice(all: Choice[], chosen: Choice | undefined, isDiff: boolean, mode: 'absolute' | 'relative'): void {
		const select = all.length > 1 && h('select', { class: 'select', 'aria-label': 'Sample type', onchange: (e) => set({ [TYPE]: (e.target as HTMLSelectElement).value, at: null }) },
			all.map((c) => h('option', { value: c.type, selected: c === chosen }, `${c.type}, ${c.unit}`)));
		fill(this.choice, select, isDiff && segmented('Compared', [['absolute', 'Absolute'], ['relative', 'Share of total', 'Each file as a share of its own total']], mode, (m) => set({ mode: m === 'relative' ? m : null })));
	}

	/** What of a file is not taken as it stands depends on the sample type. */
	private noteFacts(files: Opened[], { facts }: Loaded): void {
		files.forEach((f, i) => (f.facts = facts![i]));
		this.drawList(this.shown(params()).files);
	}

	/** What is shown as a file of each format; it is read once more for that. */
	private saved(files: Opened[], chosen: Choice, isRelative: boolean, isFull: boolean): Pick<Source, 'exports' | 'caption'> {
		const names = files.map((f) => f.name), isDiff = files.length > 1, [{ facts: { time, seconds } }] = files, name = savedName(names, chosen.type);
		const subtitle = isDiff || !time ? '' : `${timeText(time)} ${zoneText(time)}${seconds ? `, ${value(seconds, 'seconds')}` : ''}`;
		return {
			caption: { name, lines: [...(isDiff ? [`A: ${names[0]}`, `B: ${names[1]}`] : names), [`${chosen.type} in ${unitName(chosen.unit)}`, subtitle].filter(Boolean).join(' · ')] },
			exports: exportMenu(name, isDiff, (format) => readAndSave(files.map(({ file }, i) => ({ file, type: chosen.columns[i] })), isRelative, { format, names, subtitle, isFull }, this.saving.signal)),
		};
	}

	private draw(p: URLSearchParams, files: Opened[], chosen: Choice | undefined, mode: 'absolute' | 'relative'): void {
		const [a, b] = files;
		if (!chosen) {
			const units = (f: Opened) => f.facts.types.map((t) => `${t.type} in ${t.unit}`).join(', ');
			this.flame.empty('These files cannot be compared', `${a.name} has ${units(a)}; ${b.name} has ${units(b)}. Both are open: click the name of one to see it.`);
			return;
		}
		const path = this.pathOf(files, chosen.columns, b ? mode : ''), saved = this.saved(files, chosen, Boolean(b) && mode === 'relative', p.get('names') === 'full'), wanted = files.map(({ file }, i) => ({ file, type: chosen.columns[i] }));
		if (!b) {
			const local = async (signal: AbortSignal) => {
				if (this.fresh?.path === path) return this.fresh.tree;
				const loaded = await read(wanted, false, signal);
				this.noteFacts(files, loaded);
				return loaded.tree;
			};
			this.flame.update({ path, query: [], local, ...saved, summary: `${a.name} · ${chosen.type}, ${chosen.unit}` }, p);
			return;
		}
		if (this.side?.path !== path) this.side = { path, table: new DiffTable((c, replace) => set(c, replace), false), scale: [1, 1] };
		const { side } = this, { table } = side, text = mode === 'relative' ? percent : (v: number) => value(v, chosen.unit);
		const local = async (signal: AbortSignal) => {
			const loaded = await read(wanted, mode === 'relative', signal), { rows } = loaded;
			side.scale = loaded.scale!;
			this.noteFacts(files, loaded);
			table.fill(rows!, rows!.length, side.scale, { text, unit: mode === 'relative' ? 'shares of each file' : `${chosen.type}, ${chosen.unit}` });
			return loaded.tree;
		};
		this.flame.update({
			path, query: [], local, ...saved, side: table, text: (v) => text(v / 2), paint: (t) => paintDiff(t, { scale: side.scale }),
			describe: (t, i) => describeDiff(t, i, { scale: side.scale, text }), summary: 'bars are as wide as A and B together',
		}, p);
	}
}
