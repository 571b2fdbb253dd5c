// Times in the web interface: typed, in another zone, wrong in the address. One function per story, each waits for conditions.
import assert from 'node:assert/strict';
import { open, waitQuery } from './scenarios.mjs';

async function elsewhere(context, timezoneId) {
	const other = await context.browser().newContext({ viewport: { width: 1280, height: 860 }, colorScheme: 'light', timezoneId, permissions: ['clipboard-read', 'clipboard-write'] });
	other.setDefaultTimeout(60_000);
	return other.newPage();
}

const seconds = (p) => [Number(p.get('start')), Number(p.get('end'))];
const clock = (t, timeZone) => new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format(t * 1e3);

/** What is typed takes the place of what stood there; either field takes a range; the zone is that of the head. */
export async function types_times({ context, url }) {
	const page = await elsewhere(context, 'Asia/Kolkata'), type = async (text) => {
		await page.locator('.range').click();
		await page.keyboard.type(text);
	};
	await open(page, url);
	await type('10:05-10:10');
	assert.equal(await page.getByLabel('From').inputValue(), '10:05-10:10', 'the field was selected');
	await page.waitForFunction(() => / 10:05:00 – \d{4}-\d\d-\d\d 10:10:00 UTC\+5:30$/.test(document.querySelector('.meant').textContent));
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => Number(p.get('end')) - Number(p.get('start')) === 300);
	const typed = seconds(new URL(page.url()).searchParams);
	assert.deepEqual(typed.map((t) => clock(t, 'Asia/Kolkata')), ['10:05', '10:10']);
	assert.match(await page.locator('.range').textContent(), / 10:05:00 – 10:10:00$/);
	// A click into a field selects it too.
	await page.locator('.range').click();
	await page.getByLabel('To', { exact: true }).click();
	assert.deepEqual(await page.getByLabel('To', { exact: true }).evaluate((e) => [e.selectionStart, e.selectionEnd - e.value.length]), [0, 0]);
	await page.keyboard.press('Escape');
	await type('-2h');
	await page.getByLabel('To', { exact: true }).fill('-1h');
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => p.get('start') === 'now-2h' && p.get('end') === 'now-1h');
	await type('yesterday');
	await page.getByLabel('To', { exact: true }).fill('yesterday');
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => Number(p.get('end')) - Number(p.get('start')) === 86400);
	assert.deepEqual(seconds(new URL(page.url()).searchParams).map((t) => clock(t, 'Asia/Kolkata')), ['00:00', '00:00']);
	await type('yesterdy');
	await page.keyboard.press('Enter');
	assert.match(await page.locator('.problem').textContent(), /^From is no time: write 10:05, yesterday 14:00, /);
	await page.keyboard.press('Escape');
	// UTC: the same instants, other clocks. It is kept, and links say it.
	await page.goto(`${url}?start=${typed[0]}&end=${typed[1]}`);
	const zone = page.locator('.zone button'), range = page.locator('.range');
	assert.deepEqual([await zone.textContent(), await zone.getAttribute('aria-pressed')], ['UTC+5:30', 'false']);
	await zone.click();
	await page.waitForFunction(() => / 04:35:00 – 04:40:00$/.test(document.querySelector('.range').textContent));
	assert.deepEqual([await zone.textContent(), await zone.getAttribute('aria-pressed')], ['UTC', 'true']);
	await page.reload();
	await range.waitFor();
	assert.match(await range.textContent(), / 04:35:00 – 04:40:00$/);
	await type('04:35-04:40');
	await page.keyboard.press('Enter');
	await page.waitForFunction(() => / 04:35:00 – 04:40:00$/.test(document.querySelector('.range').textContent));
	await page.getByRole('button', { name: 'Share' }).click();
	await page.locator('.toast').waitFor();
	const reader = await elsewhere(context, 'America/New_York');
	await reader.goto(await page.evaluate(() => navigator.clipboard.readText()));
	await reader.locator('.range').waitFor();
	assert.match(await reader.locator('.range').textContent(), / 04:35:00 – 04:40:00$/);
	await reader.locator('.zone button').click(); // a choice goes before the address
	await waitQuery(reader, (p) => !p.has('zone'));
	await reader.waitForFunction(() => / (23:35:00 – 23:40|00:35:00 – 00:40):00$/.test(document.querySelector('.range').textContent));
	await reader.context().close();
	await page.context().close();
}

/** Local times that were typed into the address: a copied link means the same instants in another zone. */
export async function shares_instants({ context, url }) {
	const page = await elsewhere(context, 'Asia/Kolkata');
	await page.goto(`${url}?start=2026-01-15+10:05&end=2026-01-15+10:10`); // nothing is stored there
	await page.locator('.panel-plot .state-empty').waitFor();
	await page.getByRole('button', { name: 'Share' }).click();
	await page.locator('.toast').waitFor();
	const link = new URL(await page.evaluate(() => navigator.clipboard.readText()));
	assert.deepEqual(seconds(link.searchParams), ['2026-01-15T04:35:00Z', '2026-01-15T04:40:00Z'].map((t) => Date.parse(t) / 1e3));
	await page.context().close();
}

/** Wrong times are named, nothing is asked for, and others can be chosen at once. */
export async function bad_times({ page, url }) {
	const asked = [];
	page.on('request', (r) => /start|end/.test(new URL(r.url()).search) && r.url().includes('/api/') && asked.push(r.url()));
	for (const at of ['', 'functions', 'profiles', 'lines', 'health', 'compare']) {
		await page.goto(`${url}${at}?start=yesterdy`);
		await page.locator('.state-error').waitFor();
		assert.match(await page.locator('.state-error').textContent(), /^The time range is not understoodstart=yesterdy in the address is no time\. Times are as 10:05/, at);
		assert.deepEqual(await page.locator('main .panel').evaluateAll((all) => all.map((e) => [...e.children].filter((c) => c.checkVisibility()).length)), [1], 'nothing else stands in the panel');
	}
	await page.goto(`${url}compare?start_a=now-1h&end_a=now-2h`);
	assert.match(await page.locator('.state-error').textContent(), /start_a=now-1h and end_a=now-2h in the address: the range begins at /);
	assert.deepEqual(asked, []);
	await page.getByRole('button', { name: 'Last hour' }).click();
	await waitQuery(page, (p) => p.get('start_a') === 'now-1h' && p.get('end_a') === 'now');
	await page.locator('.panel-totals').waitFor();
	await page.goto(`${url}?start=soon`);
	await page.locator('.range').click();
	await page.keyboard.type('-1h');
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => p.get('start') === 'now-1h');
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	await page.goBack();
	await page.locator('.state-error').waitFor();
}
