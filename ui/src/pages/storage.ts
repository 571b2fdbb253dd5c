// SPDX-License-Identifier: Apache-2.0
//
// What the store holds: blocks one by one, the head, what stands in quarantine, and which labels make most series.
import { get } from '../api';
import { Child, h } from '../dom';
import { timeText } from '../time';
import { integer, value } from '../units';
import { StatusPage, factList, labelChips, plainTable, since } from './status_page';

interface Count {
	name: string;
	value: number;
}
interface Tsdb {
	headStats: { numSeries: number; numLabelPairs: number; numRows: number; numNodes: number; bytes: number; generations: number; minTime: number; maxTime: number };
	blocks: number;
	blockBytes: number;
	walSegments: number;
	walBytes: number;
	ingestStopped: boolean;
	ingestStopReason: string;
	seriesCountByMetricName: Count[];
	labelValueCountByLabelName: Count[];
	memoryInBytesByLabelName: Count[];
	seriesCountByLabelValuePair: Count[];
}
interface Block {
	ulid: string;
	minTime: number;
	maxTime: number;
	stats: { numSeries: number; numProfiles: number; numSamples: number; numBytes: number; numTombstones: number };
	compaction: { level: number };
	rollups: boolean;
}
interface Storage {
	tsdb: Tsdb;
	blocks: { blocks: Block[]; quarantined: { name: string; reason: string }[] };
	runtime: { startTime: string; reloadConfigSuccess: boolean; lastConfigTime: string; storageRetention: string };
	build: { version: string; revision: string; compiler: string };
}

const MOST = 500;
const when = (ms: number) => (ms ? timeText(ms / 1e3) : '–');

export class StoragePage extends StatusPage<Storage> {
	constructor() {
		super('Storage');
	}

	protected async ask(signal: AbortSignal): Promise<Storage> {
		const one = <T>(name: string) => get<T>(`api/v1/status/${name}`, [], signal);
		const [tsdb, blocks, runtime, build] = await Promise.all([one<Tsdb>('tsdb'), one<Storage['blocks']>('tsdb/blocks'), one<Storage['runtime']>('runtimeinfo'), one<Storage['build']>('buildinfo')]);
		return { tsdb, blocks, runtime, build };
	}

	protected draw(s: Storage): { body: Child; count?: string } {
		const t = s.tsdb, head = t.headStats, all = [...s.blocks.blocks].reverse();
		this.panel.clear();
		return { body: [
			t.ingestStopped && h('p', { class: 'card-error', role: 'alert' }, `Nothing is stored: ${t.ingestStopReason}`),
			!s.runtime.reloadConfigSuccess && h('p', { class: 'card-error', role: 'alert' }, 'The last reload of the configuration failed: the one before it is in force. The log says why.'),
			h('div', { class: 'columns' },
				factList([['Version', `${s.build.version} (${s.build.revision || 'no revision'})`], ['Compiler', s.build.compiler], ['Started', since(s.runtime.startTime)], ['Configuration read', since(s.runtime.lastConfigTime)], ['Kept for', s.runtime.storageRetention]]),
				factList([['Profiles from', when(head.minTime)], ['to', when(head.maxTime)], ['Blocks', `${integer(t.blocks)}, ${value(t.blockBytes, 'bytes')}`], ['Write-ahead log', `${integer(t.walSegments)} ${Number(t.walSegments) === 1 ? 'segment' : 'segments'}, ${value(t.walBytes, 'bytes')}`], ['In quarantine', integer(s.blocks.quarantined.length)]]),
				factList([['Head', value(head.bytes, 'bytes')], ['Series in it', integer(head.numSeries)], ['Rows in it', integer(head.numRows)], ['Stack nodes in it', integer(head.numNodes)], ['Generations', integer(head.generations)]])),
			s.blocks.quarantined.length > 0 && [h('h2', { class: 'section' }, 'Quarantine'), h('p', { class: 'muted' }, 'Damaged files are moved out of the way, and all else is served. sonde tsdb verify says what is wrong; what exporters still have is pulled again.'),
				plainTable([['mono', 'Name'], ['', 'Why']], s.blocks.quarantined.map((q) => [q.name, q.reason]))],
			h('h2', { class: 'section' }, 'Blocks'), all.length ? this.blocks(all) : h('p', { class: 'muted' }, 'None yet: what is new stays in the head, and in the write-ahead log, for two hours or until it is large.'),
			h('h2', { class: 'section' }, 'Series of the last hour'), this.counts(t)] };
	}

	private blocks(all: Block[]): Child {
		const largest = Math.max(...all.map((b) => b.stats.numBytes));
		return [plainTable([['num', 'From'], ['num', 'To'], ['number', 'Size'], ['number', 'Series'], ['number', 'Profiles'], ['number', 'Rows'], ['number', 'Level'], ['', 'Notes'], ['mono', 'ULID']], all.slice(0, MOST).map((b) => [
			when(b.minTime), when(b.maxTime), h('span', { class: 'meter' }, h('span', { class: 'meter-bar', style: { width: `${(b.stats.numBytes / largest) * 100}%` } }), h('span', { class: 'num' }, value(b.stats.numBytes, 'bytes'))),
			integer(b.stats.numSeries), integer(b.stats.numProfiles), integer(b.stats.numSamples), String(b.compaction.level),
			[b.rollups && 'rollups', b.stats.numTombstones > 0 && `${b.stats.numTombstones} deletions pending`].filter(Boolean).join(', '), b.ulid])),
		all.length > MOST && h('p', { class: 'facts' }, `The newest ${MOST} of ${integer(all.length)}.`)];
	}

	private counts(t: Tsdb): Child {
		const table = (title: string, list: Count[], unit: string, name: (c: Count) => Child) => h('div', {}, plainTable([['', title], ['number', unit === 'bytes' ? 'Size' : 'Number']], list.map((c) => [name(c), value(c.value, unit)])));
		const text = (c: Count) => h('span', { class: 'mono' }, c.name);
		if (!t.seriesCountByMetricName.length) return h('p', { class: 'muted' }, 'Nothing was stored in the last hour.');
		return h('div', { class: 'columns' }, table('Series by name', t.seriesCountByMetricName, 'count', text), table('Values by label', t.labelValueCountByLabelName, 'count', text),
			table('Bytes by label', t.memoryInBytesByLabelName, 'bytes', text), table('Series by pair', t.seriesCountByLabelValuePair, 'count', (c) => labelChips({ [c.name.split('=')[0]]: c.name.slice(c.name.indexOf('=') + 1) })));
	}
}
