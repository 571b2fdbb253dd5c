// SPDX-License-Identifier: Apache-2.0
//
// The frame of all pages.
import 'uplot/dist/uPlot.min.css';
import './app.css';
import './style.css';
import { copy, h } from './dom';
import { keysButton, shareButton, sharedTheme, themeButton } from './frame';
import { drawNav, nav, watch } from './nav';
import { BadRange } from './pages/bad_range';
import { ComparePage } from './pages/compare';
import { ConfigPage } from './pages/config';
import { ExplorePage } from './pages/explore';
import { FilesPage, takeDrops } from './pages/files';
import { FunctionsPage } from './pages/functions';
import { HealthPage } from './pages/health';
import { LinesPage } from './pages/lines';
import { ProfilesPage } from './pages/profiles';
import { StoragePage } from './pages/storage';
import { DiscoveryPage, TargetsPage } from './pages/targets';
import { onPrint } from './print';
import { Changes, again, changed, href, page, pageName, params, ranges, set, start } from './router';
import { readRange, resolve } from './time';
import { forgetWarnings, warnings } from './warnings';
import { sharedZone, zoneButton } from './zone_button';

const main = h('main', { id: 'main' });

/** The address as it would show the same picture tomorrow and in another zone: all times become instants. */
function share(): void {
	const p = params(), now = page()?.now, { changes = {}, note = '' } = page()?.shared?.(p) ?? {}, fixed: Changes = {};
	for (const suffix of now === undefined ? [] : ranges()) {
		if (suffix && !p.has(`start${suffix}`)) continue;
		const { start, end } = resolve(readRange(p, suffix), now);
		Object.assign(fixed, { [`start${suffix}`]: String(start), [`end${suffix}`]: String(end), [`seconds${suffix}`]: null });
	}
	void copy(href(pageName(), changed(p, { ...fixed, ...changes, refresh: null, theme: sharedTheme(), zone: sharedZone() })), 'Link', note);
}

document.addEventListener('sonde-share', share);
takeDrops();
document.body.append(h('a', { class: 'skip', href: '#main' }, 'To the content'),
	h('header', { class: 'top' }, h('a', { class: 'brand', href: href('') }, h('img', { src: 'assets/icon.svg', alt: '', width: '22', height: '22' }), 'Sonde'), nav.links, shareButton('Copies a link to this picture, with absolute times'), keysButton(), zoneButton(params().get('zone'), () => params().has('zone') ? set({ zone: null }, true) : undefined, again), themeButton(params().get('theme'), () => params().has('theme') && set({ theme: null }, true))), nav.within, warnings, main);
start({
	'': { title: 'Explore', make: () => new ExplorePage(), ranges: [''] },
	compare: { title: 'Compare', make: () => new ComparePage(), ranges: ['', '_a', '_b'] },
	files: { title: 'Files', make: () => new FilesPage() },
	functions: { title: 'Functions', make: () => new FunctionsPage(), ranges: [''] },
	lines: { title: 'Cost per line', make: () => new LinesPage(), ranges: [''] },
	profiles: { title: 'Profiles', make: () => new ProfilesPage(), ranges: [''] },
	targets: { title: 'Targets', make: () => new TargetsPage() },
	'service-discovery': { title: 'Discovery', make: () => new DiscoveryPage() },
	config: { title: 'Configuration', make: () => new ConfigPage(false) },
	flags: { title: 'Flags', make: () => new ConfigPage(true) },
	health: { title: 'Health', make: () => new HealthPage(), ranges: [''] },
	status: { title: 'Storage', make: () => new StoragePage() },
}, main, (name) => {
	forgetWarnings();
	drawNav(name, params());
}, (p, suffixes) => BadRange.of(p, suffixes));
watch();
onPrint(new AbortController().signal, () => undefined); // a page without drawings is light on paper too
