// What a person does with the web interface, one function per story. Each waits for conditions, never for times.
import assert from 'node:assert/strict';
import { fits } from './fits.mjs';
import { readFileSync, statSync, writeFileSync } from 'node:fs';

const query = (page) => new URL(page.url()).searchParams;
export const rows = (page) => page.locator('.table-row');
export const found = (page) => page.locator('.found');

export async function open(page, url) {
	await page.goto(url);
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	await settled(page);
}

/** Until two frames in a row are equal: no animation, no answer on the way. */
export async function settled(page) {
	await page.waitForFunction(() => !document.querySelector('[aria-busy=true]') && document.querySelector('.flame-canvas')?.width > 0);
	await page.evaluate(() => new Promise((done) => {
		let last = '', equal = 0;
		const look = () => {
			const c = document.querySelector('.flame-canvas'), now = c.width * c.height < 4e6 ? c.toDataURL() : '';
			equal = now === last ? equal + 1 : 0;
			last = now;
			if (equal >= 12) done();
			else requestAnimationFrame(look);
		};
		look();
	}));
}

/** Until the address has it. Not inside the page: its policy lets no text become code. */
export const waitQuery = (page, test, arg) => page.waitForURL((u) => test(u.searchParams, arg), { waitUntil: 'commit' });

/** Clicks into row `level` of the graph, at this share of its width. */
export async function clickGraph(page, level, share, options = {}) {
	const box = await page.locator('.flame-canvas').first().boundingBox();
	await page.mouse.click(box.x + box.width * share, box.y + 19 * level + 9, options);
}

/** Colours of the canvas, without the transparent ones. */
export function inked(page) {
	return page.evaluate(() => {
		const c = document.querySelector('.flame-canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 3; i < d.length; i += 4) if (d[i]) n++;
		return n / (c.width * c.height);
	});
}

export async function explores({ page, url }) {
	await open(page, url);
	assert.ok((await inked(page)) > 0.1, 'the flame graph is drawn');
	await rows(page).first().waitFor();
	assert.match(await page.locator('.panel-plot .facts').textContent(), /^cores, a point per \d+ s/);
	assert.equal(await page.locator('.legend-item').count(), 1);
	await page.getByRole('button', { name: /Group by/ }).click();
	await page.getByRole('menuitemradio', { name: 'service_name' }).click();
	await waitQuery(page, (p) => p.get('group_by') === 'service_name');
	await page.waitForFunction(() => document.querySelectorAll('.legend-item').length === 2);
	assert.deepEqual((await page.locator('.legend-label').allTextContents()).sort(), ['alpha', 'beta']);
	// Sums that are not there are nothing, states that are not there are not known.
	for (const [zeros, mean] of [[true, 'mean 0.5'], [false, 'mean 2']]) assert.deepEqual(await page.evaluate((z) => {
		document.querySelector('.plot').plot.show([{ label: 'a', points: [[15, 1], [30, 1], [45, 1], [60, 1]] }, { label: 'b', points: [[30, 2]] }], { step: 15, start: 0, end: 60, text: String, zeros: z });
		return [...document.querySelectorAll('.legend-value')].map((e) => e.textContent);
	}, zeros), ['mean 1', mean]);
	const csp = (await page.request.get(url)).headers()['content-security-policy'];
	assert.match(csp, /default-src 'none'/);
	assert.doesNotMatch(csp, /unsafe/);
}

export async function selects({ page, url }) {
	await open(page, url);
	const before = await page.locator('.panel-flame .facts').textContent();
	await page.getByRole('button', { name: 'Select by label' }).click();
	await page.getByLabel('Label', { exact: true }).fill('service');
	await page.getByRole('option', { name: 'service_name' }).click();
	await page.getByLabel('Value', { exact: true }).click();
	await page.getByRole('option', { name: 'beta' }).click();
	await page.getByRole('button', { name: 'Apply' }).click();
	await waitQuery(page, (p) => (p.get('query') ?? '').endsWith('{service_name="beta"}'));
	await page.waitForFunction((old) => document.querySelector('.panel-flame .facts').textContent !== old, before);
	assert.equal(await page.locator('.chip').count(), 1);
	await page.getByRole('button', { name: 'Edit as text' }).click();
	const field = page.getByLabel('Selector');
	assert.match(await field.inputValue(), /\{service_name="beta"\}$/);
	await field.fill('process_cpu:cpu:nanoseconds:cpu:nanoseconds{serv');
	await page.getByRole('option', { name: 'service_name' }).click();
	await page.getByRole('option', { name: 'alpha' }).click();
	await field.press('End');
	await page.keyboard.type('}');
	await field.press('Enter');
	await waitQuery(page, (p) => p.get('query') === 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="alpha"}');
	await field.fill('process_cpu{nonsense');
	await field.press('Enter');
	// Of the graph and of the flame graph.
	await page.waitForFunction(() => document.querySelectorAll('.state-error').length === 2);
	for (const text of await page.locator('.state-error').allTextContents()) assert.match(text, /not understood/);
}

export async function drags({ page, url }) {
	await open(page, url);
	const box = await page.locator('.plot .u-over').boundingBox();
	await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.8, box.y + 44, { steps: 8 });
	await page.mouse.up();
	await waitQuery(page, (p) => Number(p.get('end')) > Number(p.get('start')));
	const p = query(page);
	const share = (Number(p.get('end')) - Number(p.get('start'))) / 3600;
	assert.ok(share > 0.45 && share < 0.55, `half of the hour was selected: ${share}`);
	await page.getByRole('button', { name: /Earlier/ }).click();
	await waitQuery(page, (q, old) => Number(q.get('start')) < old, Number(p.get('start')));
	await page.locator('.range').click();
	await page.getByRole('menuitemradio', { name: 'Last 15 minutes' }).click();
	await waitQuery(page, (q) => q.get('start') === 'now-15m' && q.get('end') === 'now');
	await page.goBack();
	await waitQuery(page, (q) => q.get('start') !== 'now-15m');
}

/** A click on the graph over time is one point of one line; the graph stays as it is. */
export async function picks({ page, url, time }) {
	await open(page, `${url}?start=${time - 600}&end=${time + 1200}&group_by=service_name`);
	await page.waitForFunction(() => document.querySelectorAll('.legend-item').length === 2);
	const facts = page.locator('.panel-flame .panel-body > .facts'), box = await page.locator('.plot .u-over').boundingBox();
	const at = (t, share) => [box.x + (box.width * (t - time + 600)) / 1800, box.y + box.height * share];
	await page.mouse.move(...at(time - 7, 0.2)); // the area of the larger service
	assert.match(await page.locator('.plot-legend').textContent(), /beta0\.006 coresalpha0\.003 cores/);
	await page.mouse.click(...at(time - 7, 0.2));
	await waitQuery(page, (p, t) => p.get('point') === `${t - 15},${t}` && p.get('only').endsWith('{service_name="beta"}'), time);
	await page.waitForFunction(() => document.querySelector('.panel-flame .panel-body > .facts').textContent.startsWith('90.0\u202fms · '));
	assert.match(await facts.textContent(), / 1 profile read /);
	assert.equal(await page.locator('.legend-item').count(), 2, 'the graph has both');
	assert.match(await page.locator('.single:visible').textContent(), /service_name="beta"/);
	await page.getByRole('button', { name: 'The whole range' }).click();
	await waitQuery(page, (p) => !p.has('point') && !p.has('only'));
	await page.mouse.click(...at(time - 7, 0.03)); // above the areas: all of them
	await waitQuery(page, (p) => p.has('point') && !p.has('only'));
	await page.waitForFunction(() => document.querySelector('.panel-flame .panel-body > .facts').textContent.startsWith('135\u202fms · '));
	await page.locator('.legend-item', { hasText: 'beta' }).dblclick();
	await waitQuery(page, (p) => p.get('query')?.endsWith('{service_name="beta"}') && !p.has('point') && !p.has('only'));
}

/** Files that are dropped on any page are opened, with Shift as a difference. */
export async function drops({ page, url }) {
	const drop = async (shiftKey, ...files) => {
		const dataTransfer = await page.evaluateHandle((list) => {
			const d = new DataTransfer();
			for (const [name, text] of list) d.items.add(new File([text], name));
			return d;
		}, files);
		await page.dispatchEvent('body', 'dragover', { dataTransfer });
		assert.equal(await page.evaluate(() => document.body.classList.contains('is-dropping')), true, 'the page says that it takes them');
		await page.dispatchEvent('body', 'drop', { dataTransfer, shiftKey });
	};
	await open(page, url);
	await drop(false, ['a.folded', 'main;work 5\nmain;rest 3\n']);
	await page.waitForURL((u) => u.pathname === '/files');
	await page.waitForFunction(() => document.querySelector('.panel-flame .panel-body > .facts').textContent.startsWith('8 · '));
	assert.equal(await page.evaluate(() => document.body.classList.contains('is-dropping')), false);
	await drop(false, ['b.folded', 'main;work 10\n']);
	await page.waitForFunction(() => document.querySelector('.panel-flame .panel-body > .facts').textContent.startsWith('10 · '));
	assert.deepEqual(await page.locator('.file-name').allTextContents(), ['a.folded', 'b.folded'], 'the former one is still open');
	await drop(true, ['c.folded', 'main;work 1\n']);
	await waitQuery(page, (p) => p.getAll('file').join() === 'b.folded,c.folded');
	await page.locator('.side-head').waitFor();
	await page.goto(`${url}compare`);
	await page.locator('.panel-totals strong').first().waitFor();
	await drop(true, ['a.folded', 'main;work 5\nmain;rest 3\n'], ['b.folded', 'main;work 10\n']);
	await page.locator('.side-head').waitFor();
	const cells = Object.fromEntries(await rows(page).evaluateAll((all) => all.map((r) => [r.children[0].textContent, r.children[4].textContent])));
	assert.deepEqual(cells, { work: '+100%', rest: 'gone', main: '0.0%' });
	assert.match(await page.locator('.flame-legend').textContent(), /more in B−gone in B$/, 'what is gone has a mark');
}

export async function zooms({ page, url }) {
	await open(page, url);
	await page.setViewportSize({ width: 1280, height: 600 });
	await page.evaluate(() => scrollTo(0, 120));
	const y = await page.evaluate(() => scrollY);
	assert.ok(y > 0, 'the page is longer than the window');
	await clickGraph(page, 2, 0.1);
	await waitQuery(page, (p) => p.getAll('at').length === 2);
	assert.equal(await page.evaluate(() => scrollY), y, 'the page stays where it is');
	await page.evaluate(() => scrollTo(0, 0));
	await page.setViewportSize({ width: 1280, height: 860 });
	const path = query(page).getAll('at');
	await settled(page);
	assert.deepEqual(await page.locator('.crumb').allTextContents(), ['all', ...path]);
	assert.match(await page.locator('.crumbs .num').textContent(), /%$/);
	await page.locator('.crumb', { hasText: 'all' }).click();
	await waitQuery(page, (p) => !p.has('at'));
	await clickGraph(page, 2, 0.1, { button: 'right' });
	await page.getByRole('menuitem', { name: /Callers and callees/ }).click();
	await waitQuery(page, (p, name) => p.get('sandwich') === name, path[1]);
	await page.locator('.sandwich-head').waitFor();
	assert.equal(await page.locator('.sandwich .flame-canvas').count(), 2);
	for (const label of await page.locator('.sandwich .flame-canvas').evaluateAll((all) => all.map((c) => c.ariaLabel))) assert.match(label, /^Flame graph of [2-9] frames/);
	await page.keyboard.press('Escape');
	await waitQuery(page, (p) => !p.has('sandwich'));
	await clickGraph(page, 2, 0.1, { button: 'right' });
	await page.getByRole('menuitem', { name: /Without stacks with it/ }).click();
	await waitQuery(page, (p) => p.has('ignore'));
	await page.locator('.chip.filter').waitFor();
}

export async function searches({ page, url }) {
	await open(page, url);
	await page.keyboard.press('/');
	await page.keyboard.type('^leaf$');
	await page.waitForFunction(() => /%$/.test(document.querySelector('.found').textContent));
	const share = parseFloat(await found(page).textContent());
	assert.ok(share > 0 && share < 100, `a share of the whole: ${share}`);
	assert.deepEqual(await page.locator('.table-row .function').allTextContents(), ['leaf']);
	await page.keyboard.press('Enter');
	await page.waitForFunction(() => document.querySelector('.found').textContent.startsWith('1 of '));
	await page.keyboard.press('Escape');
	await waitQuery(page, (p) => !p.has('search'));
	await page.keyboard.press('Control+f');
	await page.keyboard.type('(unclosed');
	await page.waitForFunction(() => document.querySelector('.found').textContent.includes('as text'));
	await open(page, `${url}?nodes=3&search=work`);
	assert.match(await found(page).textContent(), /^≥ [\d.]+%$/, 'what a limit left out may match too');
	await open(page, `${url}?nodes=3&search=%5Eleaf%24`);
	await rows(page).filter({ hasText: 'leaf' }).waitFor();
	assert.equal(await found(page).textContent(), '≥ 0.0%', 'which the table has and the graph has not');
}

export async function keyboard({ page, url }) {
	await open(page, url);
	await page.locator('.flame-canvas').first().focus();
	for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown']) await page.keyboard.press(key);
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => p.getAll('at').length === 2);
	await page.keyboard.press('Escape');
	await waitQuery(page, (p) => p.getAll('at').length === 1);
	await page.keyboard.press('0');
	await waitQuery(page, (p) => !p.has('at'));
	await page.keyboard.press('i');
	await waitQuery(page, (p) => p.get('dir') === 'flame');
	await page.keyboard.press('t');
	await waitQuery(page, (p) => p.get('view') === 'table');
	assert.equal(await page.locator('.flame-side').isVisible(), false);
	await page.keyboard.press('t');
	await waitQuery(page, (p) => !p.has('view'));
	// The table by keys: rows, what one of them offers.
	await page.locator('.table').focus();
	await page.keyboard.press('ArrowDown');
	const row = await page.locator('.table-row.is-at .function').textContent();
	for (const isMarked of [true, false]) { // the place stays
		await page.keyboard.press('Enter');
		await waitQuery(page, (p, is) => p.has('chosen') === is, isMarked);
	}
	assert.equal(await page.locator('.table-row.is-at .function').textContent(), row);
	assert.equal(await page.evaluate(() => document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).querySelector('.function').textContent), row);
	await page.keyboard.press('m');
	assert.equal(await page.locator('.menu-heading').first().textContent(), row);
	await page.keyboard.press('Enter');
	await waitQuery(page, (p, name) => p.get('sandwich') === name, row);
	await page.keyboard.press('0');
	await waitQuery(page, (p) => !p.has('sandwich'));
	await page.keyboard.press('?');
	await page.locator('.keys').waitFor();
	await page.keyboard.press('Escape');
	assert.equal(await page.locator('.keys').count(), 0);
}

export async function shares({ page, context, url }) {
	await open(page, url);
	await clickGraph(page, 2, 0.1);
	await waitQuery(page, (p) => p.getAll('at').length === 2);
	await page.keyboard.press('i');
	await waitQuery(page, (p) => p.get('dir') === 'flame');
	await settled(page);
	await page.getByRole('button', { name: 'Share' }).click();
	await page.locator('.toast').waitFor();
	const link = await page.evaluate(() => navigator.clipboard.readText());
	assert.match(new URL(link).searchParams.get('start'), /^\d+$/, 'the shared range is absolute');
	const other = await context.newPage();
	await open(other, link);
	assert.deepEqual(await other.locator('.crumb').allTextContents(), await page.locator('.crumb').allTextContents());
	const picture = (p) => p.evaluate(() => document.querySelector('.flame-canvas').toDataURL());
	assert.equal(await picture(other), await picture(page), 'a shared link shows the same picture');
}

export async function exports_({ page, url, scratch }) {
	await open(page, url);
	const saved = {}, names = {};
	for (const [item, name] of [[/^pprof/, 'pprof'], [/^Folded/, 'folded'], [/^speedscope/, 'speedscope'], [/^Picture \(SVG/, 'svg'], [/^Functions \(CSV/, 'csv'], [/^Picture \(PNG/, 'png'], [/^Table as shown/, 'table']]) {
		await page.getByRole('button', { name: 'Export' }).click();
		const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: item }).click()]);
		saved[name] = `${scratch}/export.${name}`;
		names[name] = download.suggestedFilename();
		await download.saveAs(saved[name]);
		assert.ok(statSync(saved[name]).size > 20, `${name} is not empty`);
	}
	// Files say what they are of and when that begins, whether the scraper or the page made them.
	const [stem] = /^[a-z_]+-\d{8}T\d{6}Z/.exec(names.png) ?? [];
	assert.deepEqual(names, { pprof: `${stem}.pb.gz`, folded: `${stem}.folded`, speedscope: `${stem}.speedscope.json`, svg: `${stem}.svg`, csv: `${stem}.csv`, png: `${stem}.png`, table: `${stem}-functions.csv` });
	assert.match(readFileSync(saved.svg, 'utf8'), /<text class="t"[^>]*>[a-z_]+ · [a-z_]+<\/text>\n<text class="l"[^>]*>\{\}, \d{4}-/, 'a title, the matchers and the range');
	// Its bars have the colours of the page.
	const classes = new Map([...readFileSync(saved.svg, 'utf8').matchAll(/\.fg \.(h\d+s\d)\{fill:(hsl[^}]*)\}/g)].map(([, name, fill]) => [name, fill.replaceAll(',', ' ')]));
	const drawn = new Map([...readFileSync(saved.svg, 'utf8').matchAll(/<g><title>(\w+)[^]*?<rect class="(h\d+s\d)"/g)].map(([, name, c]) => [name, classes.get(c)]));
	const painted = await page.evaluate(() => {
		const { shown: t, palette } = document.querySelector('.panel-flame').flame;
		return Array.from({ length: t.n }, (_, i) => [i ? t.functions.name[t.fn[i]] : 'all', palette.fills[palette.of(i)]]).filter(([name]) => /^\w+$/.test(name));
	});
	assert.ok(painted.length > 2);
	for (const [name, fill] of painted) assert.equal(drawn.get(name), fill, name);
	// The picture has lines above the graph that say the same, and below it what the colours mean.
	const [canvas, height] = await page.evaluate(() => [document.querySelector('.flame-canvas').height, devicePixelRatio]), png = readFileSync(saved.png);
	assert.ok(png.readUInt32BE(20) >= canvas + 3 * 18 * height + 18 * height, `${png.readUInt32BE(20)} of ${canvas}`);
	return saved;
}

/** Texts whose contrast with what is behind them is below WCAG's AA for small text, 4.5. */
function faint(page) {
	return page.evaluate(() => {
		const parts = (text) => [...text.match(/[\d.]+/g).map(Number), 1].slice(0, 4), over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
		const linear = (v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4), light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
		const seen = (el) => (el ? Number(getComputedStyle(el).opacity) * seen(el.parentElement) : 1);
		const behind = (el) => (el ? over(parts(getComputedStyle(el).backgroundColor), behind(el.parentElement)) : [255, 255, 255, 1]);
		return [...document.querySelectorAll('body *')].filter((el) => el.checkVisibility() && (el.placeholder || [...el.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()))).map((el) => {
			const ground = behind(el), [r, g, b, a] = parts(getComputedStyle(el, el.placeholder ? '::placeholder' : null).color), ink = over([r, g, b, a * seen(el)], ground), [low, high] = [light(ground), light(ink)].sort((a, b) => a - b);
			return { ratio: high / low, what: `${el.tagName}.${el.className} "${(el.placeholder || el.textContent).slice(0, 40)}"` };
		}).filter(({ ratio }) => ratio < 4.5);
	});
}

/** The same of the names on bars, in all colours that the graph has. */
function faintBars(page) {
	return page.evaluate(() => {
		const linear = (v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4), c = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
		const light = (colour) => {
			c.fillStyle = colour;
			c.fillRect(0, 0, 1, 1);
			const [r, g, b] = c.getImageData(0, 0, 1, 1).data;
			return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
		};
		const ink = light(getComputedStyle(document.querySelector('.flame-canvas')).color);
		return document.querySelector('.panel-flame').flame.palette.fills.filter((colour) => {
			const [low, high] = [ink, light(colour)].sort((a, b) => a - b);
			return high / low < 4.5;
		});
	});
}

export async function themes({ page, url }) {
	for (const scheme of ['light', 'dark']) {
		await page.emulateMedia({ colorScheme: scheme });
		for (const at of ['compare?off=B', '?group_by=service_name&off=service_name%3Dbeta&search=work', '?sandwich=work&colour=kind', '?colour=function', '?colour=package', 'compare?per=run&view=flame']) {
			await open(page, url + at);
			assert.deepEqual(await faint(page), [], `${scheme}, ${at}`);
			assert.deepEqual(await faintBars(page), [], `${scheme}, bars of ${at}`);
		}
		for (const at of ['functions', 'profiles', 'targets', 'service-discovery', 'status', 'flags', 'health', 'files?file=x']) {
			await page.goto(url + at);
			await page.waitForFunction(() => !document.querySelector('[aria-busy=true]') && document.querySelector('main').textContent.length > 20);
			assert.deepEqual(await faint(page), [], `${scheme}, ${at}`);
		}
	}
	await open(page, url);
	const light = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).reduce((a, b) => a + Number(b), 0) / 3);
	assert.ok((await light()) < 60, 'dark as the system says');
	const theme = page.locator('.theme');
	await theme.click();
	assert.ok((await light()) > 200, 'light as chosen');
	await theme.click();
	await page.emulateMedia({ colorScheme: 'light' });
	await page.reload();
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	assert.ok((await light()) < 60, 'the choice stays');
}

export async function narrow({ page, url }) {
	await page.setViewportSize({ width: 400, height: 800 });
	await open(page, url);
	await fits(page);
	assert.ok((await inked(page)) > 0.1);
}

/** All that Tab comes to, one round: what it is, and where. */
async function round(page) {
	const stops = [];
	await page.evaluate(() => {
		document.activeElement.blur();
		scrollTo(0, 0);
	});
	for (;;) {
		await page.keyboard.press('Tab');
		const stop = await page.evaluate((n) => {
			const e = document.activeElement;
			if (e === document.body || e.dataset.stop) return null;
			e.dataset.stop = n;
			const r = e.getBoundingClientRect(), part = ['.top', '.bars', '.panel-plot', '.panel-totals', '.panel-flame .toolbar', '.flame-side', '.table-side'].find((s) => e.closest(s)), box = part && e.closest(part).getBoundingClientRect();
			return { what: `${e.tagName}.${e.className}`, part: part ?? '', y: r.top + scrollY, x: r.left, height: r.height, place: box ? [Math.round(box.top + scrollY), Math.round(box.left)] : [0, 0] };
		}, String(stops.length));
		if (!stop) return stops;
		stops.push(stop);
	}
}

/** The keyboard goes where the eye does, in wide and narrow windows: line by line, left to right, part by part. */
export async function tabs({ page, url }) {
	for (const [at, width] of [['', 1280], ['', 400], ['compare?per=run', 1280], ['compare?per=run', 400]]) {
		await page.setViewportSize({ width, height: 860 });
		await open(page, url + at);
		await page.locator('.table-scroll').waitFor();
		const stops = (await round(page)).filter((s) => s.part), parts = [...new Set(stops.map((s) => s.part))];
		assert.equal(stops.filter((s, i) => i && s.part !== stops[i - 1].part).length, parts.length - 1, `each part in one piece: ${stops.map((s) => s.part).join()}`);
		for (const [i, s] of stops.entries()) {
			const before = stops[i - 1];
			if (!before) continue;
			if (s.part !== before.part) assert.ok(s.place[0] > before.place[0] || (s.place[0] === before.place[0] && s.place[1] > before.place[1]), `${s.part} comes after ${before.part} at ${width}: ${s.place} ${before.place}`);
			else if (s.part !== '.top') assert.ok(s.x > before.x || s.y + s.height / 2 > before.y + before.height / 2 + 2, `${s.what} at ${s.x}, ${s.y} after ${before.what} at ${before.x}, ${before.y} of ${width}`);
		}
		assert.equal(parts.indexOf('.flame-side') < parts.indexOf('.table-side'), width === 400, 'as they stand');
	}
	// A control that is drawn anew keeps the focus, and so does what opened a menu.
	await page.setViewportSize({ width: 1280, height: 860 });
	await open(page, url);
	await page.getByRole('group', { name: 'View' }).getByRole('button', { name: 'Table' }).focus();
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => p.get('view') === 'table');
	assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Table');
	await page.getByRole('button', { name: 'Options' }).focus();
	await page.keyboard.press('Enter');
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => p.get('dir') === 'flame');
	assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Options');
	await page.keyboard.press('Enter');
	await page.keyboard.press('Tab'); // out of the menu: on behind what opened it
	assert.equal(await page.locator('.popover').count(), 0);
	assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Export');
}

/** A finger: a tap zooms, holding opens the menu and does not zoom. */
export async function touches({ context, url }) {
	const own = await context.browser().newContext({ viewport: { width: 400, height: 800 }, hasTouch: true, isMobile: true }), page = await own.newPage();
	await open(page, url);
	const canvas = page.locator('.flame-canvas').first(), touch = await own.newCDPSession(page);
	await canvas.scrollIntoViewIfNeeded();
	const box = await canvas.boundingBox(), x = box.x + 20, y = box.y + 19 * 2 + 9;
	await touch.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: [{ x, y }] });
	await page.getByRole('menuitem', { name: /Callers and callees/ }).waitFor();
	await touch.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
	await page.keyboard.press('Escape');
	assert.equal(query(page).getAll('at').length, 0, 'holding does not zoom');
	await page.touchscreen.tap(x, y);
	await waitQuery(page, (p) => p.getAll('at').length === 2);
	await fits(page);
	await own.close();
}

export async function cancels({ page, url }) {
	let held = 0;
	await page.route('**/api/v1/query_series', () => held++); // never answered
	await page.goto(url);
	await page.locator('.panel-plot').getByRole('button', { name: 'Cancel' }).click();
	await page.locator('.panel-plot .state-cancelled').waitFor();
	assert.equal(held, 1);
	await page.unroute('**/api/v1/query_series');
	await page.locator('.panel-plot').getByRole('button', { name: 'Run again' }).click();
	await page.locator('.legend-item').waitFor();
	// Another graph that was cancelled: what changes the looks does not bring back the former one.
	await open(page, url);
	await page.route('**/api/v1/flamegraph', () => {});
	await page.getByRole('button', { name: 'Options' }).click();
	await page.getByRole('menuitemradio', { name: 'Split by build' }).click();
	const cancel = page.locator('.panel-flame').getByRole('button', { name: 'Cancel' });
	await cancel.click();
	await page.locator('.panel-flame .state-cancelled').waitFor();
	await page.keyboard.press('i');
	await waitQuery(page, (p) => p.get('dir') === 'flame');
	assert.equal(await page.locator('.flame-canvas:visible').count(), 0, 'no graph of the former query');
	await cancel.click(); // what failed was asked for again
	await cancel.waitFor({ state: 'hidden' });
	await page.unroute('**/api/v1/flamegraph');
	await page.locator('.panel-flame').getByRole('button', { name: 'Run again' }).click();
	await page.locator('.flame-canvas:visible').waitFor();
}

export async function empty({ page, url }) {
	await page.goto(url);
	await page.locator('.panel-plot .state-empty').waitFor();
	// There is a configuration to start from, which the scraper takes.
	assert.match(await page.locator('.panel-plot .state-empty').textContent(), /No target is configured/);
	await page.locator('.panel-plot').getByRole('button', { name: 'Copy' }).click();
	const text = await page.evaluate(() => navigator.clipboard.readText());
	assert.match(text, /^scrape_configs:\n[^]*127\.0\.0\.1:7273/);
	await page.setViewportSize({ width: 400, height: 860 });
	await fits(page);
	await page.getByRole('button', { name: 'Last 7 days' }).click();
	await waitQuery(page, (p) => p.get('start') === 'now-7d');
	await page.locator('.panel-plot .state-empty').waitFor();
	for (const [at, panel] of [['functions', '.panel-functions'], ['profiles', '.panel-profiles']]) {
		await page.goto(url + at);
		assert.doesNotMatch(await page.locator(`${panel} .state-empty`).textContent(), /matchers/, 'there are none');
	}
	await page.goto(`${url}compare`);
	await page.locator('.panel-plot .state-empty').waitFor();
	assert.equal(await page.locator('.panel-totals:visible').count(), 0, 'no empty box');
	return text;
}

/** A damaged block: the pictures show the rest, a banner says what is missing, and pages without its data say nothing. */
export async function warned({ page, url, block, scratch }) {
	await open(page, url);
	assert.ok((await inked(page)) > 0.1);
	const banner = page.locator('.warnings');
	assert.match(await banner.innerText(), new RegExp(`^block ${block} is damaged: profiles from .* may be missing$`));
	await page.screenshot({ path: `${scratch}/warned.png` });
	await page.getByRole('link', { name: /^Status/ }).click();
	await banner.waitFor({ state: 'hidden' });
}

export async function prefixed({ page, url }) {
	await open(page, url);
	assert.ok((await inked(page)) > 0.1);
	await clickGraph(page, 1, 0.1);
	await waitQuery(page, (p) => p.has('at'));
	assert.ok(page.url().startsWith(url));
}

/** Alpha before, beta after: twice the work in the same stacks. Too few replicates for statistics, at any time of the day. */
export async function compares({ page, url, scratch }) {
	const type = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
	await open(page, `${url}compare?query_a=${type}{service_name="alpha"}&query_b=${type}{service_name="beta"}&start_b=now-1h&end_b=now&start_a=now-1h&end_a=now&per=run&replicate=instance,1h`);
	await page.locator('.total.is-more strong').waitFor();
	assert.equal(await page.locator('.total.is-more strong').textContent(), '+100%');
	assert.deepEqual(await page.locator('.legend-label').allTextContents(), ['A', 'B']);
	await rows(page).first().waitFor();
	for (const text of await page.locator('.table-row .cell:last-child').allTextContents()) assert.match(text, /^(\+100%|0\.0%)$/);
	const red = () => page.evaluate(() => {
		const c = document.querySelector('.flame-canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] && d[i] > d[i + 2] + 20) n++;
		return n;
	});
	assert.ok((await red()) > 1000, 'more is red');
	// Callers and callees have the colours of the difference too.
	await rows(page).filter({ hasText: 'leaf' }).first().click({ button: 'right' });
	await page.getByRole('menuitem', { name: /Callers and callees/ }).click();
	await page.locator('.sandwich-head').waitFor();
	assert.equal(await page.evaluate(() => {
		const { callers } = document.querySelector('.panel-flame').flame.picture.sandwich, { selfA, selfB } = callers.tree.sides, sum = (list) => list.reduce((a, b) => a + b, 0);
		return sum(selfB) / sum(selfA);
	}), 2);
	await page.getByRole('button', { name: 'Back to the graph' }).click();
	await waitQuery(page, (p) => !p.has('sandwich'));
	await page.getByRole('button', { name: 'New', exact: true }).click();
	await waitQuery(page, (p) => p.get('mark') === 'new');
	assert.equal(await rows(page).count(), 0);
	await page.getByRole('button', { name: 'All', exact: true }).click();
	await page.getByRole('button', { name: 'Export' }).click();
	const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: /^Folded/ }).click()]);
	const saved = `${scratch}/diff.folded`;
	await download.saveAs(saved);
	await page.getByRole('button', { name: 'Share of total' }).click();
	await waitQuery(page, (p) => p.get('mode') === 'relative');
	await page.waitForFunction(() => document.querySelector('.totals')?.textContent.includes('shares'));
	await settled(page);
	assert.ok((await red()) < 1000, 'equal shares are not red');
	await clickGraph(page, 2, 0.1);
	await waitQuery(page, (p) => p.getAll('at').length === 2);
	const box = await page.locator('.plot .u-over').boundingBox();
	await page.getByRole('group', { name: 'Drag selects' }).getByRole('button', { name: 'A' }).click();
	await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.9, box.y + 44, { steps: 8 });
	await page.mouse.up();
	await waitQuery(page, (p) => /^\d+$/.test(p.get('start_a')) && p.get('start_b') === 'now-1h');
	return saved;
}

/** A panel per thread: the label's values are the first level, and what is small in one still has colours. */
export async function panels({ page, url }) {
	const type = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
	await open(page, `${url}compare?query_a=${type}{service_name="alpha"}&query_b=${type}{service_name="beta"}&start_b=now-1h&end_b=now&start_a=now-1h&end_a=now&per=run`);
	await page.getByRole('button', { name: /^Panels/ }).click();
	await page.getByRole('menuitemradio', { name: 'thread_name' }).click();
	await waitQuery(page, (p) => p.get('panel') === 'thread_name');
	await page.waitForFunction(() => document.querySelector('.panel-flame .panel-body > .facts').textContent.includes('a panel per thread_name'));
	await settled(page);
	const first = await page.evaluate(() => {
		const t = document.querySelector('.panel-flame').flame.shown, names = [];
		for (let i = 1; i < t.n; i++) if (t.parent[i] === 0) names.push(t.functions.name[t.fn[i]]);
		return names.sort();
	});
	assert.deepEqual(first, ['gc', 'main']);
	// Each has a canvas of its own; a click leads into it, and back.
	const canvas = page.locator('.flame-panel .flame-canvas');
	assert.equal(await canvas.count(), 2);
	assert.match((await page.locator('.flame-panel-head').allTextContents()).sort().join(), /^gc\s*A .*B .*\+100%,main.*\+100%$/);
	const box = await canvas.nth(1).boundingBox(), name = await page.locator('.flame-panel-head strong').nth(1).textContent();
	await page.mouse.move(box.x + 20, box.y + 9);
	assert.equal(await page.locator('.tooltip:visible strong').textContent(), name);
	await page.mouse.click(box.x + 20, box.y + 28);
	await waitQuery(page, (p, first) => p.getAll('at').length === 2 && p.get('at') === first, name);
	await page.locator('.flame-panel').first().waitFor({ state: 'hidden' });
	await page.keyboard.press('0');
	await waitQuery(page, (p) => !p.has('at'));
	await canvas.first().waitFor();
	await canvas.nth(1).focus();
	for (const key of ['ArrowUp', 'ArrowLeft', 'ArrowRight', 'Enter']) await page.keyboard.press(key); // no way out of it
	await waitQuery(page, (p, first) => p.getAll('at').join() === first, name);
	await page.getByRole('button', { name: 'Panels by thread_name' }).click();
	await page.getByRole('menuitemradio', { name: 'One graph' }).click();
	await waitQuery(page, (p) => !p.has('panel') && !p.has('at'));
	await page.goto(`${url}compare`);
	await page.locator('.panel-totals strong').first().waitFor();
	assert.deepEqual(await page.locator('.range').allTextContents(), ['now-2h to now-1h', 'Last hour'], 'this hour against the one before');
	assert.match(await page.locator('.totals').textContent(), /nothing is stored here: choose another range or preset/);
}

/** Each profile is there, by pointer and by keys; one leads to its flame graph, and back. */
export async function profiles({ page, url }) {
	await page.goto(`${url}profiles`);
	const canvas = page.locator('.heat-canvas');
	await page.locator('.heat-names span').first().waitFor();
	assert.deepEqual(await page.locator('.heat-names span').allTextContents(), ['beta', 'alpha'], 'the row with most is first');
	assert.match(await page.locator('.panel-profiles .facts').textContent(), /^20 profiles/);
	assert.equal(await page.locator('.plain tbody tr').count(), 20);
	await canvas.focus();
	await page.keyboard.press('ArrowLeft');
	await page.waitForFunction(() => document.querySelector('#heat-said').textContent.includes('service_name beta'));
	await page.keyboard.press('ArrowDown');
	await page.waitForFunction(() => document.querySelector('#heat-said').textContent.includes('service_name alpha'));
	const said = await page.locator('#heat-said').textContent();
	await page.keyboard.press('ArrowLeft');
	await page.waitForFunction((old) => document.querySelector('#heat-said').textContent !== old, said);
	await page.getByRole('button', { name: 'By value' }).click();
	await waitQuery(page, (p) => p.get('by') === 'value');
	assert.match(await page.locator('.heat-names span').first().textContent(), /ms$/);
	await page.goBack();
	await waitQuery(page, (p) => !p.has('by'));
	await canvas.focus();
	await page.keyboard.press('ArrowLeft');
	await page.keyboard.press('Enter');
	await waitQuery(page, (p) => Boolean(p.get('profile_id')));
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	await settled(page);
	assert.match(await page.locator('.panel-flame .facts').textContent(), /· 1 profile read/);
	await page.reload();
	await page.getByText('A single profile').waitFor();
	await page.getByRole('button', { name: 'The whole range' }).click();
	await waitQuery(page, (p) => !p.has('profile_id'));
	await mergesSelected(page, url);
	await page.setViewportSize({ width: 400, height: 800 });
	await page.goto(`${url}profiles?by=value`);
	await page.locator('.heat-names span').first().waitFor();
	await fits(page);
	// With the pointer: some point of the picture has a profile below it.
	const box = await canvas.boundingBox();
	for (let x = 0; x < box.width && await page.locator('.panel-profiles .tooltip').isHidden(); x += 4) for (let y = 4; y < box.height && await page.locator('.panel-profiles .tooltip').isHidden(); y += 12) await page.mouse.move(box.x + x, box.y + y);
	assert.ok(await page.locator('.panel-profiles .tooltip').isVisible());
}

/** Drags from one share of the heat map to another. */
async function dragHeat(page, [x0, y0], [x1, y1]) {
	const box = await page.locator('.heat-canvas').boundingBox(), height = box.height - 24; // without the axis
	await page.mouse.move(box.x + box.width * x0, box.y + height * y0);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * x1, box.y + height * y1, { steps: 6 });
	await page.mouse.up();
}

/** What a rectangle holds is one flame graph: by value, by row, by keys; the address has it. */
async function mergesSelected(page, url) {
	const facts = page.locator('.panel-flame .panel-body > .facts'), selected = page.locator('.single:visible');
	const merged = (text) => page.waitForFunction((t) => !document.querySelector('[aria-busy=true]') && document.querySelector('.panel-flame .panel-body > .facts').textContent.startsWith(t), text);
	await page.goto(`${url}profiles?by=value`);
	await page.locator('.heat-names span').first().waitFor();
	await dragHeat(page, [0, 0], [1, 0.3]); // the upper half has beta's, which are twice as large
	await waitQuery(page, (p) => p.has('sel') && p.has('values'));
	assert.match(await selected.textContent(), /^10 profiles selected.*900.ms together$/);
	await merged('900\u202fms · ');
	assert.match(await facts.textContent(), / 10 profiles read /);
	await page.getByRole('button', { name: 'Export' }).click();
	assert.match(await page.getByRole('menuitem', { name: /^Folded/ }).getAttribute('download'), /^cpu-20[2-9]\d{5}T\d{6}Z\.folded$/, 'the file is called by when they were');
	await page.keyboard.press('Escape');
	const link = await page.locator('.panel-flame').evaluate(() => location.href), { y, height } = await page.locator('.heat-selected').boundingBox();
	await page.goto(link);
	await merged('900\u202fms · ');
	const again = await page.locator('.heat-selected').boundingBox(); // its width follows the time of the day
	assert.ok(Math.abs(again.y - y) < 1 && Math.abs(again.height - height) < 1, 'the address leads to the same rectangle');
	await dragHeat(page, [0, 0.6], [1, 0.9]);
	await page.locator('.toast', { hasText: 'No profile lies in there' }).waitFor();
	await page.goto(`${url}profiles?by=service_name`);
	await page.locator('.heat-names span').first().waitFor();
	await dragHeat(page, [0, 0.6], [1, 0.9]); // alpha's row
	await waitQuery(page, (p) => p.get('rows') === 'alpha');
	await merged('450\u202fms · ');
	await rows(page).filter({ hasText: 'leaf' }).click();
	await waitQuery(page, (p) => p.get('chosen') === 'leaf');
	await page.keyboard.press('Escape'); // first the mark, then what is selected
	await waitQuery(page, (p) => !p.has('chosen') && p.get('rows') === 'alpha');
	await page.getByRole('button', { name: 'Export' }).click();
	const exported = await page.getByRole('menuitem', { name: /^Folded/ }).getAttribute('href');
	assert.match(await (await page.request.get(exported)).text(), /^main;work;leaf \d+$/m);
	await page.keyboard.press('Escape');
	await page.keyboard.press('Escape');
	await waitQuery(page, (p) => !p.has('sel'));
	await page.locator('.heat-canvas').focus();
	await page.keyboard.press('ArrowLeft');
	for (const key of ['Shift+ArrowLeft', 'Shift+ArrowLeft', 'Shift+ArrowDown']) await page.keyboard.press(key);
	assert.match(await page.locator('#heat-said').textContent(), /6 profiles are spanned/);
	await page.keyboard.press('Enter');
	await merged('405\u202fms · ');
}

export async function functions({ page, url }) {
	await page.goto(`${url}functions`);
	await page.locator('.legend-item').first().waitFor();
	const names = await page.locator('.plain tbody a').allTextContents();
	assert.ok(names.includes('leaf'), names.join());
	// Ten profiles of ten seconds a minute apart, in steps of half a minute: where none is, the stack has no height, and where one lies in two steps its
	// height is shared.
	const tops = await page.evaluate(() => [...document.querySelector('.plot').plot.u.data[1]]);
	assert.ok(Math.abs(tops.reduce((sum, v) => sum + v, 0) - 10 * 0.0045) < 1e-9 && Math.max(...tops) < 0.0045 + 1e-9, tops.join());
	await page.getByRole('button', { name: '5', exact: true }).click();
	await page.getByRole('button', { name: 'Without', exact: true }).click();
	await waitQuery(page, (p) => p.get('others') === 'hidden' && p.get('limit') === '5');
	await page.waitForFunction(() => ![...document.querySelectorAll('.legend-label')].some((l) => / others$/.test(l.textContent)) && document.querySelector('.legend-item'));
	await page.getByRole('button', { name: 'Total', exact: true }).click();
	await waitQuery(page, (p) => p.get('by') === 'total');
	await page.waitForFunction(() => document.querySelector('.facts').textContent.includes('totals overlap'));
	await page.locator('.plain tbody a', { hasText: 'leaf' }).click();
	await page.locator('.sandwich-head').waitFor();
	assert.match(await page.locator('.sandwich-head').textContent(), /^leaf/);
}

/** Files that were saved by another story, and some that are none. */
export async function files({ page, url, scratch, profile }) {
	writeFileSync(`${scratch}/b.folded`, 'main;work;leaf 60\nmain;work;other 90\nmain;fresh 20\n');
	writeFileSync(`${scratch}/a.folded`, 'main;work;leaf 100\nmain;work;other 50\nmain;old 30\n');
	writeFileSync(`${scratch}/none.txt`, 'this is not a profile\n');
	await page.goto(`${url}files`);
	await page.locator('.state-empty').waitFor();
	await page.setInputFiles('#files', `${scratch}/none.txt`);
	await page.locator('.problem:visible').waitFor();
	assert.match(await page.locator('.problem').textContent(), /none\.txt: line 1: .* is no folded stack/);
	const [worker] = await Promise.all([page.waitForEvent('worker'), page.setInputFiles('#files', profile)]);
	assert.match(worker.url(), /\/assets\/worker\.js$/, 'files are read beside the page');
	await page.locator('.panel-flame .panel-body > .facts:not(:empty)').waitFor();
	assert.ok((await page.locator('.table-row .function').allTextContents()).includes('leaf'));
	await page.getByRole('button', { name: /^Close/ }).click();
	await page.locator('.state-empty').waitFor();
	const find = () => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'f', ctrlKey: true, bubbles: true, cancelable: true }));
	assert.ok(await page.evaluate(find), 'without a graph the browser searches the page');
	await page.setInputFiles('#files', [`${scratch}/a.folded`, `${scratch}/b.folded`]);
	await waitQuery(page, (p) => p.getAll('file').join() === 'a.folded');
	await page.getByRole('button', { name: 'B: b.folded' }).click();
	await page.locator('.side-head').waitFor();
	const cells = Object.fromEntries(await page.locator('.table-row').evaluateAll((all) => all.map((r) => [r.children[0].textContent, r.children[4].textContent])));
	assert.deepEqual(cells, { leaf: '−40.0%', other: '+80.0%', old: 'gone', fresh: 'new', main: '0.0%', work: '0.0%' });
	assert.match(await page.evaluate(() => document.querySelector('.panel-flame').flame.answer.source.side.csv()), /^"fresh",0,20,20,\r$/m, 'what is new has no percentage');
}

/** A million frames, none left out: what drawing them costs, in script and canvas, while the picture zooms. */
export async function million({ page, url }) {
	await page.setViewportSize({ width: 1280, height: 800 });
	await open(page, url);
	const nodes = await page.evaluate(() => document.querySelector('.panel-flame').flame.timing.nodes);
	const zoom = await page.evaluate(async () => {
		const panel = document.querySelector('.panel-flame').flame, view = panel.view, t = view.tree;
		const times = [];
		let narrowest = Infinity, bars = 0;
		for (let k = 0; k < 120; k++) {
			// In and out between the whole and the widest frame of the sixth level.
			const target = t.level[6], x = 0.5 - Math.cos((k / 119) * 4 * Math.PI) / 2;
			view.from = t.start[target] * x;
			view.to = t.total[0] + (t.start[target] + t.total[target] - t.total[0]) * x;
			const began = performance.now();
			view.drawNow();
			view.canvas.getContext('2d').getImageData(0, 0, 1, 1); // what was drawn is rasterized before the clock stops
			times.push(performance.now() - began);
			narrowest = Math.min(narrowest, view.painter.drawn.narrowest);
			bars = Math.max(bars, view.painter.drawn.bars);
			await new Promise(requestAnimationFrame);
		}
		times.sort((a, b) => a - b);
		return { median: times[60], p95: times[114], narrowest, bars, decodeMs: panel.timing.decodeMs, firstPaintMs: panel.firstPaintMs };
	});
	assert.ok(zoom.narrowest >= 0.5, `the narrowest bar is ${zoom.narrowest} pixels`);
	return { nodes, ...zoom, ...(await rearranges(page)) };
}

/** Trees that are made of the large one: how long the page's thread is held at most meanwhile. */
async function rearranges(page) {
	const held = async (keys, done) => {
		await page.evaluate(() => {
			window.held = [];
			new PerformanceObserver((list) => window.held.push(...list.getEntries().map((e) => e.duration))).observe({ type: 'longtask' });
		});
		await keys();
		await page.waitForFunction(done);
		return page.evaluate(() => Math.max(0, ...window.held));
	};
	const name = await page.evaluate(() => {
		const t = document.querySelector('.panel-flame').flame.shown;
		return t.functions.name[t.fn[t.first[0]]];
	});
	const option = async (what) => {
		await page.getByRole('button', { name: 'Options' }).click();
		await page.getByRole('menuitemradio', { name: what }).click();
	};
	const collapsed = await held(() => option('Chains of single calls'), () => document.querySelector('.panel-flame').flame.shown.functions.name.some((n) => /^\d+ frames$/.test(n)));
	await option('Chains of single calls');
	await page.locator('.flame-canvas').first().click({ position: { x: 5, y: 28 }, button: 'right' });
	const sandwich = await held(() => page.getByRole('menuitem', { name: /Callers and callees/ }).click(), () => document.querySelector('.panel-flame').flame.picture.sandwich.callees.tree?.n > 10000);
	assert.equal(await page.locator('.sandwich-head strong').textContent(), name);
	return { collapsed, sandwich };
}
