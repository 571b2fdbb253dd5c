// The readers and writers of files, without a browser: readers.mjs NODE_MODULES, where esbuild lies. Throws where one is wrong.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CPUPROFILE, PERF, SPEEDSCOPE } from './samples.mjs';

const top = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');
const { build } = createRequire(join(resolve(process.argv[2]), 'x.js'))('esbuild');
const { outputFiles } = await build({ stdin: { contents: "export * from './ui/src/files/read'; export * from './ui/src/export/write';", resolveDir: top }, bundle: true, write: false, format: 'esm', target: ['es2021'], logLevel: 'warning' });
const { readProfile, write } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
const read = (content) => readProfile(new TextEncoder().encode(content));

function stacks(t) {
	const out = {};
	for (let i = 1; i < t.n; i++) if (t.self[i]) {
		const path = [];
		for (let k = i; k; k = t.parent[k]) path.unshift(t.functions.name[t.fn[k]]);
		out[path.join(';')] = (out[path.join(';')] ?? 0) + t.self[i];
	}
	return out;
}

const CASES = [
	['folded, one line is none', 'main;work_[k] 3\nx\nmain 2\n', [['samples', 'count', { 'main;work': 3, main: 2 }]]],
	['folded as Sonde writes it', ';#<Class>;a 2\nmain 7; -3\nmain 1.5e-1\n', [['samples', 'count', { '#<Class>;a': 2, 'main 7': -3, main: 0.15 }]]],
	['perf script', PERF, [['samples', 'count', { main: 1, 'main;leaf(int (*)(char))': 1, 'main;0xffff': 1 }], ['cpu', 'nanoseconds', { main: 500, 'main;leaf(int (*)(char))': 10101010, 'main;0xffff': 500 }]]],
	['speedscope', SPEEDSCOPE, [['worker', 'nanoseconds', { 'main;leaf': 3, main: 2 }], ['worker (2)', 'nanoseconds', { main: 6, 'main;leaf': 4 }], ['all 2 profiles', 'nanoseconds', { main: 8, 'main;leaf': 7 }]]],
	['.cpuprofile', CPUPROFILE, [['samples', 'count', { main: 1, 'main;(anonymous)': 2 }], ['time', 'microseconds', { main: 20, 'main;(anonymous)': 70 }]]],
];
for (const [what, content, expected] of CASES) {
	const p = await read(content);
	assert.deepEqual(p.types.map((t, i) => [t.type, t.unit, stacks(p.tree(i))]), expected, what);
}

const REFUSED = [
	['no profile at all\n', /line 1: "no profile at all" is no folded stack/],
	['{"a": 1}', /neither a speedscope file .* nor a \.cpuprofile/],
	['{"a": ', /this is no JSON/],
	['<!doctype html><title>x</title>', /this page has no profile/],
	[SPEEDSCOPE.replace('"weights":[3,2]', '"weights":[3]'), /profile 0: 2 samples, 1 weights/],
	[SPEEDSCOPE.replace('"samples":[[0,1]', '"samples":[[0,7]'), /a stack names frame 7 of 2/],
	[CPUPROFILE.replace('"children":[3]', '"children":[3,4]'), /node 2 names the child 4, which is not there/],
	[CPUPROFILE.replace('"children":[3]', '"children":[3,2]'), /two parents|circle/],
	['', /the file has no stacks/],
];
for (const [content, message] of REFUSED) await assert.rejects(async () => {
	const p = await read(content);
	p.tree(p.main);
}, (e) => message.test(e.message), `${content.slice(0, 40)} is refused with ${message}`);

// Damaged files: an answer or an error with a text, whatever is in them; the same in each run.
let state = 1;
const random = (n) => {
	state = (Math.imul(state, 1103515245) + 12345) >>> 0;
	return Math.floor((state / 2 ** 32) * n);
};
for (let round = 0; round < 4000; round++) {
	const bytes = new TextEncoder().encode(CASES[round % CASES.length][1]);
	for (let k = 0; k <= random(4); k++) bytes[random(bytes.length)] = random(4) ? 32 + random(95) : random(256);
	const cut = random(3) ? bytes : bytes.subarray(0, random(bytes.length));
	try {
		const p = await readProfile(cut);
		p.types.forEach((_, i) => assert.ok(Number.isFinite(p.tree(i).total[0])));
	} catch (e) {
		assert.ok(e.constructor === Error && e.message, `round ${round}: ${e.stack}\n${new TextDecoder().decode(cut)}`);
	}
}

// What is written is read again with every stack and every value: odd names, recursion, values of either sign and with fractions, samples
// without a stack. The frame of pages comes from the scraper: here it has no viewer.
globalThis.fetch = async () => new Response('<!DOCTYPE html><title></title><script type="application/json" id="about">{}</script><script type="text/plain" id="tree"></script><div id="plain">\n</div>');
const NAMES = ['main', 'a b', 'loop 12', '#<Class:0x1>', '1e5', '<img onerror="x">', 'größe', '日志', '\u2028', 'f(int, char*)', '-', '"q"', '\\', '$&', '0x10', '(cut)'];
const UNITS = [['nanoseconds', 1], ['bytes', 1], ['seconds', 1e9], ['none', 1e3]]; // by what pages and pprof multiply fractions
for (let round = 0; round < 400; round++) {
	const [unit, factor] = UNITS[random(UNITS.length)], hasFractions = factor > 1 && random(2) > 0, frames = Array.from({ length: 1 + random(6) }, () => ({ name: NAMES[random(NAMES.length)], ...(random(2) && { file: `f${random(2)}.c`, line: 1 + random(3) }) }));
	const samples = Array.from({ length: 1 + random(8) }, () => Array.from({ length: random(6) }, () => random(frames.length))), weights = samples.map(() => (random(4) ? 1 : -1) * (hasFractions ? (1 + random(5000)) / 1000 : 1 + random(2 ** 30)));
	const file = JSON.stringify({ shared: { frames }, profiles: [{ type: 'sampled', name: 'made', unit, startValue: 0, endValue: 1, samples, weights }] });
	const profile = await read(file), tree = profile.tree(0), byLine = profile.tree(0, true), isWhole = weights.every(Number.isInteger);
	const shown = { names: ['made.json'], scale: [1, 1], isRelative: false, time: 0, seconds: 0, subtitle: '', isFull: true };
	const rounded = (t, by = 1) => Object.fromEntries(Object.entries({ '[no stack]': t.self[0], ...stacks(t) }).map(([path, v]) => [path, Math.round(v * by * 1e3)]).filter(([, v]) => v)); // folded stacks have a frame for no stack
	for (const format of ['pprof', 'folded', 'speedscope', 'page']) {
		const { blob } = await write(format, { ...shown, trees: [format === 'pprof' ? byLine : tree], whole: tree }), again = (await readProfile(new Uint8Array(await blob.arrayBuffer()))).tree(0);
		assert.deepEqual(rounded(again), rounded(tree, isWhole || format === 'folded' || format === 'speedscope' ? 1 : factor), `round ${round}: ${format} of ${file}`);
	}
}
