// SPDX-License-Identifier: Apache-2.0
//
// The configuration in force as the scraper reads it, job by job with its defaults, and the command line.
import { Query, get } from '../api';
import { Child, copy, h } from '../dom';
import { set } from '../router';
import { StatusPage, plainTable } from './status_page';

interface Config {
	yaml: string;
	pools: string[];
	flags: [string, string][];
	job?: { name: string; yaml: string };
}

export class ConfigPage extends StatusPage<Config> {
	constructor(private readonly isFlags: boolean) {
		super(isFlags ? 'Flags' : 'Configuration', isFlags ? 'Filter by name or value' : undefined);
	}

	protected async ask(signal: AbortSignal): Promise<Config> {
		if (this.isFlags) return { yaml: '', pools: [], flags: Object.entries(await get<Record<string, string>>('api/v1/status/flags', [], signal)) };
		const [{ yaml }, { scrapePools }] = await Promise.all([get<{ yaml: string }>('api/v1/status/config', [], signal), get<{ scrapePools: string[] }>('api/v1/scrape_pools', [], signal)]);
		return { yaml, pools: scrapePools, flags: [] };
	}

	protected drawControls(c: Config, p: URLSearchParams): Child {
		const job = p.get('job') ?? '';
		const select: HTMLSelectElement = h('select', { class: 'select', 'aria-label': 'What is shown', 'data-key': 'job', onchange: () => set({ job: select.value || null }) },
			h('option', { value: '' }, 'The whole file'), c.pools.map((name) => h('option', { value: name }, `Job ${name}, with defaults`)));
		select.value = job;
		return !this.isFlags && select;
	}

	protected draw(c: Config, p: URLSearchParams, filter: string): { body: Child; count?: string } | null {
		if (this.isFlags) {
			const rows = c.flags.filter(([name, v]) => !filter || `${name}=${v}`.toLowerCase().includes(filter));
			this.panel.clear();
			return { count: `${rows.length} of ${c.flags.length}`, body: plainTable([['mono', 'Flag'], ['mono', 'Value']], rows.map(([name, v]) => [h('span', { class: 'flag' }, `--${name}`), v || h('span', { class: 'muted' }, 'not set')])) };
		}
		const job = p.get('job');
		if (job && c.job?.name !== job) {
			const query: Query = [['scrapePool', job]];
			void this.panel.run((signal) => get<{ yaml: string }>('api/v1/scrape_pools/config', query, signal), ({ yaml }) => {
				c.job = { name: job, yaml };
				this.show();
			}, () => this.show());
			return { body: null };
		}
		const text = job ? c.job!.yaml : c.yaml;
		this.panel.clear();
		return { body: [h('div', { class: 'code-head' }, h('span', { class: 'muted' }, 'As it is in force, without secrets.'), h('button', { type: 'button', class: 'button small', onclick: () => void copy(text, 'Configuration') }, 'Copy')), h('pre', { class: 'code', tabindex: '0' }, text)] };
	}
}
