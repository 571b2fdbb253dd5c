// Stories of what the page for files saves: each format of each kind of file, of one and of two. What the page reads it reads again here;
// the files stay for other readers.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { CPUPROFILE, PERF, SPEEDSCOPE } from './samples.mjs';

const asked = (page, test) => page.waitForURL((u) => test(u.searchParams), { waitUntil: 'commit' });
const press = (page, name) => page.getByRole('button', { name, exact: true }).click();
const sums = (page) => page.evaluate(() => {
	const { shown } = document.querySelector('.panel-flame').flame;
	return { type: shown.type, unit: shown.unit, total: shown.total[0], whole: shown.whole, nodes: shown.n, self: shown.self[0] };
});

/** What is shown, once it is that file. */
async function shownOf(page, name) {
	await page.waitForFunction((n) => document.querySelector('.panel-flame .panel-body > .facts')?.textContent.includes(`· ${n} ·`), name);
	return sums(page);
}

async function open(page, path) {
	await page.setInputFiles('#files', path);
	await page.locator('.file-row').first().waitFor();
	await press(page, path.slice(path.lastIndexOf('/') + 1));
	return shownOf(page, path.slice(path.lastIndexOf('/') + 1));
}

/** Every entry of the menu that makes a file: label → where it lies, what was said. */
async function saveAll(page, folder) {
	const saved = {};
	mkdirSync(folder, { recursive: true });
	await page.getByRole('button', { name: 'Export' }).click();
	const labels = await page.locator('.menu-item > span:first-child').allTextContents();
	await page.keyboard.press('Escape');
	for (const label of labels) {
		await page.evaluate(() => document.querySelector('.toast')?.remove());
		await page.getByRole('button', { name: 'Export' }).click();
		const [download] = await Promise.all([page.waitForEvent('download'), page.locator('.menu-item', { has: page.getByText(label, { exact: true }) }).click()]);
		const path = `${folder}/${download.suggestedFilename()}`;
		await download.saveAs(path);
		saved[label] = { path, said: (await page.locator('.toast').allTextContents()).join() };
	}
	return saved;
}

const ONE = ['pprof', 'Folded stacks', 'speedscope', 'Picture (SVG)', 'Page (HTML)', 'Arrays (JSON)', 'Picture (PNG)', 'Table as shown (CSV)'];

/** Each format of each kind of file, read again: the same sum, in nanoseconds where the format has no fractions of seconds. */
export async function exports_one({ page, url, scratch, profiles, html }) {
	const made = { 'stacks.folded': 'main;work_[k] 8\nmain;a;b 2.5\nmain;a:b 1\n', 'perf.txt': PERF, 'threads.json': SPEEDSCOPE, 'seconds.json': SPEEDSCOPE.replaceAll('nanoseconds', 'seconds').replace('"weights":[3,2]', '"weights":[0.1,0.25]'), 'node.cpuprofile': CPUPROFILE };
	for (const [name, content] of Object.entries(made)) writeFileSync(`${scratch}/${name}`, content);
	const out = {};
	for (const path of [...profiles, ...Object.keys(made).map((name) => `${scratch}/${name}`), html]) {
		await page.goto(`${url}files`);
		const want = await open(page, path), name = path.slice(path.lastIndexOf('/') + 1), saved = await saveAll(page, `${scratch}/saved-${name}`);
		assert.deepEqual(Object.keys(saved), ONE);
		if (name.startsWith('lined')) assert.deepEqual(await page.locator('.file-notes').allTextContents(), ['2 samples have labels, which are left out: thread']);
		for (const label of ['pprof', 'Folded stacks', 'speedscope', 'Page (HTML)']) {
			await page.goto(`${url}files`);
			const got = await open(page, saved[label].path), what = `${label} of ${name}: ${JSON.stringify([want, got])}`, isFiner = want.unit !== got.unit && label !== 'Folded stacks' && label !== 'speedscope';
			assert.equal(Math.round(got.total * 1e9) / 1e9, isFiner ? want.total * { seconds: 1e9, count: 1e3, microseconds: 1e3 }[want.unit] : want.total, what);
			assert.equal(got.nodes, want.nodes + Number(want.self !== 0 && label === 'Folded stacks'), what); // a sample without a stack has a frame there that says so
			if (label === 'Page (HTML)' && !isFiner) assert.deepEqual(got, want, what);
			if (label === 'Folded stacks') assert.equal(/the sample type/.test(saved[label].said), want.type !== 'samples', saved[label].said);
		}
		out[name] = { ...want, saved };
	}
	// The mode of a comparison says nothing of one file.
	await page.goto(`${url}files?mode=relative`);
	const { saved: _, ...lined } = out['lined.pb.gz'];
	await open(page, profiles.find((path) => path.endsWith('lined.pb.gz')));
	const kept = await saveAll(page, `${scratch}/saved-kept`);
	await page.goto(`${url}files`);
	assert.deepEqual(await open(page, kept['Page (HTML)'].path), lined);
	await page.goto(`file://${out['lined.pb.gz'].saved['Page (HTML)'].path}`);
	await page.locator('.panel-flame canvas').first().waitFor();
	assert.match(await page.locator('.panel-flame .panel-body > .facts').textContent(), /· cpu · 2025-11-26 \d\d:40:00 UTC\S*, 10\.0\u202fs$/, 'in the form of all pages');
	return out;
}

const TWO = ['pprof (opens as a difference)', 'Folded stacks, two columns', 'speedscope, two profiles', ...ONE.slice(3)];

/** Of two files that are compared. */
export async function exports_two({ page, url, scratch, profiles }) {
	await page.goto(`${url}files`);
	const [a, b] = [await open(page, profiles[0]), await open(page, profiles[1])], [nameA, nameB] = profiles.map((path) => path.slice(path.lastIndexOf('/') + 1));
	await press(page, nameA);
	await press(page, `B: ${nameB}`);
	await page.locator('.side-head').waitFor();
	const saved = await saveAll(page, `${scratch}/saved-two`);
	assert.deepEqual(Object.keys(saved), TWO);
	await page.goto(`${url}files`);
	const difference = await open(page, saved[TWO[0]].path);
	assert.equal(difference.total, b.total - a.total);
	for (const [label, types] of [[TWO[2], [nameA, nameB]], ['Page (HTML)', [`${a.type}, side A`, `${a.type}, side B`]]]) {
		await page.goto(`${url}files`);
		await open(page, saved[label].path);
		for (const [k, want] of [a, b].entries()) {
			await page.getByLabel('Sample type').selectOption(types[k]);
			await page.waitForFunction((n) => document.querySelector('.panel-flame').flame.shown.total[0] === n, want.total);
		}
	}
	await page.goto(`file://${saved['Page (HTML)'].path}`);
	await page.locator('.totals').waitFor();
	// As shares, each side is its own whole.
	await page.goto(`${url}files`);
	for (const path of profiles) await open(page, path);
	await press(page, nameA);
	await press(page, `B: ${nameB}`);
	await press(page, 'Share of total');
	await asked(page, (p) => p.get('mode') === 'relative');
	await page.locator('.side-head').waitFor();
	const shares = await saveAll(page, `${scratch}/saved-shares`);
	await page.goto(`file://${shares['Page (HTML)'].path}`);
	assert.deepEqual(await page.locator('.totals strong').allTextContents(), ['100%', '100%', '0.0%']);
	return { a, b, saved };
}
