// SPDX-License-Identifier: Apache-2.0
//
// Targets with their state and last error, what discovery found beside what relabeling made of it, and the rules one by one.
import { Query, get } from '../api';
import { Child, fill, h } from '../dom';
import { set } from '../router';
import { integer, value } from '../units';
import { StatusPage, badge, choices, labelChips, since } from './status_page';

type Labels = Record<string, string>;
interface Scrape {
	lastError: string;
	lastScrape: string;
	lastScrapeDuration: number;
	health: string;
}
interface ActiveTarget extends Scrape {
	discoveredLabels: Labels;
	labels: Labels;
	scrapePool: string;
	scrapeUrl: string;
	scrapeInterval: string;
	scrapeTimeout: string;
	collapsedLabels: string;
	profiles: (Scrape & { name: string; scrapeUrl: string })[];
}
interface DroppedTarget {
	discoveredLabels: Labels;
	scrapePool: string;
}
interface Targets {
	activeTargets: ActiveTarget[];
	droppedTargets: DroppedTarget[];
	droppedTargetCounts: Record<string, number>;
}
interface Step {
	rule: Record<string, unknown>;
	output: Labels;
	keep: boolean;
}

/** What a rule has without being written down. */
const RULE_DEFAULTS: Record<string, string> = { source_labels: '[]', separator: '";"', regex: '"(.*)"', modulus: '0', replacement: '"$1"' };
const MOST = 300; // rows drawn at a time

const keyOf = (t: DroppedTarget) => `${t.scrapePool}/${t.discoveredLabels.__address__ ?? ''}`;
const holds = (filter: string, ...texts: (string | Labels)[]) => !filter || texts.some((t) => (typeof t === 'string' ? t : Object.entries(t).map(([k, v]) => `${k}=${v}`).join(' ')).toLowerCase().includes(filter));

/** What each rule did: the rule in words, and the labels it changed. */
function drawSteps(before: Labels, steps: Step[]): Child {
	if (!steps.length) return h('p', { class: 'muted' }, 'The job has no relabel_configs: targets keep what discovery says.');
	let last = before, isDropped = false; // rules behind the one that drops see nothing
	return h('ol', { class: 'steps' }, steps.map((s) => {
		const marks: Record<string, string> = {}, shown: Labels = {};
		for (const [name, v] of Object.entries(s.output)) if (last[name] !== v) Object.assign(marks, { [name]: name in last ? 'changed' : 'added' }) && (shown[name] = v);
		for (const name of Object.keys(last)) if (!(name in s.output)) {
			marks[name] = 'removed';
			shown[name] = last[name];
		}
		last = s.output;
		const wasDropped = isDropped;
		isDropped ||= !s.keep;
		const rule = Object.entries(s.rule).filter(([k, v]) => v !== '' && JSON.stringify(v) !== RULE_DEFAULTS[k]).map(([k, v]) => `${k}: ${typeof v === 'string' ? v : JSON.stringify(v)}`).join('  ');
		return h('li', {}, h('code', {}, rule), s.keep ? (Object.keys(shown).length ? labelChips(shown, marks) : h('span', { class: 'muted' }, 'changes nothing')) : wasDropped ? h('span', { class: 'muted' }, 'is not reached') : h('span', { class: 'problem' }, 'drops the target'));
	}));
}

function stepsBox(t: DroppedTarget, signal: AbortSignal, final?: Labels): HTMLElement {
	const box = h('div', { class: 'steps-box', role: 'region', 'aria-label': 'Relabel steps' }, h('p', { class: 'muted' }, 'Asking…'));
	const query: Query = [['scrapePool', t.scrapePool], ['labels', JSON.stringify(t.discoveredLabels)]];
	get<{ steps: Step[] }>('api/v1/targets/relabel_steps', query, signal, 'POST').then(({ steps }) =>
		fill(box, h('h4', {}, 'Discovered'), labelChips(t.discoveredLabels), h('h4', {}, 'relabel_configs'), drawSteps(t.discoveredLabels, steps), final && [h('h4', {}, 'Target'), labelChips(final)]),
	(e) => fill(box, h('p', { class: 'problem', role: 'alert' }, (e as Error).message)));
	return box;
}

abstract class TargetList extends StatusPage<Targets> {
	protected ask(signal: AbortSignal): Promise<Targets> {
		return get<Targets>('api/v1/targets', [], signal);
	}

	protected stepsButton(t: DroppedTarget, p: URLSearchParams): HTMLElement {
		const key = keyOf(t), isOpen = p.get('steps') === key;
		return h('button', { type: 'button', class: 'button small', 'data-key': `steps/${key}`, 'aria-expanded': String(isOpen), onclick: () => set({ steps: isOpen ? null : key }) }, 'Relabel steps');
	}

	protected none(t: Targets, filter: string): null {
		if (t.activeTargets.length + t.droppedTargets.length) this.panel.say('empty', 'No target matches', filter ? `None has “${filter}” in its address, labels or error.` : 'Choose All to see the others.', ['Show all', () => set({ filter: null, state: null, steps: null })]);
		else this.panel.say('empty', 'No targets', ['Discovery found none. ', h('a', { href: 'config' }, 'The configuration'), ' says where it looks: static_configs, files, DNS, Kubernetes and others; the log says when that fails.'], ['Ask again', () => this.load()]);
		return null;
	}

	protected more(n: number): Child {
		return n > MOST && h('p', { class: 'facts' }, `The first ${MOST} of ${integer(n)} are shown. The filter finds the others.`);
	}

	protected bySection<X extends DroppedTarget>(all: X[]): [string, X[]][] {
		const jobs = new Map<string, X[]>();
		for (const t of all) jobs.set(t.scrapePool, [...(jobs.get(t.scrapePool) ?? []), t]);
		return [...jobs].sort(([a], [b]) => a.localeCompare(b));
	}
}

export class TargetsPage extends TargetList {
	constructor() {
		super('Targets', 'Filter by address, label or error');
	}

	protected drawControls(t: Targets, p: URLSearchParams): Child {
		const down = t.activeTargets.filter((a) => a.health === 'down').length;
		return choices('Which', [['all', 'All'], ['down', `Down (${integer(down)})`]], p.get('state') === 'down' ? 'down' : 'all', (v) => set({ state: v === 'all' ? null : v }));
	}

	protected draw(t: Targets, p: URLSearchParams, filter: string): { body: Child; count?: string } | null {
		const wanted = t.activeTargets.filter((a) => (p.get('state') !== 'down' || a.health === 'down') && holds(filter, a.scrapeUrl, a.labels, a.lastError)), up = t.activeTargets.filter((a) => a.health === 'up').length;
		this.panel.body.hidden = false;
		if (!wanted.length) {
			if (p.get('state') === 'down' && !filter && t.activeTargets.length) this.panel.say('empty', 'No target is down', `All ${integer(t.activeTargets.length)} answered their last scrape, or were not asked yet.`, ['Show all', () => set({ state: null })]);
			else return this.none(t, filter);
			return null;
		}
		this.panel.clear();
		return { count: `${integer(up)} of ${integer(t.activeTargets.length)} up`, body: [this.bySection(wanted.slice(0, MOST)).map(([job, list]) => [
			h('h2', { class: 'section' }, job, h('span', { class: 'muted' }, ` ${list.filter((a) => a.health === 'up').length} of ${list.length} up`)),
			h('div', { class: 'cards' }, list.map((a) => this.card(a, p)))]), this.more(wanted.length),
		h('p', { class: 'facts' }, Object.values(t.droppedTargetCounts).some(Boolean) && [`Dropped by relabeling: ${integer(Object.values(t.droppedTargetCounts).reduce((x, y) => x + y, 0))}, see `, h('a', { href: 'service-discovery?state=dropped' }, 'Discovery'), '.'])] };
	}

	private card(a: ActiveTarget, p: URLSearchParams): HTMLElement {
		// The target's error is that of its main type, or of another with its name in front.
		const said = new Map<string, string[]>();
		for (const f of a.profiles) if (f.lastError) said.set(f.lastError, [...(said.get(f.lastError) ?? []), f.name]);
		return h('article', { class: `card is-${a.health}` },
			h('div', { class: 'card-head' }, badge(a.health), h('span', { class: 'mono card-url' }, a.scrapeUrl), h('span', { class: 'spacer' }),
				h('span', { class: 'muted num' }, `${since(a.lastScrape)}, took ${value(a.lastScrapeDuration, 'seconds')}; every ${a.scrapeInterval}`), this.stepsButton(a, p)),
			[...said].map(([error, names]) => h('p', { class: 'card-error' }, `${names.join(', ')}: ${error}`)), a.lastError && !said.size && h('p', { class: 'card-error' }, a.lastError),
			a.collapsedLabels && h('p', { class: 'card-error' }, `label_set_limit: ${a.collapsedLabels} became __other__`),
			labelChips(a.labels),
			h('div', { class: 'profiles' }, a.profiles.map((f) => h('span', { class: `profile is-${f.health}`, title: `${f.scrapeUrl}\n${since(f.lastScrape)}, took ${value(f.lastScrapeDuration, 'seconds')}` }, h('span', { class: 'dot', 'aria-hidden': 'true' }), f.name, f.health === 'up' ? '' : ` (${f.health})`))),
			p.get('steps') === keyOf(a) && stepsBox(a, this.life.signal, a.labels));
	}
}

export class DiscoveryPage extends TargetList {
	constructor() {
		super('Discovery', 'Filter by label');
	}

	protected drawControls(_t: Targets, p: URLSearchParams): Child {
		return choices('Which', [['all', 'All'], ['kept', 'Kept'], ['dropped', 'Dropped']], p.get('state') ?? 'all', (v) => set({ state: v === 'all' ? null : v }));
	}

	protected draw(t: Targets, p: URLSearchParams, filter: string): { body: Child; count?: string } | null {
		const state = p.get('state') ?? 'all', active = state === 'dropped' ? [] : t.activeTargets.filter((a) => holds(filter, a.discoveredLabels, a.labels)), dropped = state === 'kept' ? [] : t.droppedTargets.filter((d) => holds(filter, d.discoveredLabels));
		const all: (DroppedTarget & { labels?: Labels })[] = [...active, ...dropped], n = Object.values(t.droppedTargetCounts).reduce((x, y) => x + y, 0);
		this.panel.body.hidden = false;
		if (!all.length) return this.none(t, filter);
		this.panel.clear();
		return { count: `${integer(t.activeTargets.length)} kept, ${integer(n)} dropped`, body: [this.bySection(all.slice(0, MOST)).map(([job, list]) => [
			h('h2', { class: 'section' }, job, h('span', { class: 'muted' }, ` ${integer(list.filter((x) => x.labels).length)} of ${integer(list.length)} kept`)),
			h('div', { class: 'cards' }, list.map((x) => h('article', { class: `card ${x.labels ? 'is-up' : ''}` }, h('div', { class: 'found-labels' },
				h('div', {}, h('h3', {}, 'Discovered'), labelChips(x.discoveredLabels)), h('div', {}, h('h3', {}, x.labels ? 'Target' : 'Dropped'), x.labels ? labelChips(x.labels) : h('p', { class: 'muted' }, 'A rule of the job dropped it.')), this.stepsButton(x, p)),
			p.get('steps') === keyOf(x) && stepsBox(x, this.life.signal, x.labels))))]), this.more(all.length)] };
	}
}
