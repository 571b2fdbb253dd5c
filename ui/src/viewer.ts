// SPDX-License-Identifier: Apache-2.0
//
// The script of pages that open from disk: lib/render/page.c puts it, what it shows and this side by side. It asks nobody for anything;
// what is shown is in the fragment of the address, so that a link to the page leads to the same picture.
import './style.css';
import { copy, fill, h, segmented } from './dom';
import { paintDiff } from './flame/colours';
import { decode } from './flame/decode';
import { INSIGNIFICANT, VERDICTS, describeDiff, panelTitle } from './flame/diff';
import { FlamePanel } from './flame/panel';
import type { Source } from './flame/source';
import { Tree, Width, build, sideOf, weigh } from './flame/tree';
import { keysButton, shareButton, sharedTheme, themeButton } from './frame';
import { DiffRow } from './flame/diff_rows';
import { DiffTable } from './pages/diff_table';
import { Changes, changed } from './router';
import { Quality, qualityBadge } from './quality';
import { timeText } from './time';
import { percent, signedPercent, unitName, value } from './units';
import { Metric, charts } from './viewer_charts';
import { OverTime, overTime } from './viewer_over_time';
import { zoneText } from './zone';

type Tested = [verdict: string, q: number | null, low: number | null, high: number | null, least: number | null];
type Row = [name: string, mapping: string, selfA: number, selfB: number, totalA: number, totalB: number, mark: string, self?: Tested, total?: Tested];
interface Side {
	label: string;
	scale: number;
	n?: number; // runs; absent without statistics
	quality?: Quality;
	files: string[]; // where their profiles lie, seen from here; '' is not known
}
interface About {
	kind: 'graph' | 'diff';
	title: string;
	subtitle: string;
	names?: 'full'; // what the page begins with
	type: string;
	time: number; // unix seconds; 0: unknown
	seconds: number;
	// of a difference
	head: string;
	panels: boolean;
	a: Side;
	b: Side;
	rows: Row[];
	metrics: Metric[];
	over_time?: OverTime;
}
type Tab = 'diff' | 'a' | 'b' | 'charts' | 'summary';

const about = JSON.parse(document.getElementById('about')!.textContent!) as About;
const main = h('main', { class: 'page' });
let shown = asked();

function asked(): URLSearchParams {
	const p = new URLSearchParams(location.hash.slice(1));
	if (about.names && !p.has('names')) p.set('names', about.names);
	return p;
}

/** The address follows where the browser lets a document from disk change it. */
function set(changes: Changes, replace = false): void {
	shown = changed(shown, changes);
	const hash = `#${shown}`;
	try {
		if (hash !== (location.hash || '#')) history[replace ? 'replaceState' : 'pushState'](null, '', hash);
	} catch {
		// a frame without an address of its own: the picture changes all the same
	}
	update();
}

function message(): Uint8Array {
	const text = atob(document.getElementById('tree')!.textContent!), bytes = new Uint8Array(text.length);
	for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
	return bytes;
}

const flame = new FlamePanel(set, false);
const raw = decode(message());
let update: () => void;

function once<T>(make: () => T): () => T {
	let made: T | undefined;
	return () => (made ??= make());
}

/* ---- one flame graph ---- */

function when(): string {
	if (!about.time) return '';
	return `${timeText(about.time)} ${zoneText(about.time)}${about.seconds ? `, ${value(about.seconds, 'seconds')}` : ''}`;
}

function graph(): void {
	const tree = once(() => build(raw));
	main.append(flame.root);
	update = () => flame.update({ path: '', query: [], local: tree, summary: [about.type, when()].filter(Boolean).join(' · ') }, shown);
}

/* ---- a difference ---- */

function rowOf([name, mapping, selfA, selfB, totalA, totalB, mark, self, total]: Row): DiffRow {
	const row: DiffRow = { function: name, mapping, kind: '', self_a: selfA, self_b: selfB, total_a: totalA, total_b: totalB, delta_self: 0, delta_total: 0, mark };
	for (const [of, t] of [['self', self], ['total', total]] as const) if (t) {
		row[`${of}_verdict`] = t[0];
		row[`${of}_q`] = t[1];
		row[`${of}_effect_low`] = t[2];
		row[`${of}_effect_high`] = t[3];
		row[`${of}_min_effect`] = t[4];
	}
	return row;
}

/** The runs' profiles, for go tool pprof and the like. They lie beside the page, not in it. */
function files(): HTMLElement | undefined {
	const sides = [about.a, about.b].map((s) => s.files.filter(Boolean));
	if (!sides.some((list) => list.length)) return undefined;
	const link = (file: string) => h('a', { href: file.split('/').map((part) => (part === '..' ? part : encodeURIComponent(part))).join('/') }, file.slice(file.lastIndexOf('/') + 1));
	return h('div', {}, h('h2', {}, 'Profiles of the runs'), h('dl', { class: 'fact-list' }, [about.a, about.b].map((s, k) => [h('dt', {}, s.label), h('dd', {}, sides[k].map((file) => [link(file), ' ']))])));
}

class Difference {
	private readonly scale: [number, number] = [about.a.scale, about.b.scale];
	private readonly labels: [string, string] = [about.a.label, about.b.label];
	private readonly n?: [number, number] = about.a.n !== undefined && about.b.n !== undefined ? [about.a.n, about.b.n] : undefined;
	private readonly isTested = raw.sides!.q.some((q) => q >= 0);
	private readonly text = (v: number) => (raw.unit === 'ppm' ? percent(v / 1e6) : value(v, raw.unit));
	private readonly table = new DiffTable(set, this.isTested, this.labels);
	private readonly trees: Record<Width, () => Tree> = { union: once(() => this.tree('union')), a: once(() => this.tree('a')), b: once(() => this.tree('b')) };
	private readonly sides = { a: once(() => sideOf(raw, 'a', this.scale[0])), b: once(() => sideOf(raw, 'b', this.scale[1])) };
	private readonly head = h('div', { class: 'toolbar viewer-tabs' });
	private readonly extra = h('section', { class: 'panel viewer-extra' });

	constructor() {
		this.table.fill(about.rows.map(rowOf), about.rows.length, this.scale, { text: this.text, unit: `${about.type}, ${unitName(raw.unit)}` });
		main.append(h('section', { class: 'panel' }, h('div', { class: 'panel-body' }, this.totals()), this.head), flame.root, this.extra);
	}

	private tree(width: Width): Tree {
		const own = { ...raw, self: raw.self.slice(), total: raw.total.slice() };
		weigh(own, width, this.scale);
		return build(own);
	}

	private totals(): HTMLElement {
		const [a, b] = [raw.sides!.totalA[0] * this.scale[0], raw.sides!.totalB[0] * this.scale[1]], change = a ? b / a - 1 : Infinity;
		const said = raw.verdicts[raw.sides!.verdict[0]], isNoise = INSIGNIFICANT.includes(said), amount = `${b > a ? '+' : b < a ? '−' : ''}${this.text(Math.abs(b - a))}`;
		const cell = (letter: string, title: string, text: string, note: string, kind = '') => h('div', { class: `total ${kind}` },
			h('span', { class: 'muted' }, letter && h('span', { class: `file-letter ${letter}` }, letter.toUpperCase()), letter.toUpperCase() === title ? '' : `${letter ? ' ' : ''}${title}`), h('strong', { class: 'num' }, text), h('span', { class: 'muted num' }, note), letter && about[letter as 'a' | 'b'].quality && qualityBadge(about[letter as 'a' | 'b'].quality!));
		const runs = (k: number) => (this.n ? `${this.n[k]} ${this.n[k] === 1 ? 'run' : 'runs'}, mean` : '');
		return h('div', { class: 'totals' }, cell('a', this.labels[0], this.text(a), runs(0)), cell('b', this.labels[1], this.text(b), runs(1)),
			cell('', `${this.labels[1]} against ${this.labels[0]}`, a ? signedPercent(change) : b ? 'new' : '–', isNoise ? `${amount}, ${VERDICTS[said]}` : amount, isNoise ? '' : change > 0 ? 'is-more' : change < 0 ? 'is-less' : ''));
	}

	update(): void {
		const tab = (shown.get('tab') ?? 'diff') as Tab, width = (shown.get('width') ?? 'union') as Width, isGraph = tab === 'diff' || tab === 'a' || tab === 'b';
		const tabs: [Tab, string][] = [['diff', 'Difference'], ['a', this.labels[0]], ['b', this.labels[1]], ...(about.metrics.length ? [['charts', 'Charts'] as [Tab, string]] : []), ...(about.head ? [['summary', 'Summary'] as [Tab, string]] : [])];
		fill(this.head, segmented('What is shown', tabs, tab, (t) => set({ tab: t === 'diff' ? null : t, at: null })), h('div', { class: 'spacer' }), tab === 'diff' && [h('span', { class: 'muted' }, 'Bars as wide as'),
			segmented('Bars as wide as', [['union', 'both', 'Bars are as wide as both sides together'], ['a', this.labels[0]], ['b', this.labels[1]]], width, (w) => set({ width: w === 'union' ? null : w }))]);
		flame.root.hidden = !isGraph;
		this.extra.hidden = isGraph;
		if (isGraph) flame.update(this.source(tab, width), shown);
		else fill(this.extra, tab === 'charts' ? this.charts() : h('pre', { class: 'mono viewer-head' }, about.head), files());
	}

	private charts(): (HTMLElement | undefined)[] {
		return [about.over_time && overTime(about.over_time, this.labels, shown, set), h('h2', {}, 'Whole runs'), charts(about.metrics, this.labels)];
	}

	private source(tab: 'diff' | 'a' | 'b', width: Width): Source {
		if (tab !== 'diff') return { path: tab, query: [], local: this.sides[tab], summary: `${about[tab].label} by itself${this.n ? ', the mean of its runs' : ''}` };
		const { scale, labels, n, isTested, text } = this;
		return {
			path: `diff/${width}`, query: [], options: { scale, width }, local: this.trees[width], side: this.table, text: width === 'union' ? (v) => text(v / 2) : text,
			paint: (t, isWhole) => paintDiff(t, { scale, isTested: isTested && isWhole, labels, panels: about.panels && isWhole }), panelTitle: about.panels ? (t, i) => panelTitle(t, i, { scale, text, labels }) : undefined, describe: (t, i) => describeDiff(t, i, { scale, text, labels, n }),
			summary: `${about.type || 'value'} in ${unitName(raw.unit)}, ${labels[1]} against ${labels[0]}; bars are as wide as ${width === 'union' ? 'both together' : about[width].label}`,
		};
	}
}

function difference(): void {
	const d = new Difference();
	update = () => d.update();
}

/* ---- the page ---- */

function start(): void {
	document.documentElement.classList.add('live');
	document.title = about.title || document.title;
	document.body.prepend(h('header', { class: 'top viewer-top' }, h('h1', { class: 'viewer-title', title: about.title }, about.title || 'Flame graph'), about.subtitle && h('span', { class: 'muted viewer-subtitle', title: about.subtitle }, about.subtitle), h('span', { class: 'spacer' }), shareButton('Copies this page’s address, which leads to this picture'), keysButton(), themeButton(shown.get('theme'), () => shown.has('theme') && set({ theme: null }, true))), main);
	if (about.kind === 'diff') difference();
	else graph();
	const follow = () => {
		shown = asked();
		update();
	};
	addEventListener('popstate', follow);
	document.addEventListener('sonde-share', () => void copy(`${location.href.split('#')[0]}#${changed(shown, { theme: sharedTheme() })}`, 'Link'));
	document.addEventListener('keydown', flame.onKey);

	document.addEventListener('DOMContentLoaded', () => document.getElementById('plain')?.remove());
	update();
}

start();
