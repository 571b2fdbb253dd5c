// Stories of the pages that show the scraper itself. As in scenarios.mjs each waits for conditions, never for times.
import assert from 'node:assert/strict';
import { waitQuery } from './scenarios.mjs';

/** At 400 pixels nothing may be wider than the window, in either theme. */
async function fitsNarrow(page) {
	await page.setViewportSize({ width: 400, height: 800 });
	for (const colorScheme of ['dark', 'light']) {
		await page.emulateMedia({ colorScheme });
		const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
		assert.ok(over <= 0, `the page is ${over} pixels too wide`);
	}
	await page.setViewportSize({ width: 1280, height: 860 });
}

export async function targets({ page, url }) {
	await page.goto(`${url}targets`);
	const cards = page.locator('.card');
	await cards.first().waitFor();
	assert.equal(await page.title(), 'Targets · Sonde');
	assert.equal(await cards.count(), 2);
	await page.getByText('1 of 2 up', { exact: true }).first().waitFor();
	await page.getByRole('button', { name: 'Down (1)' }).click();
	await waitQuery(page, (p) => p.get('state') === 'down');
	assert.equal(await cards.count(), 1);
	assert.match(await page.locator('.card-error').first().textContent(), /^process_cpu: .*connect/);
	assert.equal(await page.evaluate(() => document.activeElement.dataset.value), 'down', 'the choice keeps the focus');
	// What came from outside stays text.
	assert.ok((await page.locator('.label').allTextContents()).includes('team=<b>shop</b>'));
	await page.getByRole('button', { name: 'Relabel steps' }).click();
	await waitQuery(page, (p) => p.get('steps') === 'app/127.0.0.1:1');
	await page.locator('.steps li').nth(2).waitFor();
	assert.match(await page.locator('.steps li').nth(1).textContent(), /target_label: host.*host=127\.0\.0\.1$/);
	assert.equal(await page.locator('.steps .label.removed').textContent(), 'env=production');
	await page.reload(); // the address holds all of it
	await page.locator('.steps li').nth(2).waitFor();
	await page.getByLabel('Filter by address').fill('no such target');
	await page.locator('.state-empty').waitFor();
	await page.getByRole('button', { name: 'Show all' }).click();
	await page.waitForFunction(() => document.querySelectorAll('.card').length === 2);
	await fitsNarrow(page);
}

export async function discovery({ page, url }) {
	await page.goto(`${url}service-discovery`);
	await page.locator('.card').first().waitFor();
	assert.equal(await page.locator('.card').count(), 3);
	await page.getByRole('button', { name: 'Dropped', exact: true }).click();
	await waitQuery(page, (p) => p.get('state') === 'dropped');
	assert.equal(await page.locator('.card').count(), 1);
	await page.getByRole('button', { name: 'Relabel steps' }).click();
	await page.getByText('drops the target').waitFor();
	await fitsNarrow(page);
}

export async function configuration({ page, url }) {
	await page.goto(`${url}config`);
	await page.locator('.code').waitFor();
	const whole = await page.locator('.code').textContent();
	assert.match(whole, /job_name: app/);
	await page.getByLabel('What is shown').selectOption('app');
	await waitQuery(page, (p) => p.get('job') === 'app');
	await page.waitForFunction((old) => document.querySelector('.code')?.textContent !== old, whole);
	assert.match(await page.locator('.code').textContent(), /scrape_timeout/);
	await page.getByRole('button', { name: 'Command line' }).click();
	await page.getByText('--web.route-prefix').waitFor();
	assert.ok(page.url().startsWith(`${url}flags`));
	await page.getByLabel('Filter by name').fill('retention');
	await waitQuery(page, (p) => p.get('filter') === 'retention');
	await page.waitForFunction(() => document.querySelectorAll('.plain tbody tr').length === 2);
	await fitsNarrow(page);
	await page.goto(`${url}config?job=none`);
	await page.locator('.state-error').waitFor();
	assert.match(await page.locator('.state-error').textContent(), /no scrape pool of that name/);
}

export async function storage({ page, url }) {
	await page.goto(`${url}status`);
	await page.getByRole('heading', { name: 'Quarantine' }).waitFor();
	const text = await page.locator('.panel-body').textContent();
	assert.match(text, /01HBADBADBADBADBADBADBADBA/);
	const blocks = page.locator('.plain', { hasText: 'ULID' }).locator('tbody tr');
	assert.ok((await blocks.count()) >= 1, 'the imported block');
	assert.match(await blocks.first().textContent(), /KiB/);
	assert.match(text, /service_name/);
	await fitsNarrow(page);
}

/** A scraper without targets and profiles: each page says what to do. */
export async function bare({ page, url }) {
	await page.goto(`${url}targets`);
	await page.locator('.state-empty').waitFor();
	assert.match(await page.locator('.state-empty').textContent(), /configuration/);
	await page.locator('.nav').getByRole('link', { name: 'Storage' }).click();
	await page.getByText('None yet').waitFor();
}
