// Pages that open from disk, and the same from a server: what a reader does with them, one function per story.
import assert from 'node:assert/strict';
import { fits } from './fits.mjs';
import { clickGraph, found, inked, rows, settled } from './scenarios.mjs';

const state = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1));
const waitState = (page, test) => page.waitForURL((url) => test(new URLSearchParams(url.hash.slice(1))), { waitUntil: 'commit' });
const picture = (page) => page.evaluate(() => document.querySelector('.flame-canvas').toDataURL());
const button = (page, group, name) => page.getByRole('group', { name: group }).getByRole('button', { name, exact: true });

/** Pixels of bars that are red, blue or violet. */
function coloured(page) {
	return page.evaluate(() => {
		const c = document.querySelector('.flame-canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, n = { red: 0, blue: 0 };
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) {
			if (d[i] > d[i + 2] + 20) n.red++;
			if (d[i + 2] > d[i] + 20) n.blue++;
		}
		return n;
	});
}

async function open(page, url) {
	const asked = [];
	page.on('request', (r) => r.url().startsWith('data:') || asked.push(r.url()));
	await page.goto(url);
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	await settled(page);
	assert.deepEqual(asked, [url.split('#')[0]], 'nothing but the page is asked for');
	assert.equal(await page.locator('#plain').count(), 0, 'what readers without script see is gone');
}

export async function page_graph({ page, context, url }) {
	await open(page, url);
	assert.ok((await inked(page)) > 0.02, 'the flame graph is drawn');
	assert.equal(await page.locator('h1').textContent(), 'a </script> & b');
	await clickGraph(page, 2, 0.1);
	await waitState(page, (p) => p.getAll('at').length === 2);
	await settled(page);
	assert.deepEqual(state(page).getAll('at'), ['main', 'work']);
	await page.keyboard.press('/');
	await page.keyboard.type('^<leaf>$');
	await waitState(page, (p) => p.get('search') === '^<leaf>$');
	assert.equal(await found(page).textContent(), '75.0%');
	assert.deepEqual(await page.locator('.table-row .function').allTextContents(), ['<leaf>']);
	await page.locator('.flame-canvas').first().focus();
	await settled(page);
	await page.getByRole('button', { name: 'Share' }).click();
	await page.locator('.toast').waitFor();
	const link = await page.evaluate(() => navigator.clipboard.readText()), other = await context.newPage();
	await open(other, link);
	assert.equal(await picture(other), await picture(page), 'a shared link shows the same picture');
	assert.deepEqual(await other.locator('.crumb').allTextContents(), ['all', 'main', 'work']);
	await other.close();
	await page.goBack();
	await waitState(page, (p) => !p.has('at'));
	await clickGraph(page, 2, 0.1, { button: 'right' });
	assert.equal(await page.getByRole('menuitem', { name: /Without stacks with it/ }).count(), 0, 'there is no server to ask');
	await page.getByRole('menuitem', { name: /Callers and callees/ }).click();
	await page.locator('.sandwich-head').waitFor();
	await page.keyboard.press('0');
	await waitState(page, (p) => !p.has('sandwich'));
	await page.keyboard.press('t');
	await waitState(page, (p) => p.get('view') === 'table');
	await page.keyboard.press('f');
	await waitState(page, (p) => p.get('names') === 'full');
	assert.deepEqual((await page.locator('.table-row .function').allTextContents()).sort(), ['<leaf>', 'main', 'rest</script>', 'work']);
}

/** work_3 is half of what it was, work_5 four times as much, five runs a side. */
export async function page_diff({ page, url }) {
	await open(page, url);
	const { red, blue } = await coloured(page);
	assert.ok(red > 1000 && blue > 300, `more is red, less is blue: ${red}, ${blue}`);
	assert.match(await page.locator('.totals').textContent(), /before.*after <1>.*5 runs/);
	assert.match(await page.locator('.flame-legend').textContent(), /less in after <1>.*not significant.*more in after <1>\+new in after <1>−gone in after <1>/);
	assert.match(await page.locator('.panel-flame .panel-body > .facts').textContent(), /cpu in nanoseconds, after <1> against before/);
	const cells = Object.fromEntries(await rows(page).evaluateAll((all) => all.map((r) => [r.children[0].textContent, [r.children[4].textContent, r.children[5].textContent]])));
	assert.deepEqual([cells.old_only[0], cells.fresh[0], cells.work_5[1]], ['gone', 'new', '<0.001']);
	const box = await page.locator('.flame-canvas').boundingBox();
	await page.mouse.move(box.x + 10, box.y + 19 * 2 + 9);
	assert.match(await page.locator('.tooltip:visible').textContent(), /^work_5.*before \(n = 5\)after <1> \(n = 5\).* ± .*q < 0\.001$/);
	await page.getByRole('button', { name: 'New', exact: true }).click();
	await waitState(page, (p) => p.get('mark') === 'new');
	assert.deepEqual(await page.locator('.table-row .function').allTextContents(), ['fresh']);
	await page.getByRole('button', { name: 'All', exact: true }).click();
	await button(page, 'Bars as wide as', 'before').click();
	await waitState(page, (p) => p.get('width') === 'a');
	await page.waitForFunction(() => /as wide as before/.test(document.querySelector('.panel-flame .panel-body > .facts').textContent));
	await button(page, 'What is shown', 'after <1>').click();
	await waitState(page, (p) => p.get('tab') === 'b');
	await page.waitForFunction(() => /by itself/.test(document.querySelector('.panel-flame .panel-body > .facts').textContent));
	assert.ok(!(await page.locator('.table-row .function').allTextContents()).includes('old_only'), 'a side has only what is its own');
	await button(page, 'What is shown', 'Summary').click();
	assert.match(await page.locator('.viewer-head').textContent(), /Mann-Whitney p = 0\.0/);
	assert.deepEqual(await page.locator('.viewer-extra dd').first().locator('a').evaluateAll((all) => all.map((a) => a.getAttribute('href'))), [0, 1, 2, 3, 4].map((i) => `a/${i}.pb.gz`));
	assert.equal(await page.locator('.panel-flame').isVisible(), false);
}

export async function page_dark({ page, url }) {
	await page.emulateMedia({ colorScheme: 'dark' });
	await open(page, url);
	const light = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).reduce((a, b) => a + Number(b), 0) / 3);
	assert.ok((await light()) < 60, 'dark as the system says');
	const before = await picture(page);
	await page.locator('.theme').click();
	assert.ok((await light()) > 200, 'light as chosen');
	await settled(page);
	assert.notEqual(await picture(page), before, 'and so are the bars');
	await page.setViewportSize({ width: 400, height: 800 });
	await fits(page);
}

/** Single runs: what is no more than sampling error is grey. */
export async function page_single({ page, url }) {
	await open(page, url);
	const { red, blue } = await coloured(page);
	assert.ok(red > 1000 && blue > 300, `large changes have colours: ${red}, ${blue}`);
	const pale = await page.evaluate(() => {
		const c = document.querySelector('.flame-canvas'), d = c.getContext('2d').getImageData(0, 19 * 2 + 3, c.width, 1).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255 && Math.abs(d[i] - d[i + 2]) < 12) n++;
		return n / c.width;
	});
	assert.ok(pale > 0.6, `most functions are grey: ${pale}`);
}

/** No script: the picture and the table are there. */
export async function page_plain({ context, url }) {
	const page = await (await context.browser().newContext({ javaScriptEnabled: false })).newPage();
	await page.goto(url);
	assert.equal(await page.locator('#plain svg').isVisible(), true);
	assert.equal(await page.locator('#plain h2').textContent(), 'Top functions');
	await page.context().close();
}

/** What a server sends as a page runs under its own policy. */
export async function page_served({ page, url }) {
	const policy = (await page.request.get(url)).headers()['content-security-policy'];
	assert.match(policy, /script-src 'sha256-/);
	assert.doesNotMatch(policy, /script-src[^;]*unsafe/);
	await open(page, url);
	assert.ok((await inked(page)) > 0.02);
	await clickGraph(page, 1, 0.1);
	await waitState(page, (p) => p.has('at'));
}

/** Charts of what was measured of runs: whole ones, and over their time. */
export async function page_charts({ page, url }) {
	await open(page, url);
	await button(page, 'What is shown', 'Charts').click();
	await waitState(page, (p) => p.get('tab') === 'charts');
	const whole = page.locator('.charts:not(.over-time) .chart'), names = await whole.locator('strong').allTextContents();
	assert.ok(names.includes('wall time') && names.includes('max rss'), names.join());
	assert.equal(await whole.first().locator('circle').count(), 4);
	assert.match(await whole.first().textContent(), /slow.*fast.*not significant, p = 0\.\d+/);
	assert.equal(await page.locator('.chart .more, .chart .less, .strip-more, .strip-less').count(), 0, 'two runs a side support no change');
	assert.equal(await whole.locator('figcaption .muted').count(), await whole.count());
	assert.deepEqual(await page.locator('.viewer-extra dd a').evaluateAll((all) => all.map((a) => a.getAttribute('href'))), ['runs/slow-1.pb.gz', 'runs/slow-2.pb.gz', 'runs/fast-1.pb.gz', 'runs/fast-2.pb.gz']);
	// Over their time: two runs a side, their medians, their bands; keys read what the pointer does, in all charts at once.
	const cpu = page.getByRole('slider', { name: /^cpu over the runs/ });
	assert.equal(await cpu.locator('polyline.chart-a:not(.over-median)').count(), 2);
	assert.equal(await cpu.locator('polyline.chart-b.over-median').count(), 1);
	assert.notEqual(await cpu.locator('polygon.chart-b').getAttribute('points'), ' ');
	assert.match(await page.locator('.over-time .facts').textContent(), /2 of slow, 2 of fast.*50\.0% confidence/);
	await cpu.focus();
	await page.keyboard.press('ArrowRight');
	const said = await cpu.getAttribute('aria-valuetext');
	assert.match(said, /^[\d.]+.(ms|s): slow [\d.]+.cores, fast [\d.]+.cores$/);
	for (const text of await page.locator('.over-time .chart').allTextContents()) assert.ok(text.includes(`at ${said.split(':')[0]}`), text);
	await page.keyboard.press('End');
	assert.match(await cpu.getAttribute('aria-valuetext'), /fast –$/, 'runs of this side had ended');
	await button(page, 'Runs are aligned by', 'Progress').click();
	await waitState(page, (p) => p.get('align') === 'progress');
	assert.deepEqual(await page.locator('.chart-ends').first().locator('span').allTextContents(), ['0', '4']);
}
