// Mutated files through the parsers that run in the browser (pprof, folded stacks, the flame graph message): fuzz_ui_parsers.mjs SCRATCH_DIR
// [--seconds N | --rounds N] [--seed N, 0: by chance]. Each case either gives a sound tree or an Error that says what is wrong; none takes long.
// A case is repeated with --seed SEED --rounds 1.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { fileURLToPath, pathToFileURL } from 'node:url';

const option = (name, fallback) => {
	const i = process.argv.indexOf(`--${name}`);
	return i < 0 ? fallback : Number(process.argv[i + 1]);
};
const STUCK_S = 110; // a machine that does much else takes ten times as long
const LONG_S = 30; // from here on there is time for the largest file
const TOP = join(dirname(fileURLToPath(import.meta.url)), '../..');

/* ---- seeds ---- */

const enc = new TextEncoder();
function varint(v) {
	const out = [];
	let n = BigInt.asUintN(64, BigInt(v));
	for (; n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
	return [...out, Number(n)];
}
const num = (field, v) => [...varint(field << 3), ...varint(v)];
const blob = (field, bytes) => [...varint((field << 3) | 2), ...varint(bytes.length), ...bytes];
const text = (field, s) => blob(field, [...enc.encode(s)]);
const packed = (field, list) => blob(field, list.flatMap(varint));

function pprof(r) {
	const strings = ['', 'samples', 'count', 'cpu', 'nanoseconds', 'app', ...Array.from({ length: 20 }, (_, i) => `pkg.f${i}`)], out = [];
	out.push(...blob(1, [...num(1, 1), ...num(2, 2)]), ...blob(1, [...num(1, 3), ...num(2, 4)]));
	for (let i = 0; i < 30; i++) out.push(...blob(2, [...packed(1, Array.from({ length: 1 + r(12) }, () => 1 + r(20))), ...packed(2, [1 + r(9), r(1e9)])]));
	out.push(...blob(3, [...num(1, 1), ...num(5, 5)]));
	for (let i = 1; i <= 20; i++) out.push(...blob(4, [...num(1, i), ...num(2, 1), ...num(3, 4096 + i), ...Array.from({ length: r(3) }, () => blob(4, [...num(1, 1 + r(20)), ...num(2, r(500))])).flat()]));
	for (let i = 1; i <= 20; i++) out.push(...blob(5, [...num(1, i), ...num(2, 5 + i)]));
	return Uint8Array.from([...out, ...strings.flatMap((s) => text(6, s)), ...num(14, 3)]);
}

function folded(r) {
	return enc.encode(Array.from({ length: 20 }, () => `${Array.from({ length: 1 + r(9) }, () => `f${r(12)}`).join(';')} ${r(1000)}${r(4) ? '' : `.${r(99)}`}`).join('\n') + '\n');
}

function answer(r) {
	const n = 40, parent = [0], self = [], isDiff = r(2);
	for (let i = 1; i < n; i++) parent.push(r(2) ? i - 1 : parent[i - 1]);
	for (let i = 0; i < n; i++) self.push(r(1e6));
	const total = [...self];
	for (let i = n - 1; i > 0; i--) total[parent[i]] += total[i];
	const out = [...text(1, 'cpu'), ...text(2, 'nanoseconds'), ...num(3, total[0])];
	for (let f = 0; f < 10; f++) out.push(...text(4, `f${f}`), ...text(5, ''), ...text(6, 'app'));
	out.push(...packed(7, self.map((_, i) => (i ? 2 + (i % 8) : 0))), ...packed(8, self), ...packed(9, parent), ...packed(10, self), ...packed(11, total), ...packed(12, self.map((_, i) => i % 9)), ...packed(13, [n - 1]), ...packed(14, [7]));
	for (let k = 0; k < 9; k++) out.push(...text(15, `k${k}`));
	if (isDiff) out.push(...packed(16, self), ...packed(17, self), ...packed(18, total), ...packed(19, total), ...packed(20, self.map(() => 0)), ...text(21, 'same'), ...packed(23, self.map(() => r(8))), ...text(24, '~'));
	return Uint8Array.from(out);
}

/* ---- mutations ---- */

function random(seed) {
	let x = (Math.imul(seed, 2654435761) ^ 0x9e3779b9) >>> 0 || 1;
	return (n) => {
		x ^= x << 13;
		x >>>= 0;
		x ^= x >>> 17;
		x ^= x << 5;
		x >>>= 0;
		return x % n;
	};
}

const NASTY = [varint(-1), varint(2 ** 31), varint(2 ** 53), new Array(12).fill(0xff), [0], [0x80], [0xff, 0xff, 0xff, 0xff, 0x0f], [...enc.encode(' 9e99 ')], [...enc.encode('9'.repeat(400))], [...enc.encode(';'.repeat(50))], [10]];

function mutate(data, r) {
	let d = [...data];
	for (let k = r(3); k >= 0 && d.length; k--) {
		const at = r(d.length), n = 1 + r(Math.min(16, d.length - at));
		switch (r(7)) {
		case 0: d[at] ^= 1 << r(8); break;
		case 1: d[at] = r(256); break;
		case 2: d.splice(at, n); break;
		case 3: d.splice(at, 0, ...d.slice(at, at + n)); break;
		case 4: d.splice(at, r(2) ? n : 0, ...NASTY[r(NASTY.length)]); break;
		case 5: d = d.slice(0, at); break;
		default: d.splice(r(d.length), 0, ...d.slice(at, at + 4 * n));
		}
	}
	return Uint8Array.from(d);
}

/* ---- one case ---- */

function check(ok, what) {
	if (!ok) throw new TypeError(`unsound: ${what}`);
}

function sound(t) {
	const { n, first, level, parent, total, weight } = t;
	check(n > 0 && first[n] === n && level[level.length - 1] === n, 'ends');
	for (let i = 1; i < n; i++) {
		const p = parent[i];
		check(p < i && i >= first[p] && i < first[p + 1], `node ${i} below ${p}`);
		check(i === first[p] || weight[i] <= weight[i - 1], `order of node ${i}`);
		check(weight[i] >= Math.abs(total[i]) * (1 - 1e-9), `weight of node ${i}`);
		check(typeof t.functions.name[t.fn[i]] === 'string' && typeof t.functions.mapping[t.fn[i]] === 'string', `name of node ${i}`);
	}
	check(Number.isFinite(total[0]), `total ${total[0]}`);
}

/** Values by path, as a tree of other trees has to have them, found stack by stack. */
function expected(t, f, name) {
	const sums = new Map(), up = (i) => (i ? [...up(t.parent[i]), i] : []);
	const add = (path, v) => v && sums.set(path.join(), (sums.get(path.join()) ?? 0) + v);
	for (let i = 0; i < t.n; i++) {
		const stack = [0, ...up(i)], at = stack.findIndex((k) => t.fn[k] === f), fns = stack.map((k) => t.fn[k]);
		if (name === 'callees' && at >= 0) add(fns.slice(at), t.self[i]);
		if (name === 'callers' && at === stack.length - 1) add([f, ...fns.slice(1, at).reverse()], t.total[i]);
		if (name === 'unrepeated') add(fns.filter((fn, k) => !k || fn !== fns[k - 1]), t.self[i]);
	}
	return sums;
}

function sameSums(o, want, what) {
	const path = (i) => (i ? [...path(o.parent[i]), o.fn[i]] : [o.fn[0]]), got = new Map();
	for (let i = 0; i < o.n; i++) if (o.self[i]) got.set(path(i).join(), (got.get(path(i).join()) ?? 0) + o.self[i]);
	check(got.size === want.size, `${what} has ${got.size} stacks, not ${want.size}`);
	for (const [k, v] of want) check(Math.abs((got.get(k) ?? 0) - v) <= 1e-9 * Math.abs(v), `${what}: ${got.get(k)} of stack ${k}, not ${v}`);
}

const mainTree = (profile) => profile.tree(profile.main);

async function runCase(ui, seed) {
	const r = random(seed), kind = r(3), data = mutate([pprof, folded, answer][kind](r), r);
	let t;
	try {
		t = kind < 2 ? mainTree(await ui.readProfile(data)) : ui.build(ui.decode(data));
	} catch (e) {
		// What a person is told; anything else is a mistake of ours.
		if (e.constructor !== Error || !e.message) throw e;
		return 0;
	}
	sound(t);
	const f = t.fn[t.n - 1], total = t.total[0];
	const others = { callees: () => ui.calleesOf(t, f), callers: () => ui.callersOf(t, f), collapsed: () => ui.collapse(t, true, true), unrepeated: () => ui.collapse(t, true, false), overlay: () => ui.overlay(t, t, [0.25, 0.75], 'union') };
	for (const [name, make] of Object.entries(others)) {
		try {
			const o = make(), want = name.startsWith('call') ? t.fnTotal[f] : total;
			sound(o);
			if (!t.sides && t.n < 400 && ['callees', 'callers', 'unrepeated'].includes(name)) sameSums(o, expected(t, f, name), name);
			if (!t.sides) check(Math.abs(o.total[0] - want) <= 1e-9 * Math.abs(want), `${o.total[0]} in all, not ${want}`);
		} catch (e) {
			e.message += ` (${name})`;
			throw e;
		}
	}
	ui.search(t, 'f[0-5]').nodes();
	return 1;
}

/** Small files that stand for very much are refused, each by the limit that its text names. */
async function refuses(ui, isLong) {
	const lines = 30000, line = blob(4, num(1, 1)), wide = [...text(6, ''), ...text(6, 'f'), ...blob(1, num(1, 1)), ...blob(5, [...num(1, 1), ...num(2, 1)])];
	const location = blob(4, [...num(1, 1), ...Array.from({ length: lines }, () => line).flat()]);
	const deep = Uint8Array.from([...wide, ...location, ...blob(2, [...packed(1, new Array(lines).fill(1)), ...packed(2, [1])])]);
	const often = Uint8Array.from([...wide, ...location, ...Array.from({ length: 4000 }, () => blob(2, [...packed(1, [1]), ...packed(2, [1])])).flat()]);
	for (const [data, want] of [...(isLong ? [[often, /stacks have more than/]] : []), [deep, /tree has more than/], [Uint8Array.from([0x1f, 0x8b, 8, 0, 1]), /damaged/]]) {
		const said = await ui.readProfile(data).then(mainTree).then(() => 'nothing', (e) => e.message);
		check(want.test(said), `${want} is not what was said: ${said}`);
	}
	refusesLongNumbers(ui);
}

/** Ten bytes hold every number of the encoding; an eleventh is no larger number. */
function refusesLongNumbers(ui) {
	const ten = varint(-1), eleven = [...ten.slice(0, 9), 0x81, 0];
	const message = (fn, total) => Uint8Array.from([...text(4, 'f'), ...text(5, ''), ...text(6, ''), ...blob(7, fn), ...packed(9, [0]), ...blob(11, total)]);
	ui.decode(message([0], ten));
	for (const [fn, total] of [[eleven, [1]], [[0], eleven]]) {
		let said = 'nothing';
		try {
			ui.decode(message(fn, total));
		} catch (e) {
			said = e.message;
		}
		check(/has more than 10 bytes/.test(said), `eleven bytes: ${said}`);
	}
}

/* ---- rounds, with someone who watches ---- */

async function bundled(scratch) {
	const { build } = createRequire(join(TOP, 'build/npm/ui/node_modules/x.js'))('esbuild'), outfile = join(scratch, 'parsers.mjs');
	const contents = ['files/read', 'flame/decode', 'flame/tree', 'flame/derive', 'flame/search'].map((name) => `export * from './ui/src/${name}';`).join('\n');
	await build({ stdin: { contents, resolveDir: TOP }, bundle: true, platform: 'node', format: 'esm', logLevel: 'error', outfile });
	return pathToFileURL(outfile).href;
}

async function rounds({ bundle, seed, rounds: most, seconds, shared }) {
	const ui = await import(bundle), now = new Int32Array(shared);
	let read = 0, n = 0;
	await refuses(ui, seconds >= LONG_S);
	const ends = Date.now() + seconds * 1000; // a busy machine refuses slowly
	for (; n < most && (!seconds || Date.now() < ends); n++) {
		Atomics.store(now, 0, seed + n);
		read += await runCase(ui, seed + n);
	}
	if (n > 100) check(read > n / 50, `only ${read} of ${n} files were read`);
	console.log(`Done: ${n} files from seed ${seed}, ${read} of them were read`);
}

if (isMainThread) {
	const shared = new SharedArrayBuffer(4), now = new Int32Array(shared), seconds = option('seconds', 0), seed = option('seed', 1) || Date.now() % 2 ** 30;
	const worker = new Worker(new URL(import.meta.url), { workerData: { bundle: await bundled(process.argv[2]), seed, seconds, rounds: option('rounds', seconds ? Infinity : 3000), shared } });
	let last = 0, since = Date.now();
	setInterval(() => {
		if (now[0] !== last) [last, since] = [now[0], Date.now()];
		else if (Date.now() - since > STUCK_S * 1000) {
			console.error(`case ${last} takes longer than ${STUCK_S} s`);
			process.exit(1);
		}
	}, 500).unref();
	worker.on('exit', (code) => process.exit(code));
	worker.on('error', (e) => {
		console.error(`case ${now[0]}: ${e.stack}`);
		process.exit(1);
	});
} else await rounds(workerData);
