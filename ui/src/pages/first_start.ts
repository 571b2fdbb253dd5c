// SPDX-License-Identifier: Apache-2.0
//
// What stands where nothing is stored yet: without targets a configuration to start from, else what the targets say.
import { get } from '../api';
import { Child, copy, h } from '../dom';
import { integer } from '../units';

const CONFIGURATION = `scrape_configs:
  - job_name: nodes                       # a Sonde exporter on each node
    static_configs:
      - targets: ['127.0.0.1:7273']
  - job_name: go                          # programs with net/http/pprof
    profiling_config: {preset: go}
    static_configs:
      - targets: ['127.0.0.1:6060']
`;

function configuration(): Child {
	return h('div', { class: 'first-start' }, h('p', {}, 'No target is configured. Put the addresses of yours into the file of --config.file, and send SIGHUP to the scraper:'),
		h('pre', { class: 'code', tabindex: '0' }, CONFIGURATION), h('button', { type: 'button', class: 'button small', onclick: () => void copy(CONFIGURATION, 'Configuration') }, 'Copy'));
}

/** For an empty store. */
export async function firstStart(signal: AbortSignal): Promise<Child> {
	const { activeTargets: all } = await get<{ activeTargets: { health: string }[] }>('api/v1/targets', [['state', 'active']], signal);
	if (!all.length) return configuration();
	const down = all.filter((t) => t.health === 'down').length, n = `${integer(all.length)} ${all.length === 1 ? 'target' : 'targets'}`;
	return [down ? `Of ${n} ${integer(down)} ${down === 1 ? 'is' : 'are'} down: ` : `${n} ${all.length === 1 ? 'is' : 'are'} scraped, and the first profiles come within seconds. `, h('a', { href: 'targets' }, 'Targets'), down ? ' says why.' : ' shows them.'];
}
