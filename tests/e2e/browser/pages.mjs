// Stories of the pages that show the scraper itself. As in scenarios.mjs each waits for conditions, never for times.
import assert from 'node:assert/strict';
import { fits } from './fits.mjs';
import { waitQuery } from './scenarios.mjs';

/** At 400 pixels nothing may be wider than the window, in either theme. */
async function fitsNarrow(page) {
	await page.setViewportSize({ width: 400, height: 800 });
	for (const colorScheme of ['dark', 'light']) {
		await page.emulateMedia({ colorScheme });
		await fits(page);
	}
	await page.setViewportSize({ width: 1280, height: 860 });
}

export async function targets({ page, url }) {
	await page.goto(`${url}targets`);
	const cards = page.locator('.card');
	await cards.first().waitFor();
	assert.equal(await page.title(), 'Targets · Sonde');
	// All pages of the scraper itself are behind one link, which says that a target is down.
	assert.deepEqual(await page.locator('.nav a').allTextContents(), ['Explore', 'Compare', 'Functions', 'Profiles', 'Files', 'Status']);
	assert.deepEqual(await page.locator('.subnav a').allTextContents(), ['Targets', 'Discovery', 'Configuration', 'Flags', 'Storage', 'Health']);
	assert.equal(await page.locator('.subnav [aria-current=page]').textContent(), 'Targets');
	await page.locator('.nav').getByRole('img', { name: '1 of 2 targets are down' }).waitFor();
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
	for (const text of (await page.locator('.steps li').allTextContents()).slice(1)) assert.match(text, /is not reached$/);
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
	await page.locator('.subnav').getByRole('link', { name: 'Flags' }).click();
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

/** From a function's menu to what its lines cost, beside their text. */
export async function lines({ page, url }) {
	const type = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
	await page.goto(`${url}?query=${type}{build_id="new"}&start=now-1d&end=now`);
	const row = page.locator('.table-row', { hasText: 'leaf' }).first();
	await row.click({ button: 'right' });
	await page.getByRole('menuitem', { name: 'Cost per source line' }).click();
	await waitQuery(page, (p) => p.get('function') === 'leaf' && p.get('query').includes('build_id="new"'));
	const cost = page.locator('.lines .has-cost');
	await cost.waitFor();
	assert.match(await cost.textContent(), /30\.0.ms\s+66\.7%.*10line 10 <i>of<\/i> app\.c$/);
	assert.equal(await page.locator('.lines tbody tr').count(), 17, 'eight lines around it');
	assert.match(await page.locator('.section').textContent(), /\/src\/app\.c shown from src\/app\.c/);
	// Where it is known where a function begins it is shown as a whole, and what costs most is the strongest.
	await page.goto(`${url}lines?query=${type}{service_name="whole"}&start=now-1d&end=now&function=whole`);
	await cost.waitFor();
	const numbers = (await page.locator('.line-number').allTextContents()).map(Number).filter(Boolean);
	assert.deepEqual([numbers[0], numbers[numbers.length - 1], numbers.length], [3, 25, 23]);
	assert.equal(await cost.evaluate((e) => e.style.getPropertyValue('--cost')), '1');
	await fitsNarrow(page);
	await page.goto(`${url}lines?function=nothing&start=now-1d&end=now`);
	await page.locator('.state-empty').waitFor();
	await page.goto(`${url}lines`);
	await page.getByText('No function is chosen').waitFor();
}

/** The functions that speedscope lists of a profile, once it has read it. */
async function listed(other) {
	const said = [];
	other.on('console', (m) => m.type() === 'error' && said.push(m.text()));
	other.on('pageerror', (e) => said.push(String(e)));
	await other.getByText('Sandwich').click();
	await other.getByText('leaf', { exact: true }).first().waitFor().catch(async (e) => assert.fail(`${e.message}: ${said.join()}; it shows ${await other.locator('body').textContent()}`));
	assert.deepEqual(said, []);
	const text = await other.locator('body').textContent();
	return ['main', 'work', 'leaf', 'idle'].filter((name) => text.includes(name));
}

/** Opens a menu that is made when it opens, until it has that item. */
async function openMenuWith(page, button, name) {
	const opener = page.getByRole('button', { name: button }), item = page.getByRole('menuitem', { name });
	const end = Date.now() + 60_000;
	for (await opener.click(); !(await item.count()); await opener.click()) {
		assert.ok(Date.now() < end, `${button} has no ${name}`);
		await page.keyboard.press('Escape');
	}
}

/** The real one, as npm has it, under a policy of its own; it reads what is exported in each format that it knows. */
export async function speedscope({ page, context, url }) {
	const type = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds', all = ['main', 'work', 'leaf', 'idle'];
	await page.goto(`${url}?query=${type}{build_id="new"}&start=now-1d&end=now`);
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	await openMenuWith(page, 'Export', 'Open in speedscope'); // once the flags are known
	const exported = await Promise.all([/^pprof/, /^Folded/].map((name) => page.getByRole('menuitem', { name }).getAttribute('href')));
	const [other] = await Promise.all([context.waitForEvent('page'), page.getByRole('menuitem', { name: 'Open in speedscope' }).click()]);
	assert.deepEqual(await listed(other), all);
	assert.match(await other.locator('body').textContent(), /build_id="new"/);
	for (const address of exported) {
		const own = await context.newPage();
		await own.goto(`${url}speedscope/#profileURL=${encodeURIComponent(address)}`);
		assert.deepEqual(await listed(own), all, address);
	}
	const csp = (await page.request.get(`${url}speedscope/`)).headers()['content-security-policy'];
	assert.match(csp, /default-src 'none'; script-src 'self' 'wasm-unsafe-eval';.*connect-src 'self'/);
}

/** Presets put each build against the one before it, each in its own time. */
export async function builds({ page, url }) {
	const type = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
	await page.goto(`${url}compare?query_b=${type}{service_name="app"}`);
	const preset = page.getByRole('menuitem', { name: 'build_id: old → new' });
	await openMenuWith(page, 'Presets', 'build_id: old → new'); // once their labels are known
	assert.ok(await page.getByRole('menuitem', { name: 'build_id: older → old' }).count(), 'and the one before');
	await preset.click();
	await waitQuery(page, (p) => p.get('query_a') === `${p.get('query_b')?.replace('"new"', '"old"')}` && p.get('query_b').includes('build_id="new"'));
	const p = new URL(page.url()).searchParams;
	assert.ok(Number(p.get('end_a')) < Number(p.get('start_b')), 'A was before B');
	// Both have the same profile once.
	await page.waitForFunction(() => [...document.querySelectorAll('.total')].slice(0, 2).every((t) => t.textContent.includes('1 profiles')));
}

/** A scraper without targets and profiles: each page says what to do. */
export async function bare({ page, url }) {
	await page.goto(`${url}targets`);
	await page.locator('.state-empty').waitFor();
	assert.ok(await page.locator('.nav-mark').isHidden(), 'nothing is down');
	assert.match(await page.locator('.state-empty').textContent(), /configuration/);
	await page.locator('.subnav').getByRole('link', { name: 'Storage' }).click();
	await page.getByText('None yet').waitFor();
}

/** Of a node with an exporter, from what is stored. */
export async function health({ page, url, instance }) {
	await page.goto(`${url}health?start=now-5m&end=now`);
	const cells = page.locator('.plain tbody tr').first().locator('td');
	await cells.first().waitFor();
	assert.equal(await cells.nth(0).textContent(), instance);
	assert.match(await cells.nth(2).textContent(), /^\d[\d.]*%$/, 'own cost');
	assert.equal(await cells.nth(3).textContent(), '49.0 Hz');
	assert.match(await cells.nth(5).textContent(), /^\d[\d.]*%$/, 'whole stacks');
	assert.match(await cells.nth(7).textContent(), /^\d[\d.]*%$/, 'lost samples');
	assert.equal(await cells.nth(9).textContent(), '0.0%', 'lost time');
	const legend = await page.locator('.legend-label').allTextContents();
	assert.ok(legend.includes(instance) && legend.includes('complete'), legend.join());
	await page.getByLabel('Order').selectOption('whole');
	await waitQuery(page, (p) => p.get('sort') === 'whole');
	await page.getByLabel('Filter by node').fill('nobody');
	await page.getByText('No node has that in its name.').waitFor();
	await page.getByLabel('Filter by node').fill('');
	await fitsNarrow(page);
	await cells.nth(0).getByRole('link').click();
	await waitQuery(page, (p, name) => p.get('query')?.includes(`instance="${name}"`) && p.get('start') === 'now-5m', instance);
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
}

export async function unhealthy({ page, url }) {
	await page.goto(`${url}health`);
	await page.locator('.state-empty').waitFor();
	await page.getByRole('button', { name: 'Last 7 days' }).click();
	await waitQuery(page, (p) => p.get('start') === 'now-7d');
}
