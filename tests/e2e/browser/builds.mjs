// A program was deployed in place: what it was and what it is are compared function by function.
import assert from 'node:assert/strict';
import { open, rows, settled, waitQuery } from './scenarios.mjs';

const DIGITS = 12;
const names = (page) => page.locator('.table-row .function').evaluateAll((cells) => cells.map((c) => c.firstChild.textContent));
const row = (page, name) => rows(page).filter({ has: page.locator('.function', { hasText: new RegExp(`^${name}( |$)`) }) });
const last = (page, name) => row(page, name).locator('.cell').nth(4).textContent();

async function split(page, wanted) {
	await page.getByRole('button', { name: 'Options' }).click();
	await page.getByRole('menuitemradio', { name: 'Split by build' }).click();
	await waitQuery(page, (p, w) => p.get('by_build') === w, wanted);
	await settled(page);
}

export async function deploys({ page, url, scratch, compare, range, builds }) {
	const functions = ['handle', 'hash', 'main', 'new_only', 'old_only', 'parse', 'run'], [older, newer] = builds.map((b) => b.slice(0, DIGITS));
	await open(page, `${url}compare?${compare}`);
	await rows(page).first().waitFor();
	assert.deepEqual((await names(page)).sort(), functions);
	assert.equal(await last(page, 'new_only'), 'new');
	assert.equal(await last(page, 'old_only'), 'gone');
	assert.equal(await last(page, 'hash'), '−48.8%');
	assert.equal(await last(page, 'handle'), 'from 0');
	for (const name of ['main', 'handle', 'parse', 'run']) assert.doesNotMatch(await last(page, name), /gone|new/, name);
	const title = await row(page, 'parse').locator('.function').getAttribute('title');
	assert.match(title, new RegExp(`^parse\\napp \\(builds ${older}, ${newer}\\)\\n`));
	const box = await page.locator('.flame-canvas').first().boundingBox();
	await page.mouse.move(box.x + 20, box.y + 19 + 9);
	await page.waitForFunction((text) => document.querySelector('.tooltip:not([hidden])')?.textContent.includes(text), `builds ${older}, ${newer}`);
	await page.screenshot({ path: `${scratch}/deployed.png` });
	await split(page, '1');
	await page.waitForFunction(() => document.querySelectorAll('.table-row').length > 7);
	const mains = (await page.locator('.table-row .function').allTextContents()).filter((t) => t.startsWith('main'));
	assert.deepEqual(mains.sort(), [`main  ${older} app app.cc`, `main  ${newer} app app.cc`]);
	await page.screenshot({ path: `${scratch}/split.png` });
	await split(page, null);
	assert.deepEqual((await names(page)).sort(), functions);
	// One range over both.
	await open(page, `${url}?${range}`);
	await rows(page).first().waitFor();
	assert.deepEqual((await names(page)).sort(), functions);
	assert.match(await row(page, 'parse').locator('.function').getAttribute('title'), new RegExp(`builds ${older}, ${newer}`));
	await page.goto(`${url}functions?${range}`);
	await page.locator('.plain tbody a').first().waitFor();
	assert.deepEqual((await page.locator('.plain tbody a').allTextContents()).sort(), functions.filter((f) => f !== 'main'));
	await page.getByRole('button', { name: 'Split by build' }).click();
	await waitQuery(page, (p) => p.get('by_build') === '1');
	await page.waitForFunction((text) => document.querySelector('.plain tbody')?.textContent.includes(text), `app ${newer}`);
	assert.ok((await page.locator('.legend-label').allTextContents()).includes(`parse ${older}`));
}

/** The same of a real program, whose functions work as much as they do: hash in half the time, audit gone, trace new. */
export async function deploys_program({ page, url, scratch, compare, range, builds }) {
	const functions = ['main', 'shop::Basket::hash', 'shop::audit', 'shop::parse', 'shop::serve', 'shop::trace'], both = `builds ${builds.map((b) => b.slice(0, DIGITS)).sort().join(', ')}`;
	await open(page, `${url}compare?${compare}`);
	await rows(page).first().waitFor();
	assert.deepEqual((await names(page)).sort(), functions);
	assert.equal(await last(page, 'shop::trace'), 'new');
	assert.equal(await last(page, 'shop::audit'), 'gone');
	// Beside other programs it may work off fewer orders in one of the two times: what an order costs is what hash takes beside parse.
	const factor = async (name) => 1 + Number((await last(page, name)).replace('−', '-').replace('%', '')) / 100;
	const hash = await factor('shop::Basket::hash') / await factor('shop::parse');
	assert.ok(hash > 0.35 && hash < 0.65, `hash in half the time: ${hash} of it`);
	for (const name of ['main', 'shop::serve', 'shop::parse']) assert.doesNotMatch(await last(page, name), /gone|new/, name);
	await page.waitForFunction(() => document.querySelectorAll('.total .quality').length === 2);
	for (const badge of await page.locator('.total .quality').allTextContents()) assert.match(badge, /^199\sHz · [0-9.]+% lost · [0-9.]+% cut$/);
	const box = await page.locator('.flame-canvas').first().boundingBox();
	await page.mouse.move(box.x + 20, box.y + 19 + 9);
	await page.waitForFunction((text) => document.querySelector('.tooltip:not([hidden])')?.textContent.includes(text), both);
	await page.screenshot({ path: `${scratch}/deployed_program.png` });
	// One range over both.
	await open(page, `${url}?${range}`);
	await rows(page).first().waitFor();
	assert.deepEqual((await names(page)).sort(), functions);
	for (const name of ['main', 'shop::Basket::hash']) assert.ok((await row(page, name).locator('.function').getAttribute('title')).includes(both), name);
	await page.goto(`${url}functions?${range}`);
	await page.locator('.plain tbody a').first().waitFor();
	const listed = await page.locator('.plain tbody a').allTextContents();
	assert.deepEqual(listed.filter((name) => name !== 'main' && name !== 'shop::serve').sort(), functions.filter((name) => name !== 'main' && name !== 'shop::serve'));
	assert.equal(new Set(listed).size, listed.length);
}
