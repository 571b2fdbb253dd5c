// Stories of the page for files: what is open, what is shown of it, and the formats that it reads.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { CPUPROFILE, PERF, SPEEDSCOPE } from './samples.mjs';

const names = (page) => page.locator('.file-name').allTextContents();
const query = (page) => new URL(page.url()).searchParams;

/** The first fact of the graph: its sum. */
const sums = (page, text) => page.waitForFunction((t) => document.querySelector('.panel-flame .panel-body > .facts')?.textContent.startsWith(t), text);
const asked = (page, test) => page.waitForURL((u) => test(u.searchParams), { waitUntil: 'commit' });
const press = (page, name) => page.getByRole('button', { name, exact: true }).click();

/** Each of a heap's sample types can be chosen, of one file and of two that are compared. */
export async function file_types({ page, url, heap, grown }) {
	await page.goto(`${url}files`);
	await page.setInputFiles('#files', heap);
	await sums(page, '4.00\u202fKiB');
	const types = page.getByLabel('Sample type');
	assert.deepEqual(await types.locator('option').allTextContents(), ['alloc_objects, count', 'alloc_space, bytes', 'inuse_objects, count', 'inuse_space, bytes']);
	assert.equal(await types.inputValue(), 'inuse_space', 'the file names it as its main one');
	await types.selectOption('alloc_objects');
	await sums(page, '70 ');
	assert.equal(query(page).get('type'), 'alloc_objects');
	await page.setInputFiles('#files', grown);
	await sums(page, '90 ');
	await press(page, 'B: heap.pb.gz');
	await page.locator('.side-head').waitFor();
	const change = (name, text) => page.waitForFunction(([n, t]) => [...document.querySelectorAll('.table-row')].some((r) => r.children[0].textContent === n && r.children[4].textContent === t), [name, text]);
	await change('read', '−33.3%');
	await types.selectOption('inuse_space');
	await change('read', '−50.0%');
	await page.getByRole('button', { name: 'Share of total' }).click();
	await change('read', '0.0%');
}

/** Nothing that is open goes by itself, and what cannot be compared can be seen. */
export async function file_list({ page, url, scratch, heap }) {
	for (const [name, value] of [['one', 1], ['two', 2], ['three', 3]]) writeFileSync(`${scratch}/${name}.folded`, `main;work ${value}\n`);
	const [one, two, three] = ['one', 'two', 'three'].map((name) => `${scratch}/${name}.folded`);
	writeFileSync(`${scratch}/nothing.txt`, 'no profile at all\n');
	writeFileSync(`${scratch}/neither.txt`, 'nor this\n');
	await page.goto(`${url}files`);
	await page.setInputFiles('#files', [`${scratch}/nothing.txt`, one, two, `${scratch}/neither.txt`, three, heap]);
	await sums(page, '1 ');
	assert.deepEqual(await names(page), ['one.folded', 'two.folded', 'three.folded', 'heap.pb.gz']);
	assert.deepEqual((await page.locator('.problem p').allTextContents()).map((t) => t.split(':')[0]), ['nothing.txt', 'neither.txt'], 'each that is none is named');
	await press(page, 'B: three.folded');
	await asked(page, (p) => p.getAll('file').join() === 'one.folded,three.folded');
	await press(page, 'A: three.folded'); // they change places
	await asked(page, (p) => p.getAll('file').join() === 'three.folded,one.folded');
	await press(page, 'A: two.folded');
	await asked(page, (p) => p.getAll('file').join() === 'two.folded,one.folded');
	await press(page, 'B: one.folded'); // no more
	await asked(page, (p) => p.getAll('file').join() === 'two.folded');
	await sums(page, '2 ');
	await press(page, 'B: heap.pb.gz');
	await page.locator('.state-empty').waitFor();
	assert.match(await page.locator('.state-empty').textContent(), /cannot be compared.*two\.folded has samples in count; heap\.pb\.gz has alloc_objects in count/);
	await press(page, 'heap.pb.gz');
	await sums(page, '4.00\u202fKiB');
	await page.setInputFiles('#files', one); // once more
	await sums(page, '1 ');
	assert.deepEqual(await names(page), ['one.folded', 'two.folded', 'three.folded', 'heap.pb.gz', 'one.folded (2)']);
	await page.getByRole('link', { name: 'Explore', exact: true }).click();
	await page.waitForURL((u) => u.pathname === '/');
	await page.getByRole('link', { name: 'Files', exact: true }).click();
	await page.locator('.file-row').first().waitFor();
	assert.equal((await names(page)).length, 5, 'they stay open when the page is left');
	await press(page, 'Close two.folded');
	assert.deepEqual(await names(page), ['one.folded', 'three.folded', 'heap.pb.gz', 'one.folded (2)']);
}

/** Each format is known by its content, whatever the file's name. */
export async function file_formats({ page, url, scratch, heap, html }) {
	const files = { 'stacks.folded': 'main;work 8\n', 'perf.txt': PERF, 'threads.json': SPEEDSCOPE, 'node.cpuprofile': CPUPROFILE };
	for (const [name, content] of Object.entries(files)) writeFileSync(`${scratch}/${name}`, content);
	await page.goto(`${url}files`);
	await page.setInputFiles('#files', [heap, ...Object.keys(files).map((name) => `${scratch}/${name}`), html]);
	const expected = [['heap.pb.gz', 'pprof, 4 sample types', '4.00\u202fKiB'], ['stacks.folded', 'folded stacks', '8 '], ['perf.txt', 'perf script, 2 sample types', '10.1\u202fms'],
		['threads.json', 'speedscope, 3 sample types', '5\u202fns'], ['node.cpuprofile', '.cpuprofile, 2 sample types', '90.0\u202fµs'], ['page.html', 'page of Sonde', '8 ']];
	await page.locator('.file-row').nth(expected.length - 1).waitFor();
	assert.deepEqual(await page.locator('.file-row').evaluateAll((all) => all.map((r) => [r.querySelector('.file-name').textContent, r.querySelector('.muted').textContent])), expected.map(([name, facts]) => [name, facts]));
	assert.match(await page.locator('.file-notes').textContent(), /^1 line is left out, the first is line 10$/);
	for (const [name, , sum] of expected) {
		await press(page, name);
		await sums(page, sum);
	}
}
