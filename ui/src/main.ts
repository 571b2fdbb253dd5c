// SPDX-License-Identifier: Apache-2.0
//
// The frame of all pages.
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { copy, fill, h, iconButton } from './dom';
import { openPopover } from './popover';
import { ComparePage } from './pages/compare';
import { ConfigPage } from './pages/config';
import { ExplorePage } from './pages/explore';
import { FilesPage } from './pages/files';
import { FunctionsPage } from './pages/functions';
import { StoragePage } from './pages/storage';
import { DiscoveryPage, TargetsPage } from './pages/targets';
import { href, pageName, params, changed, start } from './router';
import { instant, isRelative, readRange } from './time';

type Theme = 'auto' | 'light' | 'dark';
const THEMES: Theme[] = ['auto', 'light', 'dark'];
const KEYS: [string, string][] = [
	['0', 'the whole graph'], ['i', 'turn the graph over'], ['t', 'table or graph'], ['/ or Ctrl-F', 'search'], ['n, N', 'next and previous match'],
	['arrows', 'from frame to frame'], ['Enter', 'zoom into the frame'], ['m', 'menu of the frame'], ['s', 'callers and callees'], ['c', 'copy the name'], ['Esc', 'one step back'], ['?', 'this list'],
];
const PAGES: [string, string][] = [['', 'Explore'], ['compare', 'Compare'], ['functions', 'Functions'], ['files', 'Files']];
const OTHERS: [string, string][] = [['targets', 'Targets'], ['service-discovery', 'Discovery'], ['config', 'Configuration'], ['flags', 'Flags'], ['status', 'Storage']];

function theme(): Theme {
	const t = localStorage.getItem('sonde.theme') as Theme | null;
	return t && THEMES.includes(t) ? t : 'auto';
}

function applyTheme(): void {
	const t = theme();
	if (t === 'auto') delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = t;
	document.dispatchEvent(new CustomEvent('sonde-theme'));
}

const nav = h('nav', { class: 'nav', 'aria-label': 'Pages' });
const themeBox = h('span');
const main = h('main', { id: 'main' });

function drawTheme(): void {
	const t = theme(), next = THEMES[(THEMES.indexOf(t) + 1) % THEMES.length];
	fill(themeBox, iconButton(t === 'auto' ? 'auto' : t === 'dark' ? 'moon' : 'sun', `Colours: ${t === 'auto' ? 'as the system' : t}`, () => {
		localStorage.setItem('sonde.theme', next);
		applyTheme();
		drawTheme();
	}, { class: 'icon-button theme' }));
}

function drawNav(name: string): void {
	const p = params(), kept = new URLSearchParams([...p].filter(([k]) => ['query', 'start', 'end', 'seconds'].includes(k)));
	fill(nav, PAGES.map(([page, title]) => h('a', { href: href(page, kept), 'aria-current': page === name ? 'page' : undefined }, title)),
		h('span', { class: 'nav-gap' }), OTHERS.map(([page, title]) => h('a', { href: href(page), class: 'minor', 'aria-current': page === name ? 'page' : undefined }, title)));
	nav.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }); // in a narrow window they do not all fit
}

function showKeys(anchor: HTMLElement): void {
	openPopover(anchor, h('div', { class: 'keys', tabindex: '-1' }, h('h3', {}, 'Keys'), h('dl', {}, KEYS.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)]))), 'Keys');
}

/** The address as it would show the same picture tomorrow: relative times become instants. */
function share(): void {
	const p = params(), now = Date.now() / 1e3, fixed: Record<string, string | null> = {};
	for (const suffix of ['', '_a', '_b']) {
		const r = readRange(p, suffix);
		if (suffix && !p.has(`start${suffix}`)) continue;
		fixed[`start${suffix}`] = isRelative(r.start) ? String(Math.floor(instant(r.start, now))) : r.start;
		fixed[`end${suffix}`] = isRelative(r.end) ? String(Math.ceil(instant(r.end, now))) : r.end;
		fixed[`seconds${suffix}`] = null;
	}
	void copy(href(pageName(), changed(p, { ...fixed, refresh: null })), 'Link');
}

const help = iconButton('help', 'Keys (?)', () => showKeys(help));
applyTheme();
drawTheme();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme);
document.addEventListener('sonde-share', share);
document.addEventListener('keydown', (e) => {
	if (e.key === '?' && !/^(INPUT|TEXTAREA|SELECT)$/.test((e.target as Element).tagName)) showKeys(help);
});
document.body.append(h('a', { class: 'skip', href: '#main' }, 'To the content'),
	h('header', { class: 'top' }, h('a', { class: 'brand', href: href('') }, h('img', { src: 'assets/icon.svg', alt: '', width: '22', height: '22' }), 'Sonde'), nav, help, themeBox), main);
start({
	'': { title: 'Explore', make: () => new ExplorePage() },
	compare: { title: 'Compare', make: () => new ComparePage() },
	files: { title: 'Files', make: () => new FilesPage() },
	functions: { title: 'Functions over time', make: () => new FunctionsPage() },
	targets: { title: 'Targets', make: () => new TargetsPage() },
	'service-discovery': { title: 'Service discovery', make: () => new DiscoveryPage() },
	config: { title: 'Configuration', make: () => new ConfigPage(false) },
	flags: { title: 'Command line', make: () => new ConfigPage(true) },
	status: { title: 'Storage', make: () => new StoragePage() },
}, main, drawNav);
