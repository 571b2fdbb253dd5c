// What a copied link shows in another browser: everything that a person can set. One function per story, each waits for conditions.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { clickGraph, settled, waitQuery } from './scenarios.mjs';

const TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
const option = async (page, button, item) => {
	await page.getByRole('button', { name: button }).first().click();
	await page.getByRole('menuitemradio', { name: item }).first().click();
};
const press = (page, group, name) => page.getByRole('group', { name: group, exact: true }).getByRole('button', { name, exact: true }).click();

/** All that is set and drawn, but what a range is called and how long a query took. */
function seen(page) {
	return page.evaluate(() => {
		const all = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
		const name = (e) => e.getAttribute('aria-label') ?? e.textContent.replace(/mean .*$/, '');
		return {
			theme: [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor],
			controls: all('[aria-pressed], [aria-sort], .button:not(.range)').map((e) => [name(e), e.getAttribute('aria-pressed'), e.getAttribute('aria-sort')].join('|')),
			fields: all('input, select').map((e) => `${name(e)}=${e.value}`),
			chips: all('.chip, .crumbs, .single, .sandwich-head, .flame-legend, .side-head, .found').map((e) => e.textContent),
			rows: all('.table-row, .plain tr, .viewer-head, .file-list').map((e) => e.textContent),
			graphs: all('.flame-canvas, .heat-canvas').map((c) => `${c.width}×${c.height} ${c.toDataURL()}`),
			plots: all('.uplot canvas').map((c) => c.toDataURL()),
			charts: all('.chart svg').map((e) => e.outerHTML),
		};
	});
}

async function still(page) {
	await page.mouse.move(2, 2);
	await page.evaluate(() => document.activeElement?.blur());
	await page.waitForFunction(() => !document.querySelector('[aria-busy=true]') && ![...document.querySelectorAll('.flame-canvas')].some((c) => c.checkVisibility() && !c.width));
	let last = '';
	for (let equal = 0; equal < 3;) {
		const now = JSON.stringify(await seen(page));
		equal = now === last ? equal + 1 : 0;
		last = now;
		await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
	}
	return JSON.parse(last);
}

/** Copies the link and opens it in a browser that has never been here. */
async function elsewhere(page, context) {
	await page.locator('.toast').waitFor({ state: 'detached' });
	await page.locator('header').getByRole('button', { name: 'Share' }).click();
	const said = await page.locator('.toast').textContent(), link = await page.evaluate(() => navigator.clipboard.readText());
	const other = await (await context.browser().newContext({ viewport: page.viewportSize(), colorScheme: 'light' })).newPage();
	await other.goto(link);
	return { said, link, other };
}

async function same(page, context, ready = '.panel-flame .panel-body > .facts:not(:empty)') {
	const { link, other } = await elsewhere(page, context), mine = await still(page);
	await other.locator(ready).first().waitFor();
	const theirs = await still(other);
	for (const what of Object.keys(mine)) assert.deepEqual(theirs[what], mine[what], `${what} of ${link}`);
	await other.context().close();
	return new URL(link).searchParams;
}

export async function link_explore({ page, context, url }) {
	await page.goto(`${url}?start=now-3h&end=now`);
	await page.locator('.legend-item').first().waitFor();
	await option(page, /Group by/, 'service_name');
	await page.locator('.legend-item', { hasText: 'beta' }).click();
	await waitQuery(page, (p) => p.get('off') === 'service_name=beta');
	assert.equal(await page.locator('.legend-item', { hasText: 'beta' }).getAttribute('aria-pressed'), 'false');
	await page.locator('.theme').click(); // light
	await page.locator('.theme').click(); // dark, as the system is not
	await settled(page);
	const p = await same(page, context);
	assert.deepEqual([p.get('query'), p.get('theme')], [`${TYPE}{}`, 'dark'], 'what a bare address means is said');
	await page.getByRole('button', { name: 'Edit as text' }).click();
	await option(page, 'Options', 'Below (flame)');
	await option(page, 'Options', 'Kind of code');
	await option(page, 'Options', 'Chains of single calls');
	await page.getByRole('button', { name: 'Total', exact: true }).click();
	await page.getByLabel('Search functions by regular expression').fill('work|leaf');
	await waitQuery(page, (q) => q.get('search') === 'work|leaf' && q.get('sort'));
	await settled(page);
	assert.equal((await same(page, context)).get('text'), '1');
	await option(page, 'Options', 'Chains of single calls');
	await option(page, 'Options', 'On top (icicle)');
	await settled(page);
	await clickGraph(page, 3, 0.1);
	await waitQuery(page, (q) => q.getAll('at').length === 3);
	await press(page, 'View', 'Graph');
	await same(page, context);
	// A link without a theme leaves that to the reader, and a switch goes before the address.
	await page.locator('.theme').click();
	const { other, link } = await elsewhere(page, context);
	assert.ok(!new URL(link).searchParams.has('theme'));
	await other.goto(`${url}?theme=dark`);
	await other.locator('html[data-theme=dark]').waitFor();
	await other.locator('.theme').click();
	await waitQuery(other, (q) => !q.has('theme'));
	assert.equal(await other.locator('html[data-theme]').count(), 0);
	await other.context().close();
	// Relative times are those of what is shown, not of the click: an hour passes.
	await page.goto(`${url}?start=now-3h&end=now`);
	await page.locator('.legend-item').first().waitFor();
	const now = await page.evaluate(() => {
		const before = Date.now();
		Date.now = () => before + 3600e3;
		return before / 1e3;
	});
	const late = await elsewhere(page, context);
	assert.ok(Math.abs(Number(new URL(late.link).searchParams.get('end')) - now) < 300, late.link);
	await late.other.context().close();
}

/** Callers and callees, zoomed into; Escape leads out step by step. */
export async function link_sandwich({ page, context, url }) {
	await page.goto(`${url}?sandwich=work`);
	const panes = page.locator('.sandwich .flame-canvas');
	await panes.nth(1).waitFor();
	await settled(page);
	const pane = async (i, level) => {
		const box = await panes.nth(i).boundingBox(), rows = Math.round(box.height / 19);
		await page.mouse.click(box.x + 12, box.y + 19 * (i ? level : rows - 1 - level) + 9);
	};
	await page.evaluate(() => document.querySelector('.panel-flame').scrollIntoView());
	const before = await panes.nth(1).evaluate((c) => c.toDataURL());
	await pane(1, 1);
	await waitQuery(page, (p) => p.getAll('down').length === 1);
	await page.waitForFunction((old) => document.querySelectorAll('.sandwich .flame-canvas')[1].toDataURL() !== old, before);
	await same(page, context, '.sandwich .flame-canvas');
	await pane(1, 1); // out again
	await waitQuery(page, (p) => !p.has('down'));
	await pane(1, 1);
	await waitQuery(page, (p) => p.has('down'));
	await page.keyboard.press('Escape');
	await waitQuery(page, (p) => !p.has('down') && p.get('sandwich') === 'work');
	await page.goBack();
	await waitQuery(page, (p) => p.has('down'));
	await page.keyboard.press('0');
	await waitQuery(page, (p) => !p.has('down') && !p.has('sandwich'));
}

export async function link_compare({ page, context, url }) {
	await page.goto(`${url}compare?query_a=${TYPE}{service_name="alpha"}&query_b=${TYPE}{service_name="beta"}&start_b=now-1h&end_b=now&start_a=now-1h&end_a=now&per=run`);
	await page.locator('.side-head').waitFor();
	await press(page, 'Drag selects', 'A');
	await waitQuery(page, (p) => p.get('drag') === 'a');
	await page.locator('.legend-item', { hasText: 'B' }).click();
	await waitQuery(page, (p) => p.get('off') === 'B');
	await option(page, /^Panels/, 'thread_name');
	await page.waitForFunction(() => document.querySelector('.panel-flame .panel-body > .facts').textContent.includes('a panel per'));
	await press(page, 'Bars as wide as', 'B');
	await press(page, 'Counted', 'Total');
	await page.getByRole('button', { name: '%', exact: true }).click();
	await same(page, context, '.flame-panel .flame-canvas');
	await press(page, 'Mode', 'Share of total');
	await page.waitForFunction(() => document.querySelector('.totals').textContent.includes('shares'));
	await press(page, 'Rows', 'Changed');
	await option(page, /^Panels/, 'One graph');
	await settled(page);
	await same(page, context, '.side-head');
	await page.goto(`${url}compare`); // a bare address
	await page.locator('.totals strong').first().waitFor();
	await same(page, context, '.totals strong');
}

export async function link_pages({ page, context, url }) {
	// An answer that comes after a moment, too soon for a page to say that it waits.
	await page.route('**/api/v1/top_series*', async (route) => { await new Promise((done) => setTimeout(done, 90)); await route.continue(); });
	await page.goto(`${url}functions?start=now-1h&end=now`);
	await page.locator('.legend-item').first().waitFor();
	await press(page, 'How many', '5');
	await waitQuery(page, (p) => p.get('limit') === '5');
	await page.waitForFunction(() => !document.querySelector('[aria-busy=true]') && document.querySelectorAll('.legend-item').length > 1);
	const heights = () => page.evaluate(() => {
		const { u } = document.querySelector('.plot').plot;
		return u.series.map((s, i) => i && s.show ? u.data[i].reduce((most, v) => Math.max(most, v ?? 0), 0) : 0);
	});
	const [, whole] = await heights(), second = page.locator('.legend-item').nth(1), label = await second.locator('.legend-label').textContent();
	await second.focus();
	await page.keyboard.press('Enter');
	await waitQuery(page, (p, name) => p.get('off')?.split(' ')[0] === name, label);
	assert.equal(await page.evaluate(() => document.activeElement.querySelector('.legend-label').textContent), label, 'the focus stays');
	assert.ok((await heights())[1] < whole * 0.99, 'what is hidden is no part of the stack');
	await same(page, context, '.legend-item');
	await press(page, 'Counted', 'Total');
	await waitQuery(page, (p) => p.get('by') === 'total');
	await page.waitForFunction(() => document.querySelector('.facts').textContent.includes('totals overlap'));
	await same(page, context, '.legend-item');
	await page.goto(`${url}profiles?by=value`);
	await page.locator('.heat-names span').first().waitFor();
	const box = await page.locator('.heat-canvas').boundingBox();
	await page.mouse.move(box.x, box.y);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width, box.y + box.height * 0.3, { steps: 5 });
	await page.mouse.up();
	await waitQuery(page, (p) => p.has('sel'));
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	await same(page, context);
	await page.goto(`${url}lines?function=leaf`);
	await page.locator('.line-head strong').waitFor();
	await same(page, context, '.line-head strong');
	// Pages without a range get none.
	await page.goto(`${url}targets?filter=x`);
	await page.locator('.panel-status').waitFor();
	const { other, link } = await elsewhere(page, context);
	assert.equal(link, `${url}targets?filter=x`);
	await other.context().close();
}

/** No link holds a file. The page says so, and what is missing where the link leads. */
export async function link_files({ page, context, url, scratch }) {
	writeFileSync(`${scratch}/one.folded`, 'main;work;leaf 100\nmain;work;other 50\nmain;old 30\n');
	writeFileSync(`${scratch}/two.folded`, 'main;work;leaf 60\nmain;work;other 90\nmain;fresh 20\n');
	writeFileSync(`${scratch}/three.folded`, 'main;third 20\n');
	await page.goto(`${url}files`);
	await page.setInputFiles('#files', [`${scratch}/one.folded`, `${scratch}/two.folded`]);
	await page.getByRole('button', { name: 'B: two.folded' }).click();
	await page.locator('.side-head').waitFor();
	await waitQuery(page, (p) => p.getAll('file').join() === 'one.folded,two.folded');
	await settled(page);
	await clickGraph(page, 2, 0.1);
	await waitQuery(page, (p) => p.getAll('at').length === 2);
	const { said, other } = await elsewhere(page, context);
	assert.match(said, /^Link copied. It does not hold one\.folded and two\.folded: whoever follows it has to open these files there$/);
	await other.locator('.state-empty').waitFor();
	assert.match(await other.locator('.state-empty').textContent(), /one\.folded and two\.folded are not here.*links do not hold files/);
	await other.setInputFiles('#files', `${scratch}/two.folded`);
	await other.locator('.missing:visible').waitFor();
	assert.match(await other.locator('.missing:visible').textContent(), /^one\.folded is missing/);
	await other.setInputFiles('#files', `${scratch}/one.folded`);
	await other.locator('.side-head').waitFor();
	const mine = await still(page), theirs = await still(other);
	assert.deepEqual(theirs, mine, 'with its files the link shows the same, A and B as they were');
	await other.setInputFiles('#files', `${scratch}/three.folded`); // another one than the link is of
	await waitQuery(other, (p) => p.getAll('file').join() === 'three.folded' && !p.has('at'));
	assert.equal(await other.locator('.missing:visible').count(), 0);
	await other.getByRole('button', { name: 'B: two.folded' }).click();
	await waitQuery(other, (p) => p.getAll('file').join() === 'three.folded,two.folded');
	await other.getByRole('button', { name: 'Close three.folded' }).click();
	await waitQuery(other, (p) => p.getAll('file').join() === 'two.folded');
	await other.context().close();
}

/** A page from disk. */
export async function link_page({ page, context, url }) {
	await page.goto(url);
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	await press(page, 'What is shown', 'before');
	await page.getByLabel('Search functions by regular expression').fill('^main$');
	await page.locator('.table-row', { hasText: /^main/ }).first().click({ button: 'right' });
	await page.getByRole('menuitem', { name: /Callers and callees/ }).click();
	const callees = page.locator('.sandwich .flame-canvas').nth(1);
	await callees.waitFor();
	await settled(page);
	const box = await callees.boundingBox(), before = await callees.evaluate((c) => c.toDataURL());
	await page.mouse.click(box.x + 12, box.y + 19 + 9);
	await page.waitForURL((u) => new URLSearchParams(u.hash.slice(1)).has('down'), { waitUntil: 'commit' });
	await page.waitForFunction((old) => document.querySelectorAll('.sandwich .flame-canvas')[1].toDataURL() !== old, before);
	await page.locator('.theme').click();
	await page.locator('.theme').click();
	await same(page, context, '.sandwich .flame-canvas');
}
