// What a page began ends with it: timers, menus and requests of a page that was left do nothing to the next one.
import assert from 'node:assert/strict';
import { createServer, request as ask } from 'node:http';
import { clickGraph, open, settled } from './scenarios.mjs';

/** Goes to another page of the navigation, without a new document. */
const leave = (page, name = 'Files') => page.locator('.nav').getByRole('link', { name, exact: true }).evaluate((a) => a.click());

/** Until every timer is over that was set before and waits for less than this. */
const timersOver = (page, ms) => page.evaluate((n) => new Promise((done) => setTimeout(done, n)), ms);

/** Text is typed into a field and the page is left at once, in one go, so that no timer runs between. */
async function typesAndLeaves(page, field, text) {
	await page.locator(field).evaluate((input, typed) => {
		input.value = typed;
		input.dispatchEvent(new Event('input'));
		[...document.querySelectorAll('.nav a')].find((a) => a.textContent === 'Files').click();
	}, text);
	await page.waitForURL((u) => u.pathname.endsWith('/files'));
	await timersOver(page, 500);
	assert.equal(new URL(page.url()).search, '', `typed into ${field}`);
}

export async function leaves_fields({ page, url }) {
	await open(page, url);
	await typesAndLeaves(page, '.panel-flame .search input', 'leaf');
	await page.goto(`${url}targets`);
	await typesAndLeaves(page, 'input.filter', 'leaf');
}

export async function leaves_menus({ page, url }) {
	// One that is open.
	await open(page, url);
	await page.getByRole('button', { name: 'Select by label' }).click();
	await page.locator('.popover').waitFor();
	await leave(page);
	assert.equal(await page.locator('.popover').count(), 0, 'a form of a page that was left');
	// One that waits for its answer.
	await open(page, url);
	const asked = page.waitForEvent('request', (r) => r.url().includes('/api/v1/labels'));
	let answer;
	const may = new Promise((resolve) => (answer = resolve));
	await page.route('**/api/v1/labels**', async (route) => {
		await may;
		await route.continue();
	});
	await page.getByRole('button', { name: /Group by/ }).click();
	const request = await asked;
	await leave(page);
	answer();
	await request.response();
	await page.unroute('**/api/v1/labels**');
	await timersOver(page, 100);
	assert.equal(await page.locator('.popover').count(), 0, 'a menu of a page that was left');
	// One for which a finger has to stay where it is.
	await open(page, url);
	await page.locator('.flame-canvas').first().evaluate((c) => {
		const r = c.getBoundingClientRect();
		c.dispatchEvent(new PointerEvent('pointerdown', { pointerType: 'touch', clientX: r.left + 20, clientY: r.top + 47, bubbles: true }));
		[...document.querySelectorAll('.nav a')].find((a) => a.textContent === 'Files').click();
	});
	await timersOver(page, 1000);
	assert.equal(await page.locator('.popover').count(), 0, 'a menu of a graph that is gone');
}

export async function leaves_requests({ page, url }) {
	// Steps of a target: what nobody looks at any more is cancelled.
	const begun = (part) => page.waitForEvent('request', (r) => r.url().includes(part)), ended = (part) => page.waitForEvent('requestfailed', (r) => r.url().includes(part));
	await page.route('**/api/v1/targets/relabel_steps', () => {}); // never answered
	await page.goto(`${url}targets`);
	const steps = begun('relabel_steps'), over = ended('relabel_steps');
	await page.getByRole('button', { name: 'Relabel steps' }).first().click();
	await steps;
	await leave(page);
	await over;
	// Presets of a comparison are made of many answers, asked for one after the other.
	let answer;
	const may = new Promise((resolve) => (answer = resolve)), later = [];
	await page.route('**/api/v1/labels**', async (route) => {
		await may;
		await route.continue();
	});
	const labels = begun('/api/v1/labels');
	await page.goto(`${url}compare`);
	const request = await labels;
	page.on('request', (r) => r.url().includes('/api/v1/label/') && later.push(r.url()));
	await leave(page);
	answer();
	await request.response();
	await timersOver(page, 200);
	assert.deepEqual(later, [], 'asked for a page that was left');
}

/** Frames of an animation, keys and changes of colours reach no graph that is gone. */
export async function leaves_graphs({ page, url }) {
	await open(page, url);
	const view = await page.evaluateHandle(() => document.querySelector('.panel-flame').flame);
	await clickGraph(page, 2, 0.1);
	await settled(page);
	await page.evaluate(() => document.querySelector('.crumb').click()); // zooms out, step by step
	const drawn = await page.evaluate((flame) => {
		[...document.querySelectorAll('.nav a')].find((a) => a.textContent === 'Files').click();
		return flame.timing.frames.length;
	}, view);
	await page.locator('.theme').click();
	await page.keyboard.press('i');
	await timersOver(page, 500);
	assert.equal(await page.evaluate((flame) => flame.timing.frames.length, view), drawn);
	assert.equal(new URL(page.url()).search, '');
}

/** Gives `story` the address of a server before the scraper at `url`. Its answers to requests of `path` stop in the middle, for `stopped` to go on with. */
async function halfway(url, path, stopped, story) {
	const server = createServer((from, to) => from.pipe(ask(new URL(from.url, url), { method: from.method, headers: from.headers }, async (answer) => {
		to.writeHead(answer.statusCode, answer.headers);
		if (from.url !== path) return answer.pipe(to);
		const all = Buffer.concat(await answer.toArray());
		to.write(all.subarray(0, all.length / 2), () => stopped(to));
	})));
	await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
	try {
		await story(`http://127.0.0.1:${server.address().port}/`);
	} finally {
		server.close();
		server.closeAllConnections();
	}
}

/** A new document takes the place of a page whose answer is half there: that is no error to speak of. */
export async function leaves_answers({ page, url }) {
	await halfway(url, '/api/v1/status/tsdb/blocks', () => {}, async (own) => {
		for (let i = 0; i < 5; i++) {
			const begun = page.waitForResponse((r) => r.url().endsWith('/status/tsdb/blocks'));
			await page.goto(`${own}status`);
			await begun;
			await page.goto(`${own}targets`);
		}
	});
}

/** A scraper that ends in the middle of an answer does not answer. The page says so, and the console says nothing of its own. */
export async function loses_answers({ page, url }) {
	for (const [name, path] of [['status', '/api/v1/status/tsdb/blocks'], ['', '/api/v1/flamegraph']]) await halfway(url, path, (to) => to.destroy(), async (own) => {
		await page.goto(own + name);
		await page.locator('.state-error').waitFor();
		assert.match(await page.locator('.state-error').textContent(), /The scraper at http:\S+ does not answer\./);
	});
}
