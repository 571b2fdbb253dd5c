// SPDX-License-Identifier: Apache-2.0
//
// What pictures say of themselves, and what files are called.
import type { Query } from '../api';
import { parse } from '../selector';
import { clockText, dateText, timeText } from '../time';
import { zoneText } from '../zone';

const MOST = 80; // letters of a file's name, its time and suffix aside

/** What a picture says of itself, and the name of its file. */
export interface Caption {
	name: string; // without suffix
	lines: string[];
}

const only = (query: Query, name: string) => query.find(([n]) => n === name)?.[1] ?? '';

/** As the scraper names its files: what it is of and when it begins, in what every file system takes. */
export function captionOf(query: Query, suffix = ''): Caption {
	const text = only(query, `query${suffix}`), selector = parse(text), [name = '', type = ''] = (selector?.type ?? '').split(':'), start = Number(only(query, `start${suffix}`)), end = Number(only(query, `end${suffix}`));
	const words = [type, ...(selector?.matchers ?? []).filter((m) => m.op === '=').map((m) => m.value)].map((word) => word.replace(/[^A-Za-z0-9._]+/g, '-').replace(/^-|-$/g, '')).filter(Boolean);
	return {
		name: `${words.join('-').slice(0, MOST)}-${new Date(start * 1e3).toISOString().replace(/[-:]|\.\d+/g, '')}`,
		lines: [`${name} · ${type} ${text.replace(/^[^{]*/, '')}`, `${timeText(start)} – ${dateText(start) === dateText(end) ? clockText(end) : timeText(end)} ${zoneText(start)}`],
	};
}
