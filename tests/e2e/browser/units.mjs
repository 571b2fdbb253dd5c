// Parts of the web interface that need no browser: units.mjs NODE_MODULES, where esbuild lies. Throws where one is wrong.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from './load.mjs';

const top = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');

/* ---- versions: what the scraper would answer of [value, from, to, seconds between scrapes] ---- */

const NOW = 1_800_000_000, M = 60, H = 3600, D = 86400;

function store(ran) {
	return async (query) => {
		const q = Object.fromEntries(query), [start, end, step] = [q.start, q.end, q.step].map(Number), lines = new Map();
		assert.ok((end - start) / step <= 240, 'no more points than a plot has');
		for (const [value, from, to, every = 15] of ran) for (let t = Math.ceil(from / every) * every; t <= to; t += every) {
			const at = Math.ceil(t / step) * step;
			if (t <= start || t > end || at > end) continue;
			if (!lines.has(value)) lines.set(value, new Map());
			lines.get(value).set(at, (lines.get(value).get(at) ?? 0) + 1);
		}
		const sum = (m) => [...m.values()].reduce((a, b) => a + b, 0);
		return [...lines].sort((a, b) => sum(b[1]) - sum(a[1])).map(([value, m]) => ({ metric: { version: value }, values: [...m].sort((a, b) => a[0] - b[0]).map(([t, v]) => [t, String(v)]) }));
	};
}

const { stretches, pairs, ranges } = await load(process.argv[2], "export * from './pages/versions'");
const presets = async (ran, now = NOW) => pairs(await stretches(store(ran), 'version', 'cpu{}', now), 3).map((p) => {
	const r = ranges(p, H), side = (k) => [r[`start_${k}`], r[`end_${k}`]].map((t) => Number(t) - now);
	return [`${p.before.value} → ${p.after.value}`, side('a'), side('b')];
});

function assertPresets(got, expected, what) {
	assert.deepEqual(got.map(([label]) => label), expected.map(([label]) => label), what);
	got.forEach(([label, ...sides], i) => sides.flat().forEach((t, k) => assert.ok(Math.abs(t - expected[i].slice(1).flat()[k]) <= 30, `${what}, ${label}: ${JSON.stringify(sides)} is not ${JSON.stringify(expected[i].slice(1))}`)));
}

const ago = (s) => NOW - s;
const CASES = {
	'deployed two minutes ago': [[['v1', ago(3 * D), ago(2 * M)], ['v2', ago(2 * M), NOW]], [['v1 → v2', [-H - 2 * M, -2 * M], [-2 * M, 0]]]],
	'deployed two minutes ago, all there is is an hour old': [[['v1', ago(50 * M), ago(2 * M)], ['v2', ago(2 * M), NOW]], [['v1 → v2', [-50 * M, -2 * M], [-2 * M, 0]]]],
	'the older name sorts last, the newer one is larger': [[['z', ago(20 * M), ago(15 * M)], ['a', ago(15 * M), NOW]], [['z → a', [-20 * M, -15 * M], [-15 * M, 0]]]],
	'a canary beside the stable version': [[['v1', ago(5 * D), NOW], ['v2', ago(10 * M), NOW]], [['v1 → v2', [-H, 0], [-10 * M, 0]]]],
	'a canary for days': [[['v1', ago(5 * D), NOW], ['v2', ago(2 * D), NOW]], [['v1 → v2', [-H, 0], [-H, 0]]]],
	'a canary and slow scrapes that miss at times': [[['v1', ago(5 * D), ago(9 * M), 60], ['v1', ago(5 * M), NOW, 60], ['v2', ago(20 * M), NOW, 60]], [['v1 → v2', [-H, 0], [-20 * M, 0]]]],
	'a rolling deployment': [[['v1', ago(5 * D), ago(25 * M)], ['v2', ago(35 * M), NOW]], [['v1 → v2', [-H - 25 * M, -25 * M], [-35 * M, 0]]]],
	'rolled back within the hour': [[['v1', ago(5 * D), ago(40 * M)], ['v2', ago(40 * M), ago(10 * M)], ['v1', ago(10 * M), NOW]],
		[['v2 → v1', [-40 * M, -10 * M], [-10 * M, 0]], ['v1 → v2', [-H - 40 * M, -40 * M], [-40 * M, -10 * M]]]],
	'rolled back after a day': [[['v1', ago(5 * D), ago(2 * D)], ['v2', ago(2 * D), ago(1 * D)], ['v1', ago(1 * D), NOW]],
		[['v2 → v1', [-D - H, -D], [-H, 0]], ['v1 → v2', [-2 * D - H, -2 * D], [-D - H, -D]]]],
	'both ended long ago': [[['v1', ago(6 * D), ago(5 * D)], ['v2', ago(5 * D), ago(4 * D)]], [['v1 → v2', [-5 * D - H, -5 * D], [-4 * D - H, -4 * D]]]],
	'nothing was stored for a day': [[['v1', ago(6 * D), ago(4 * D)], ['v1', ago(3 * D), ago(2 * D)], ['v2', ago(2 * D), NOW]], [['v1 → v2', [-2 * D - H, -2 * D], [-H, 0]]]],
	'both began with the store': [[['v1', ago(2 * D), NOW], ['v2', ago(2 * D), NOW]], []],
	'one version': [[['v1', ago(2 * D), NOW]], []],
	'three': [[['v1', ago(3 * D), ago(2 * D)], ['v2', ago(2 * D), ago(30 * M)], ['v3', ago(30 * M), NOW]], [['v2 → v3', [-H - 30 * M, -30 * M], [-30 * M, 0]], ['v1 → v2', [-2 * D - H, -2 * D], [-H - 30 * M, -30 * M]]]],
};
for (const [what, [ran, expected]] of Object.entries(CASES)) assertPresets(await presets(ran), expected, what);
// From the first half minute of a deployment on, whatever the clock says: never round the wrong way.
for (let s = 45; s < 2 * H; s += 173) for (const stable of [ago(5 * D), ago(s + 90)]) assert.deepEqual((await presets([['v1', stable, ago(s)], ['v2', ago(s), NOW]])).map(([label]) => label), ['v1 → v2'], `${s} s after it`);

/* ---- names, by the table that C is tested with too ---- */

const { shortName, shownName } = await load(process.argv[2], `export * from './names';`);
for (const line of readFileSync(join(top, 'tests/data/short_names.txt'), 'utf8').split('\n').filter((l) => l && !l.startsWith('#'))) {
	const [name, short] = line.split('\t');
	assert.equal(shortName(name), short, name);
}

assert.equal(shownName('service_name=a, thread_name=main, worker'), 'a, main, worker', 'a group by its values');
assert.equal(shownName('operator==<int>'), 'operator==');
for (const name of ['value=', 'Config.value=']) assert.equal(shownName(name), name, 'a setter is no group');

/* ---- what names of mappings say, by the table that C is tested with too ---- */

const { codeOf, languageOf, languageTitle } = await load(process.argv[2], `export * from './mappings';`);
for (const line of readFileSync(join(top, 'tests/data/mappings.txt'), 'utf8').split('\n').filter((l) => l && !l.startsWith('#'))) {
	const [mapping, kind, language] = line.split('\t');
	assert.deepEqual([codeOf(mapping), languageOf(mapping)], [kind, language], mapping);
	assert.ok(!language || languageTitle(language) !== language, `${language} has a title`);
}

/* ---- units, by the table that C is tested with too, and ticks that are round in them ---- */

const { value, percent, rateUnit, unitName, ticks } = await load(process.argv[2], `export * from './units';`);
const checks = {
	text: ([v, unit, text]) => assert.equal(value(Number(v), unit).replace(/\u202f/g, '~'), text.replace(/(\d|~[TGMk]) (?!cores)/, '$1~'), `${v} ${unit}`),
	name: ([unit, name]) => assert.equal(unitName(unit), name),
	rate: ([type, unit, kind, name]) => assert.equal(rateUnit({ unit, profile_type: `x:${type}:${unit}:y:z` }, kind === 'instant'), name, `${type} in ${unit}`),
};
for (const line of readFileSync(join(top, 'tests/data/units.txt'), 'utf8').split('\n').filter((l) => l && !l.startsWith('#'))) {
	const [kind, ...columns] = line.split('\t');
	checks[kind](columns);
}
for (const [share, text] of [[0.5, '50.0%'], [0.00099, '0.1%'], [0.0004, '0.04%'], [-0.0004, '-0.04%'], [3.2e-9, '0.0000003%'], [0, '0.0%'], [1 / 0, '–']]) assert.equal(percent(share), text, `${share}`);
// Of an axis of as many ticks as fit into a plot each is round in its own unit: 45 s, 1.25 min, 128 MiB; never 1.33 min or 95.4 MiB.
for (const unit of ['nanoseconds', 'milliseconds', 'seconds', 'bytes', 'kilobytes']) {
	const steps = ticks(unit);
	assert.ok(steps.every((step, i) => !i || step > steps[i - 1]), `${unit}: from small to large, each once`);
	for (const step of steps) for (const times of [1, 2, 3, 4, 5, 6]) {
		const shown = value(step * times, unit), number = Number(shown.split('\u202f')[0]);
		assert.ok(Number.isInteger(number * 4) || Number.isInteger(number * 10), `${times} ticks of ${step} ${unit} are ${shown}`);
	}
}
assert.equal(ticks('count'), undefined);

const { captionOf } = await load(process.argv[2], `export { captionOf } from './flame/caption';`);
const caption = (query) => captionOf([['query', query], ['start', '1769868000'], ['end', '1769871600']]).name;
assert.equal(caption('process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="orders api/é", version!="2", x=""}'), 'cpu-orders-api-20260131T140000Z');
assert.equal(caption('memory:inuse_space:bytes:space:bytes{}'), 'inuse_space-20260131T140000Z');

/* ---- how far a function goes ---- */

const { lastLine } = await load(process.argv[2], `export { lastLine } from './extent';`);
for (const [file, start, last, text] of [
	['a.c', 1, 8, 'static int f(int a,\n\t     int b)\n{\n\tif (a) {\n\t}\n#ifdef X\nerr:\n}\nint g(void)\n{\n}'], ['a.c', 1, 1, 'int f(void) { return 1; }\n\nint g(void)\n{\n}'], ['a.go', 2, 4, 'package x\nfunc f() {\n\treturn\n}\nfunc g() {\n}'],
	['a.rs', 2, 4, 'impl X {\n    fn f(&self) {\n        1\n    }\n}'], ['a.rb', 1, 3, 'def f\n  1\nend\n'], ['a.py', 1, 5, 'def f(\n    a,\n):\n    if a:\n        pass\n\n# no part\ndef g():\n    pass'], ['a.py', 2, 3, 'class X:\n    def f(self):\n        pass\n    def g(self):\n        pass'],
	['a.py', 1, 2, 'def f():\n    pass'], ['a.c', 1, undefined, 'int f(void)\n{\n\t1;'], ['a.c', 9, undefined, 'int f;'], ['a.cc', 2, 4, 'x([&]\n  (int a) {\n    g();\n  });'], ['a.c', 2, undefined, '{\n\tint f;\n}'],
]) assert.equal(lastLine(text.split('\n'), start, file), last, text);

const { brief } = await load(process.argv[2], `export { brief } from './units';`);
for (const [text, decimals, short] of [['0.00375', 6, '0.00375'], ['0.0000159', 6, '0.000016'], ['0.000000159', 6, '<0.000001'], ['0.00001034', 6, '0.00001'], ['0.000004%', 3, '<0.001%'], ['0.04%', 3, '0.04%'], ['54.2\u202fs', 6, '54.2\u202fs'], ['0.0000159 cores', 6, '0.000016 cores'], ['0', 6, '0'], ['–', 3, '–']]) assert.equal(brief(text, decimals), short);

/* ---- charts of pages: in colour is what the runs support ---- */

const { changeOf, canSeparate } = await load(process.argv[2], `export * from './viewer_charts';`);
for (const [a, b, p, text, kind, note] of [
	[[10, 10, 10, 10], [11.2, 11.2, 11.2, 11.2], 0.029, '+12.0%', 'more', 'p = 0.029'], [[10, 9, 11], [11.2, 9, 12], 0.54, '+12.0%', 'muted', 'not significant, p = 0.540'],
	[[10, 10], [5, 5], 0.0001, '−50.0%', 'less', 'p < 0.001'], [[10], [5], 1, '−50.0%', 'muted', 'not significant, p = 1.000'], [[0], [5], null, 'new', 'muted', ''], [[0], [0], 1, '0.0%', 'muted', 'not significant, p = 1.000'],
]) assert.deepEqual(changeOf({ name: 'x', unit: 'count', a, b, p }), { text, kind, note }, `${a} against ${b}`);
for (const [n, m, can] of [[1, 1, false], [2, 2, false], [3, 3, false], [4, 3, false], [4, 4, true], [3, 5, true], [1, 39, true], [1, 38, false]]) assert.equal(canSeparate(n, m), can, `${n} and ${m} runs`);

/* ---- the badge of how good samples are ---- */

const { qualityTexts } = await load(process.argv[2], `export * from './quality';`);
for (const [q, texts] of [
	[{}, []], [{ cut: 0 }, ['0.0% cut']], [{ n_exporters: 1, cut: 0.25, lost: 0.05, frequency_hz: { least: 19, most: 19 } }, ['19.0\u202fHz', '5.0% lost', '25.0% cut!']],
	[{ lost: 0.0512, frequency_hz: { least: 2, most: 19 } }, ['2.00 to 19.0\u202fHz', '5.1% lost!']],
]) assert.deepEqual(qualityTexts(q).map((t) => t.text + (t.isMuch ? '!' : '')), texts);

/* ---- the table of functions: negative values by their size ---- */

const { bySize } = await load(process.argv[2], `export { bySize } from './flame/function_table';`);
assert.deepEqual([500, -20000, 0, -500, 19000].sort((a, b) => -bySize(a, b)), [-20000, 19000, 500, -500, 0]);

/* ---- marks of a difference: of values that were multiplied with their side's scale ---- */

const { MARKS, markOf } = await load(process.argv[2], `export * from './flame/diff_rows';`);
for (const [a, b, scale, mark] of [[5, 5, [1, 1], 'same'], [5, 6, [1, 1], 'changed'], [100, 50, [1, 2], 'same'], [5, 5, [1, 2], 'changed'], [1, 3, [1 / 10, 1 / 30], 'same'], [0, 5, [1, 1], 'new'], [5, 0, [1, 1], 'gone'], [0, 0, [1, 1], 'same']]) assert.equal(MARKS[markOf(a, b, scale)], mark, `${a} and ${b} times ${scale}`);

/* ---- lines over time: what they are called, and their colours ---- */

const { lineLabel, tellingGroups, groupOf, idOf, othersOf } = await load(process.argv[2], "export * from './pages/group_lines'");
const v1 = { metric: { service_name: 'a', version: '1' }, values: [[10, '5'], [20, '7']] }, plainLine = { metric: { service_name: 'a' }, values: [[20, '1']] };
assert.deepEqual(tellingGroups([v1, plainLine], ['service_name', 'version']), ['version']);
assert.deepEqual([lineLabel(v1, ['version']), lineLabel(plainLine, ['version']), lineLabel(plainLine, [])], ['1', 'without version', 'all series']);
assert.deepEqual(groupOf(plainLine, ['service_name', 'version']), { service_name: 'a', version: '' }, 'as matchers it is what lacks the label');
assert.equal(idOf(plainLine, ['service_name', 'version']), 'service_name=a, version=');
assert.deepEqual(othersOf([v1, plainLine], { metric: {}, values: [[10, '5'], [20, '11'], [30, '2']] }), [[10, 0], [20, 3], [30, 2]]);

const { lineColours, N_COLOURS } = await load(process.argv[2], "export * from './line_colours'");
const services = Array.from({ length: 24 }, (_, i) => `service-${i}`), colours = lineColours(services, false);
assert.equal(new Set(colours).size, 24, 'no two are alike');
assert.deepEqual(lineColours([...services].reverse(), false).reverse(), colours, 'another rank changes none');
for (const gone of services) {
	const rest = services.filter((s) => s !== gone), changed = lineColours(rest, false).filter((c, i) => c !== colours[services.indexOf(rest[i])]);
	assert.ok(changed.length <= 3, `without ${gone} ${changed.length} of 23 change: only those that came behind it`);
}
assert.equal(new Set(lineColours(Array.from({ length: 3 * N_COLOURS }, (_, i) => `${i}`), true)).size, N_COLOURS, 'more labels than colours have them all');

/* ---- sums below a frame ---- */

const { build, below } = await load(process.argv[2], "export * from './flame/tree'");
// root → f(1+…) → g(2) → f(4), root → g(8): recursion counts once, and what lies beside the frame does not.
const nested = build({ unit: 'count', type: 'n', whole: 15, functions: { name: ['root', 'f', 'g'], file: ['', '', ''], mapping: ['', '', ''] }, fn: Uint32Array.of(0, 1, 2, 1, 2), parent: Uint32Array.of(0, 0, 1, 2, 0), self: Float64Array.of(0, 1, 2, 4, 8), total: Float64Array.of(15, 7, 6, 4, 8),
	kind: new Uint8Array(5), line: new Uint32Array(0), kinds: ['native'], verdicts: [], cut: new Map() });
const node = (fn, level) => [...Array(nested.n).keys()].find((i) => nested.fn[i] === fn && i >= nested.level[level] && i < nested.level[level + 1]);
for (const [i, self, total] of [[0, [0, 5, 10], [15, 7, 14]], [node(1, 1), [0, 5, 2], [0, 7, 6]], [node(2, 2), [0, 4, 2], [0, 4, 6]]]) assert.deepEqual([[...below(nested, i).self], [...below(nested, i).total]], [self, total]);
assert.deepEqual([[...below(nested, 0).self], [...below(nested, 0).total]], [[...nested.fnSelf], [...nested.fnTotal]], 'below the root it is what the tree says');

/* ---- a picture of a file has the page's colours, and is made without a page ---- */

const { picture } = await load(process.argv[2], "export { picture } from './export/svg'");
const two = build({ unit: 'count', type: 'n', whole: 12, functions: { name: ['root', 'f', 'g'], file: ['', '', ''], mapping: ['', '/bin/first', '/lib/second'] }, fn: Uint32Array.of(0, 1, 2), parent: Uint32Array.of(0, 0, 1), self: Float64Array.of(0, 5, 7), total: Float64Array.of(12, 12, 7),
	kind: new Uint8Array(3), line: new Uint32Array(0), kinds: ['native'], verdicts: [], cut: new Map() });
const drawn = picture({ trees: [two], whole: two, names: ['x'], scale: [1, 1], isRelative: false, time: 0, seconds: 0, subtitle: '', isFull: false });
assert.deepEqual(drawn.match(/(?<=<text class="l" x="[\d.]+" y="46">)[^<]*/g).slice(1), ['first', 'second'], drawn);
assert.equal(new Set(drawn.match(/class="c\d+"/g)).size, 3, 'the root and two binaries');

/* ---- a language has a hue of its own, whatever else there is, in both themes and in the legend ---- */

const { paint, shown } = await load(process.argv[2], "export { paint } from './flame/colours'; export { codeText as shown } from './flame/describe'");
const mappings = ['', '[python3.13]', '[kernel.kallsyms]', '[jvm]', '/usr/bin/python3.13', ...Array.from({ length: 12 }, (_, i) => `/lib/lib${i}.so`)], nMappings = mappings.length;
const mixed = build({ unit: 'count', type: 'n', whole: 10 * (nMappings - 1), functions: { name: mappings.map((_, i) => `f${i}`), file: mappings.map(() => ''), mapping: mappings }, fn: Uint32Array.from(mappings, (_, i) => i), parent: new Uint32Array(nMappings),
	self: Float64Array.from(mappings, (_, i) => (i ? 10 : 0)), total: Float64Array.from(mappings, (_, i) => (i ? 10 : 10 * (nMappings - 1))), kind: Uint8Array.of(0, 2, 3, 4, ...mappings.slice(4).map(() => 1)), line: new Uint32Array(0), kinds: ['root', 'native', 'interpreter', 'kernel', 'jit'], verdicts: [], cut: new Map() });
const hueOf = (css) => css.match(/^hsl\((\d+)/)[1];
for (const dark of [false, true]) for (const by of ['binary', 'kind']) {
	const p = paint(mixed, by, dark), key = (text) => p.legend.find(([t]) => t === text)?.[1], fill = (fn) => p.fills[p.of([...mixed.fn].indexOf(fn))];
	assert.deepEqual([hueOf(fill(1)), hueOf(fill(3))], ['56', '240'], `Python and Java by ${by}`);
	if (by === 'kind') assert.deepEqual([hueOf(key('Python')), hueOf(key('Java')), hueOf(key('native'))], ['56', '240', '211']);
	assert.deepEqual(mappings.slice(4).filter((_, i) => ['48', '230', '56', '240'].includes(hueOf(fill(i + 4)))), [], 'no library looks like a language');
}
for (const [mapping, kind, text] of [['[python3.13]', 'interpreter', 'Python'], ['[jvm]', 'jit', 'Java, jit'], ['[interpreter]', 'interpreter', 'interpreter'], ['/lib/a.so', 'native', ''], ['[kernel.kallsyms]', 'kernel', 'kernel']]) assert.equal(shown(mapping, kind), text, mapping);
