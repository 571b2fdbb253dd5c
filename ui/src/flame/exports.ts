// SPDX-License-Identifier: Apache-2.0
//
// What the Export menu has for a flame graph that the scraper answered with.
import { Query, address } from '../api';
import type { MenuItem } from '../popover';
import { askedNames } from '../names';
import { params } from '../router';
import { MAX_NODES } from './address';
import { captionOf } from './caption';

export function exportLinks(path: { profile: string; graph: string; top: string }, query: Query): MenuItem[] {
	const { name } = captionOf(query);
	const link = (p: string, format: string, extension: string, label: string, more: Query = []): MenuItem => ({ label, hint: extension, href: address(p, [...query, ['format', format], ...more]), download: `${name}.${extension}` });
	const names = askedNames(params());
	return [link(path.profile, 'pprof', 'pb.gz', 'pprof'), link(path.graph, 'folded', 'folded', 'Folded stacks'), link(path.graph, 'speedscope', 'speedscope.json', 'speedscope'),
		link(path.graph, 'svg', 'svg', 'Picture (SVG)', names), link(path.graph, 'html', 'html', 'Page (HTML)', [...names, ['max_nodes', MAX_NODES]]), link(path.top, 'csv', 'csv', 'Functions (CSV)'), link(path.graph, 'json', 'json', 'Arrays (JSON)')];
}
