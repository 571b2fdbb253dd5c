// SPDX-License-Identifier: Apache-2.0
//
// The links at the top of every page: to what one works with, and to Status, which is the pages about the scraper itself. A mark at Status says
// that something is down.
import { get } from './api';
import { fill, h } from './dom';
import { href } from './router';
import { integer } from './units';

const WORK: [string, string][] = [['', 'Explore'], ['compare', 'Compare'], ['functions', 'Functions'], ['profiles', 'Profiles'], ['files', 'Files']];
const STATUS: [string, string][] = [['targets', 'Targets'], ['service-discovery', 'Discovery'], ['config', 'Configuration'], ['flags', 'Flags'], ['status', 'Storage'], ['health', 'Health']];
const KEPT = ['query', 'start', 'end', 'seconds']; // of the address, from one page to the next
const LOOK_MS = 60_000; // how often it is asked whether something is down

const links = h('nav', { class: 'nav', 'aria-label': 'Pages' });
const within = h('nav', { class: 'subnav', 'aria-label': 'Status', hidden: true });
const mark = h('span', { class: 'nav-mark', role: 'img', hidden: true });
export const nav = { links, within };

/** What is wrong, in words; empty when nothing is. */
export function troubles(targets: { health: string }[], runtime: { reloadConfigSuccess: boolean }): string[] {
	const down = targets.filter((t) => t.health === 'down').length;
	return [down ? `${integer(down)} of ${integer(targets.length)} ${targets.length === 1 ? 'target is' : 'targets are'} down` : '', runtime.reloadConfigSuccess ? '' : 'the configuration was not reloaded'].filter(Boolean);
}

async function look(): Promise<void> {
	if (document.hidden) return;
	try {
		const [{ activeTargets }, runtime] = await Promise.all([get<{ activeTargets: { health: string }[] }>('api/v1/targets', [['state', 'active']]), get<{ reloadConfigSuccess: boolean }>('api/v1/status/runtimeinfo')]);
		const said = troubles(activeTargets, runtime).join('; ');
		mark.hidden = !said;
		mark.title = said;
		mark.setAttribute('aria-label', said);
		showCurrent();
	} catch {
		mark.hidden = true; // a page that gets no answer says so itself
	}
}

export function drawNav(name: string, p: URLSearchParams): void {
	const kept = new URLSearchParams([...p].filter(([k]) => KEPT.includes(k))), isStatus = STATUS.some(([page]) => page === name);
	const current = (is: boolean, value = 'page') => (is ? value : undefined);
	fill(links, WORK.map(([page, title]) => h('a', { href: href(page, kept), 'aria-current': current(page === name) }, title)),
		h('span', { class: 'nav-gap' }), h('a', { href: href('targets'), 'aria-current': current(isStatus, 'true') }, 'Status', mark));
	within.hidden = !isStatus;
	fill(within, isStatus && STATUS.map(([page, title]) => h('a', { href: href(page), 'aria-current': current(page === name) }, title)));
	showCurrent();
}

/** In a narrow window they do not all fit. Only the bar moves: where the page is scrolled to is its reader's choice. */
function showCurrent(): void {
	for (const bar of [links, within]) {
		const box = bar.getBoundingClientRect(), at = bar.querySelector('[aria-current]')?.getBoundingClientRect(), room = parseFloat(getComputedStyle(bar).scrollPaddingInlineEnd) || 0;
		if (at) bar.scrollLeft += Math.min(at.left - box.left - room, 0) + Math.max(at.right - box.right + room, 0);
	}
}

export function watch(): void {
	void look();
	setInterval(() => void look(), LOOK_MS);
}
