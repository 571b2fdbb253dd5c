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
	const swatches = () => page.locator('.legend-item').evaluateAll((all) => Object.fromEntries(all.map((e) => [e.querySelector('.legend-label').textContent, e.querySelector('.swatch').style.background])));
	const before = await swatches();
	assert.equal(new Set(Object.values(before)).size, 25, 'no two colours are alike');
	// The top of the stack is the sum of all 30: 45 ms times 30 + 29 + … + 1, over ten seconds.
	const top = await page.evaluate(() => Math.max(...document.querySelector('.plot').plot.u.data[1]) * document.querySelector('.plot').plot.options.step / 10);
	assert.ok(Math.abs(top - 0.0045 * 465) < 1e-6, `${top}`);
	assert.ok(await page.locator('.plot-legend').evaluate((e) => e.scrollHeight > e.clientHeight), 'the legend scrolls');
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
	}
}
