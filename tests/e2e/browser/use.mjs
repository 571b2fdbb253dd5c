// What strangers stumbled over in the web interface, one function per story. As in scenarios.mjs each waits for conditions, never for times.
import assert from 'node:assert/strict';
import { fits } from './fits.mjs';
import { open, rows, settled, waitQuery } from './scenarios.mjs';

const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
const items = (page) => page.locator('.legend-item:visible');

/** More services than lines, in areas that add up to all; a legend to scroll and to search; what lacks a label says so. */
export async function stacks({ page, url, time, scratch }) {
	await open(page, `${url}?start=${time - 300}&end=${time + 300}&group_by=service_name`);
	await page.waitForFunction(() => document.querySelectorAll('.legend-item').length === 25);
	const labels = await page.locator('.legend-label').allTextContents();
	assert.deepEqual(labels, ['6 others', ...Array.from({ length: 24 }, (_, i) => `svc${String(i).padStart(2, '0')}`)], 'bare values, the largest first, others above them');
	const names = await functionsOf(page);
	assert.ok(names.includes('leaf') && !names.some((n) => n.startsWith('service_name=')), `groups are no functions: ${names.join()}`);
	const swatches = () => page.locator('.legend-item').evaluateAll((all) => Object.fromEntries(all.map((e) => [e.querySelector('.legend-label').textContent, e.querySelector('.swatch').style.background])));
	const before = await swatches();
	assert.equal(new Set(Object.values(before)).size, 25, 'no two colours are alike');
	// The top of the stack is the sum of all 30: 45 ms times 30 + 29 + … + 1.
	const sum = await page.evaluate(() => document.querySelector('.plot').plot.u.data[1].reduce((s, v) => s + v, 0) * document.querySelector('.plot').plot.options.step);
	assert.ok(Math.abs(sum - 0.045 * 465) < 1e-6, `${sum}`);
	await page.getByLabel('Search the legend').fill('svc1');
	assert.deepEqual(await items(page).locator('.legend-label').allTextContents(), Array.from({ length: 10 }, (_, i) => `svc1${i}`));
	await page.getByLabel('Search the legend').fill('');
	// The box beside the pointer.
	const box = await page.locator('.plot .u-over').boundingBox(), step = await page.evaluate(() => document.querySelector('.plot').plot.options.step);
	await page.mouse.move(box.x + (box.width * (300 - step / 2)) / 600, box.y + box.height * 0.9);
	const tip = page.locator('.plot-tip');
	await tip.waitFor();
	assert.deepEqual(await tip.locator('tr').evaluateAll((all) => all.map((r) => r.children[0].textContent)), ['svc00', 'svc01', 'svc02', 'svc03', 'svc04', '20 more', 'total'], 'the five largest');
	await page.screenshot({ path: `${scratch}/stacks.png` });
	await page.mouse.move(2, 2);
	await tip.waitFor({ state: 'hidden' });
	await page.getByRole('group', { name: 'Lines' }).getByRole('button', { name: 'Lines' }).click();
	await waitQuery(page, (p) => p.get('lines') === 'apart');
	await page.waitForFunction(() => document.querySelectorAll('.legend-item').length === 24);
	// Another query, in which the order is another: a service keeps its colour.
	await open(page, `${url}?start=${time - 300}&end=${time + 300}&group_by=service_name&query=${TYPE}{service_name=~"svc0[5-9]|svc2.|svc1[4-9]"}`);
	await page.waitForFunction(() => document.querySelectorAll('.legend-item').length === 21);
	const after = await swatches(), changed = Object.keys(after).filter((l) => after[l] !== before[l] && before[l]);
	assert.ok(changed.length <= 4, `only those change that shared a colour: ${changed.join()}`);
	// What lacks the label is a group of its own, here and in the graph, and can be chosen.
	await open(page, `${url}?start=${time - 300}&end=${time + 300}&group_by=version`);
	await page.waitForFunction(() => document.querySelectorAll('.legend-item').length === 2);
	assert.deepEqual(await page.locator('.legend-label').allTextContents(), ['1.0', 'without version']);
	await page.locator('.legend-item', { hasText: 'without version' }).dblclick();
	await waitQuery(page, (p) => p.get('query') === `${TYPE}{version=""}`);
	await page.waitForFunction(() => document.querySelector('.legend-total')?.textContent === '' && document.querySelectorAll('.legend-item').length === 1);
	for (const width of [400, 1280]) {
		await page.setViewportSize({ width, height: 860 });
		await open(page, `${url}?start=${time - 300}&end=${time + 300}&group_by=service_name`);
		await fits(page);
		if (width === 400) assert.ok(await page.locator('.plot-legend').evaluate((e) => e.scrollHeight > e.clientHeight), 'the legend scrolls');
	}
}

const functionsOf = (page) => page.locator('.table-row .function').allTextContents();

/** Fills that the graph shows, without greys. */
const colours = (page, canvas = '.flame-canvas') => page.evaluate((selector) => {
	const c = [...document.querySelectorAll(selector)].find((e) => e.checkVisibility()), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Map();
	for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255 && Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 34) seen.set(`${d[i]},${d[i + 1]},${d[i + 2]}`, (seen.get(`${d[i]},${d[i + 1]},${d[i + 2]}`) ?? 0) + 1);
	return [...seen].filter(([, n]) => n > 200).map(([colour]) => colour).sort();
}, canvas);

/** A click on a row marks the function in table and graph, and hides nothing; its menu is in sight. */
export async function marks({ page, url, time, scratch }) {
	await open(page, `${url}?start=${time - 300}&end=${time + 300}`);
	const all = await functionsOf(page), before = await colours(page), leaf = rows(page).filter({ hasText: 'leaf' });
	assert.ok(all.length >= 4 && before.length > 0, all.join());
	await leaf.click();
	await waitQuery(page, (p) => p.get('chosen') === 'leaf' && !p.has('search'));
	await settled(page);
	assert.deepEqual(await functionsOf(page), all, 'the other rows stay');
	assert.deepEqual(await page.locator('.table-row.is-marked .function').allTextContents(), ['leaf']);
	assert.deepEqual(await colours(page), before, 'and so do the colours');
	assert.equal(await page.evaluate(() => {
		const { view, shown } = document.querySelector('.panel-flame').flame;
		return shown.functions.name[shown.fn[view.selectedNode]];
	}), 'leaf', 'the graph goes to its widest frame');
	await page.screenshot({ path: `${scratch}/marks.png` });
	await page.reload();
	await page.locator('.table-row.is-marked').waitFor();
	await page.keyboard.press('Escape');
	await waitQuery(page, (p) => !p.has('chosen'));
	// The row's menu by its button: callers and callees, in colour although a search is on.
	await leaf.hover();
	await leaf.getByRole('button', { name: /^More/ }).click();
	await page.getByRole('menuitem', { name: /Callers and callees/ }).click();
	await waitQuery(page, (p) => p.get('sandwich') === 'leaf');
	await settled(page);
	const callers = await colours(page, '.sandwich .flame-canvas');
	await page.getByLabel('Search functions by regular expression').fill('^nothing$');
	await waitQuery(page, (p) => p.get('search') === '^nothing$');
	await page.waitForFunction(() => !document.querySelector('.table-row'));
	assert.deepEqual(await colours(page, '.sandwich .flame-canvas'), callers, 'what does not match keeps its colours');
	await open(page, `${url}?start=${time - 300}&end=${time + 300}`);
	// The frame's.
	const box = await page.locator('.flame-canvas').first().boundingBox();
	await page.mouse.move(box.x + 30, box.y + 19 + 9);
	await page.locator('.frame-menu:visible').click();
	await page.locator('.menu-heading', { hasText: 'main' }).waitFor();
	assert.ok(await page.getByRole('menuitem', { name: /Callers and callees/ }).isVisible());
	await page.keyboard.press('Escape');
}

/** The table has what the zoom shows, with its sums there. */
export async function scopes({ page, url, time }) {
	await open(page, `${url}?start=${time - 300}&end=${time + 300}&view=both&at=main&at=work`);
	assert.deepEqual((await functionsOf(page)).sort(), ['leaf', 'work']);
	const self = await page.locator('.table-row', { hasText: 'leaf' }).locator('.cell').nth(2).textContent();
	assert.match(self, /^66\.7%$/, 'shares are of all');
	await page.locator('.crumb', { hasText: 'all' }).click();
	await page.waitForFunction(() => document.querySelectorAll('.table-row').length > 3);
	await open(page, `${url}compare?query_a=${TYPE}{service_name="svc01"}&query_b=${TYPE}{service_name="svc00"}&start_a=${time - 300}&end_a=${time + 300}&start_b=${time - 300}&end_b=${time + 300}&per=run&at=main&at=work`);
	await page.waitForFunction(() => document.querySelectorAll('.table-row').length === 2);
	assert.match(await page.locator('.table-side .facts').textContent(), /below the frame that is zoomed into/);
	await rows(page).filter({ hasText: 'leaf' }).click();
	await waitQuery(page, (p) => p.get('chosen') === 'leaf');
	await page.locator('.table-row.is-marked').waitFor();
}

/** An error stands alone: no picture of a former query is below it. */
export async function errors({ page, url, time }) {
	for (const at of [`?start=${time - 300}&end=${time + 300}`, `compare?query_a=${TYPE}{}&query_b=${TYPE}{}&start_a=${time - 300}&end_a=${time + 300}&start_b=${time - 300}&end_b=${time + 300}&per=run`]) {
		await open(page, url + at);
		await page.route('**/api/v1/profile_types*', (route) => route.fulfill({ status: 500, body: 'disk on fire' }));
		await page.getByRole('button', { name: 'Earlier' }).last().click();
		await page.locator('.panel-plot .state-error').waitFor();
		await page.locator('.panel-flame .state-empty').waitFor();
		assert.equal(await page.locator('.flame-canvas:visible').count(), 0, 'the former picture is gone');
		assert.equal(await page.locator('.totals:visible').count(), 0, 'and so are its numbers');
		await page.unroute('**/api/v1/profile_types*');
		await page.goBack();
		await page.locator('.flame-canvas:visible').first().waitFor();
	}
	// Of a comparison only the difference fails: its lines have no unit.
	await page.locator('.panel-plot .u-over').waitFor();
	await page.route('**/api/v1/diff', (route) => route.fulfill({ status: 500, body: 'disk on fire' }));
	const lines = page.waitForResponse('**/api/v1/query_series');
	await page.getByRole('button', { name: 'Earlier' }).last().click();
	await lines;
	await page.locator('.panel-totals .state-error').waitFor();
	await page.locator('.panel-plot .plot').waitFor({ state: 'hidden' });
	assert.equal(await page.locator('.panel-plot .facts:visible').count(), 0, 'nor a note of the former ones');
	await page.unroute('**/api/v1/diff');
}

/** What is typed after a click on the button is the selector, and matchers alone are of the type that is chosen. */
export async function types({ page, url, time }) {
	await open(page, `${url}?start=${time - 300}&end=${time + 300}`);
	await page.locator('.mode').click();
	assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Selector');
	await page.keyboard.press('Control+a');
	await page.keyboard.type('{service_name="svc03"}');
	await page.keyboard.press('Escape'); // of the completion
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => p.get('query') === `${TYPE}{service_name="svc03"}` && !p.has('view') && !p.has('dir'));
	await page.waitForFunction(() => document.querySelector('.panel-flame .panel-body > .facts').textContent.startsWith('1.22\u202fs'));
}

/** Labels of other profile types are not offered. */
export async function offers({ page, url, time }) {
	await open(page, `${url}?start=${time - 300}&end=${time + 300}&query=${TYPE}{}`);
	await page.getByRole('button', { name: /Group by/ }).click();
	await page.getByRole('menuitemradio', { name: 'service_name' }).waitFor();
	assert.equal(await page.getByRole('menuitemradio', { name: 'bytes' }).count(), 0, 'bytes is a label of heap profiles');
	await open(page, `${url}?start=${time - 300}&end=${time + 300}&query=memory:inuse_space:bytes:space:bytes{}`);
	await page.getByRole('button', { name: /Group by/ }).click();
	await page.getByRole('menuitemradio', { name: 'bytes' }).waitFor();
}

/** Values as long as paths of control groups: no page is wider for them. */
export async function longLabels({ page, url, time }) {
	for (const width of [1280, 400]) {
		await page.setViewportSize({ width, height: 860 });
		for (const colour of ['function', 'kind']) {
			await open(page, `${url}?start=${time - 300}&end=${time + 300}&group_by=cgroup&colour=${colour}`);
			await fits(page);
		}
		assert.ok(await page.locator('.legend-label').evaluateAll((all) => all.some((e) => e.textContent.length >= 600)));
	}
}

/** On paper a page is light and whole, without controls; afterwards it is as before. */
export async function prints({ page, url, time, scratch }) {
	await page.emulateMedia({ colorScheme: 'dark' });
	await page.setViewportSize({ width: 1280, height: 500 });
	await open(page, `${url}?start=${time - 300}&end=${time + 300}&query=memory:inuse_space:bytes:space:bytes{}`);
	const heights = () => page.evaluate(() => [...document.querySelectorAll('.flame-canvas, .table-scroll, .plot-host canvas')].filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect().height));
	const before = await heights(), scroller = page.locator('.table-scroll');
	await scroller.evaluate((e) => (e.scrollTop = 300));
	await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
	await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
	assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
	assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('button:not(.range, .legend-item, .table-head button, .chip-text)')].filter((e) => e.checkVisibility()).map((e) => e.className)), [], 'no controls');
	const { rows: drawn, all, wide } = await page.evaluate(() => {
		const flame = document.querySelector('.panel-flame').flame;
		return { rows: Math.round(document.querySelector('.flame-canvas').getBoundingClientRect().height / 19), all: flame.shown.level.length - 1, wide: document.documentElement.scrollWidth };
	});
	assert.ok(drawn >= all, `${drawn} of ${all} rows of the graph`);
	assert.ok(await page.evaluate(() => document.querySelectorAll('.table-row').length === document.querySelector('.panel-flame').flame.table.table.sorted.length), 'all rows of the table');
	assert.equal(await rows(page).first().getAttribute('aria-rowindex'), '2', 'from the first on, however far it was scrolled');
	assert.equal(await scroller.evaluate((e) => e.scrollTop), 0);
	await page.screenshot({ path: `${scratch}/prints.png`, fullPage: true });
	// Pages without a graph too, and those that draw by themselves.
	for (const at of ['targets', `profiles?start=${time - 300}&end=${time + 300}&query=${TYPE}{}&by=service_name&rows=svc00&sel=${time - 300},${time + 300}`]) {
		await page.emulateMedia({ media: 'screen', colorScheme: 'dark' });
		await page.goto(url + at);
		await page.waitForFunction(() => !document.querySelector('[aria-busy=true]') && document.querySelector('.panel'));
		if (at !== 'targets') await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
		await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
		await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
		assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue('--surface')), '#ffffff', at);
		assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('.heat-canvas')].map((c) => c.getBoundingClientRect().width < 960)), at === 'targets' ? [] : [true]);
		assert.ok(await page.evaluate(() => [...document.querySelectorAll('.table-scroll')].every((e) => e.clientHeight === 26 * e.querySelectorAll('.table-row').length)), 'a table is as high as its rows');
	}
	await page.emulateMedia({ media: 'screen', colorScheme: 'dark' });
	await page.goBack();
	await page.goBack();
	await settled(page);
	await scroller.evaluate((e) => (e.scrollTop = 300));
	await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
	await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
	await page.emulateMedia({ media: 'screen', colorScheme: 'dark' });
	await page.evaluate(() => dispatchEvent(new Event('afterprint')));
	await settled(page);
	assert.deepEqual(await heights(), before, 'as before');
	assert.equal(await scroller.evaluate((e) => e.scrollTop), 300);
	const pdf = await page.pdf({ preferCSSPageSize: true, path: `${scratch}/prints.pdf` });
	assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
	return wide;
}

/** The graph is asked for once, also where the page learns later what else it can do; a table that it does not hold whole is asked for beside it. */
export async function asksOnce({ page, url, time }) {
	const asked = [];
	let free;
	const held = new Promise((done) => (free = done));
	page.on('request', (r) => asked.push(new URL(r.url()).pathname));
	await page.route('**/api/v1/flamegraph', async (route) => {
		await held;
		await route.continue();
	});
	await page.route('**/api/v1/status/flags', async (route) => route.fulfill({ json: { status: 'success', data: { 'web.speedscope-dir': '/speedscope' } } }));
	const top = page.waitForRequest('**/api/v1/top');
	await page.goto(`${url}?start=${time - 300}&end=${time + 300}&query=${TYPE}{}`);
	await top; // before the graph has come
	free();
	await settled(page);
	await page.getByRole('button', { name: 'Export' }).click();
	await page.getByRole('menuitem', { name: 'Open in speedscope' }).waitFor();
	assert.equal(asked.filter((path) => path === '/api/v1/flamegraph').length, 1);
	assert.equal(asked.filter((path) => path === '/api/v1/top').length, 1);
	assert.ok((await functionsOf(page)).includes('leaf'));
}
