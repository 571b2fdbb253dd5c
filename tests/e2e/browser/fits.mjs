/* SPDX-License-Identifier: Apache-2.0 */
// A page in a window: what is too wide, by name.
import assert from 'node:assert/strict';

/** Nothing is wider than the window. Plots follow it when they are told of its size, so not at once. */
export async function fits(page) {
	await page.waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth, null, { timeout: 10000 }).catch(async () => {
		const wide = await page.evaluate(() => {
			const width = document.documentElement.clientWidth;
			const out = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest('.nav, .wide, .heat'));
			return out.map((e) => `${e.tagName}.${e.className} to ${Math.round(e.getBoundingClientRect().right)}`).slice(0, 8);
		});
		assert.fail(`the page is wider than its window: ${wide.join(', ')}`);
	});
}
