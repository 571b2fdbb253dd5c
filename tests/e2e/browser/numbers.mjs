// One number wherever the web interface shows it: a selection compared with itself.
import assert from 'node:assert/strict';
import { open, rows } from './scenarios.mjs';

const heads = (page) => page.locator('.totals .total strong').allTextContents();

async function shows(page, shown) {
	const cores = Number(shown.split(' ')[0]);
	await page.waitForFunction((text) => document.querySelector('.totals .total strong')?.textContent === text, shown);
	assert.deepEqual((await heads(page)).slice(0, 2), [shown, shown], 'heads');
	await page.waitForFunction((text) => [...document.querySelectorAll('.plot-legend .legend-value')].map((e) => e.textContent).join() === text, `mean ${shown},mean ${shown}`);
	for (const most of await page.evaluate(() => document.querySelector('.plot').plot.lines.map((l) => Math.max(...l.points.map(([, v]) => v))))) assert.ok(Math.abs(most - cores) < 1e-6, `points of the plot: ${most}`);
	// The table's rows come from another thread than the heads, a moment later.
	const row = rows(page).filter({ hasText: 'work' }).first();
	await row.filter({ hasText: shown.replace(' cores', '') }).waitFor();
	const cells = row.locator('.cell');
	assert.deepEqual([await cells.nth(1).textContent(), await cells.nth(2).textContent()], Array(2).fill(shown.replace(' cores', '')), 'table');
	const box = await page.locator('.flame-canvas').first().boundingBox();
	await page.mouse.move(box.x + 20, box.y + 9);
	await page.waitForFunction((text) => document.querySelector('.tooltip:not([hidden])')?.textContent.includes(text), shown);
	await page.mouse.move(0, 0);
}

const legend = (page, text) => page.waitForFunction((t) => [...document.querySelectorAll('.plot-legend .legend-value')].some((e) => e.textContent === t), `mean ${text}`);

/** Per instance as Compare begins, then of the service, and the table's totals change nothing of it. Explore and Functions begin with the service. */
export async function one_number({ page, url, compare, range, instance, service }) {
	await open(page, `${url}compare?${compare}`);
	await shows(page, instance);
	await page.getByRole('button', { name: 'Service', exact: true }).click();
	await shows(page, service);
	await page.getByRole('button', { name: 'Total', exact: true }).click();
	await shows(page, service);
	for (const path of ['', 'functions']) {
		await page.goto(`${url}${path}?${range}`);
		await legend(page, service);
		await page.getByRole('button', { name: 'Per instance', exact: true }).click();
		await legend(page, instance);
		await page.locator('.facts', { hasText: 'cores per instance, a point' }).waitFor();
		await page.getByRole('button', { name: 'Service', exact: true }).click();
		await legend(page, service);
	}
}
