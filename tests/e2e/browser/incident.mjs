// An incident that is solved from the first page on, and CPU time that two jobs have. As in scenarios.mjs each waits for conditions, never for times.
import assert from 'node:assert/strict';
import { open, rows, settled, waitQuery } from './scenarios.mjs';

const legend = (page) => page.locator('.legend-label');
const facts = (page) => page.locator('.panel-flame .panel-body > .facts');

async function groupBy(page, label) {
	await page.getByRole('button', { name: /^(Group by|By )/ }).click();
	await page.getByRole('menuitemradio', { name: label, exact: true }).click();
	await waitQuery(page, (p, l) => p.getAll('group_by').includes(l), label);
	await settled(page);
}

/** Five actions: when, which service, it alone, which thread, which line. */
export async function incident({ page, url, when, scratch }) {
	await open(page, `${url}?utc=1`);
	await page.locator('.range').click();
	await page.keyboard.type(when);
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => p.has('start') && p.has('end'));
	await settled(page);

	await groupBy(page, 'service_name');
	assert.equal(await legend(page).first().textContent(), 'orders-api', 'the largest is first');

	await legend(page).first().dblclick();
	await waitQuery(page, (p) => p.get('query').includes('service_name="orders-api"'));
	await settled(page);

	await groupBy(page, 'thread_name');
	assert.match(await legend(page).first().textContent(), /http-worker-2$/);
	await page.screenshot({ path: `${scratch}/incident.png` });
	const first = rows(page).first();
	assert.equal(await first.locator('.function').textContent(), 'escape_html', 'what it does itself is first');
	assert.match(await first.textContent(), /85\.1%/);

	await first.hover();
	await first.getByRole('button', { name: /^More/ }).click();
	await page.getByRole('menuitem', { name: 'Cost per source line' }).click();
	await page.locator('.lines .has-cost').waitFor();
	assert.equal(await page.locator('.lines .has-cost .line-number').textContent(), '10');
	assert.match(await page.locator('.section').textContent(), /\/src\/orders-api\/main\.cc/);
}

/** A sum that has a program twice says so and counts one job; who asks for both is offered one. */
export async function overlap({ page, url, start, end }) {
	const type = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
	for (const at of ['', 'functions']) {
		await page.goto(`${url}${at}?start=${start}&end=${end}`);
		await page.getByText('without “app”: “node” has their processes too').waitFor();
		await page.goto(`${url}${at}?start=${start}&end=${end}&query=${encodeURIComponent(`${type}{}`)}`);
		await page.getByRole('button', { name: 'Only “node”' }).click();
		await waitQuery(page, (p) => p.get('query').includes('job="node"'));
		await page.getByText('counts it twice').waitFor({ state: 'detached' });
	}
	await open(page, `${url}?start=${start}&end=${end}`);
	assert.match(await facts(page).textContent(), /^45\.0\s?s /, 'the node has both programs, 30 s and 15 s');
	await open(page, `${url}?start=${start}&end=${end}&query=${encodeURIComponent(`${type}{}`)}`);
	assert.match(await facts(page).textContent(), /^(75\.0\s?s|1\.25\s?min) /, 'what is asked for is shown, with the note');
	assert.match(await page.locator('.panel-plot .facts').textContent(), /counts it twice/);
}
