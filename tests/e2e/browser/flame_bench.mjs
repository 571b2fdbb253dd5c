// What a large flame graph costs a browser: flame_bench.mjs CHROMIUM URL [PROFILE.cpuprofile]   prints {figure: value}.
// All times are CPU times of threads, as Chromium's trace has them: they say the same on a busy machine.
import { writeFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { settled } from './scenarios.mjs';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const CATEGORIES = ['toplevel', 'disabled-by-default-devtools.timeline', 'devtools.timeline', 'blink.user_timing'];
const FRAMES = 120;
const [executablePath, url, profilePath] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
page.setDefaultTimeout(120_000);
page.on('pageerror', (e) => console.error(e.stack));

async function trace(work) {
	await browser.startTracing(page, { categories: CATEGORIES });
	const value = await work();
	return { value, events: JSON.parse((await browser.stopTracing()).toString()).traceEvents };
}

/** The outermost tasks of threads with this name, in order: when they began and ended, and their CPU milliseconds. */
function tasks(events, threadName, pid) {
	const names = new Map(events.filter((e) => e.name === 'thread_name').map((e) => [`${e.pid}/${e.tid}`, e.args.name]));
	const ours = events.filter((e) => e.ph === 'X' && e.tdur > 0 && /RunTask$/.test(e.name) && e.pid === pid && names.get(`${e.pid}/${e.tid}`)?.startsWith(threadName)).sort((x, y) => x.ts - y.ts || y.dur - x.dur);
	const ends = new Map(), outer = [];
	for (const e of ours) if (e.ts >= (ends.get(e.tid) ?? 0)) {
		ends.set(e.tid, e.ts + e.dur);
		outer.push({ at: e.ts, end: e.ts + e.dur, ms: e.tdur / 1e3 });
	}
	return outer;
}
const mark = (events, name) => events.find((e) => e.name === name && /user_timing/.test(e.cat));
const sum = (list) => list.reduce((a, t) => a + t.ms, 0);

async function profiled(name, work) {
	if (!profilePath) return work();
	const cdp = await page.context().newCDPSession(page);
	await cdp.send('Profiler.enable');
	await cdp.send('Profiler.setSamplingInterval', { interval: 200 });
	await cdp.send('Profiler.start');
	const value = await work();
	writeFileSync(`${profilePath}.${name}.cpuprofile`, JSON.stringify((await cdp.send('Profiler.stop')).profile));
	return value;
}

await page.goto('about:blank');
const { events } = await trace(() => profiled('load', async () => {
	await page.goto(url);
	await page.waitForFunction(() => document.querySelector('.panel-flame')?.flame?.firstPaintMs > 0);
}));
if (profilePath) writeFileSync(`${profilePath}.load.trace.json`, JSON.stringify(events));
const shown = await page.evaluate(() => {
	const { flame } = document.querySelector('.panel-flame');
	return { nodes: flame.timing.nodes, decode_wall_ms: flame.timing.decodeMs, first_paint_wall_ms: flame.firstPaintMs };
});
const painted = mark(events, 'sonde-painted'), decoded = mark(events, 'sonde-decoded'), arrived = mark(events, 'sonde-arrived');
const worker = sum(tasks(events, 'DedicatedWorker', painted.pid).filter((t) => t.end > arrived.ts && t.at <= decoded.ts));
const main = sum(tasks(events, 'CrRendererMain', painted.pid).filter((t) => t.end > decoded.ts && t.at <= painted.ts));

await settled(page);
const frames = await trace(() => profiled('zoom', () => page.evaluate(async (n) => {
	const { view } = document.querySelector('.panel-flame').flame, t = view.tree, target = t.level[6], drawn = { narrowest: Infinity, bars: 0 };
	for (let k = 0; k < n; k++) {
		await new Promise(requestAnimationFrame);
		performance.mark('sonde-frame');
		// In and out between the whole and the widest frame of the sixth level.
		const x = 0.5 - Math.cos((k / (n - 1)) * 4 * Math.PI) / 2;
		view.from = t.start[target] * x;
		view.to = t.total[0] + (t.start[target] + t.total[target] - t.total[0]) * x;
		view.drawNow();
		drawn.narrowest = Math.min(drawn.narrowest, view.painter.drawn.narrowest);
		drawn.bars = Math.max(drawn.bars, view.painter.drawn.bars);
	}
	await new Promise(requestAnimationFrame);
	performance.mark('sonde-frame');
	return drawn;
}, FRAMES)));
const marks = frames.events.filter((e) => e.name === 'sonde-frame' && /user_timing/.test(e.cat)).map((e) => e.ts).sort((a, b) => a - b);
// A task belongs to the last frame that had begun when it ended: each begins in a task that draws it.
const costs = new Array(FRAMES).fill(0);
for (const t of tasks(frames.events, 'CrRendererMain', painted.pid)) {
	const i = marks.findLastIndex((at) => at <= t.end);
	if (i >= 0 && i < FRAMES) costs[i] += t.ms;
}
costs.sort((a, b) => a - b);
console.log(JSON.stringify({
	...shown, worker_cpu_ms: worker, main_cpu_ms: main, first_paint_cpu_ms: worker + main,
	frame_median_ms: costs[FRAMES / 2], frame_p95_ms: costs[Math.floor(FRAMES * 0.95)], ...frames.value,
}));
await browser.close();
