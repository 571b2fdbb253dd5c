// SPDX-License-Identifier: Apache-2.0
//
// Profiles in JSON: speedscope's files (https://www.speedscope.app/file-format-schema.json) and the .cpuprofile of V8 (Profiler.Profile of
// the DevTools protocol), which Chromium and `node --cpu-prof` write.
import { Names, Profile, StackTree, Type, counted } from './profile';

type Json = Record<string, unknown>;

function isObject(v: unknown): v is Json {
	return typeof v === 'object' && v !== null && !Array.isArray(v);
}

function object(v: unknown, what: string): Json {
	if (!isObject(v)) throw new Error(`${what} is no object`);
	return v;
}

function array(v: unknown, what: string): unknown[] {
	if (!Array.isArray(v)) throw new Error(`${what} is no array`);
	return v;
}

function number(v: unknown, what: string): number {
	if (typeof v !== 'number' || !Number.isFinite(v)) throw new Error(`${what} is no number`);
	return v;
}

const text = (v: unknown) => (typeof v === 'string' ? v : '');
const line = (v: unknown) => (typeof v === 'number' && v > 0 ? Math.floor(v) : 0);

/* ---- speedscope ---- */

interface Frame {
	fn: number;
	line: number;
}
type Add = (stack: number[], value: number) => void;

function sampled(p: Json, what: string, add: Add): void {
	const samples = array(p.samples, `${what}: samples`), weights = array(p.weights, `${what}: weights`);
	if (samples.length !== weights.length) throw new Error(`${what}: ${samples.length} samples, ${weights.length} weights`);
	samples.forEach((s, i) => add(array(s, `${what}: sample ${i}`) as number[], number(weights[i], `${what}: weight ${i}`)));
}

/** Frames are opened and closed; what lies between two events belongs to the stack that is open. */
function evented(p: Json, what: string, add: Add): void {
	const open: number[] = [];
	let since = number(p.startValue, `${what}: startValue`);
	array(p.events, `${what}: events`).forEach((e, i) => {
		const { type, at, frame } = object(e, `${what}: event ${i}`), now = number(at, `${what}: event ${i}: at`);
		if (now < since) throw new Error(`${what}: event ${i} is at ${now}, before the one above it`);
		if (open.length && now > since) add([...open], now - since);
		since = now;
		if (type === 'O') open.push(frame as number);
		else if (type === 'C' && open.length && open[open.length - 1] === frame) open.pop();
		else throw new Error(`${what}: event ${i} closes frame ${String(frame)}, which is not the innermost open one`);
	});
}

/** Each of its profiles, of a thread or a side of a difference, can be chosen; those of one unit also together. */
function readSpeedscope(top: Json): Profile {
	const names = new Names(), notes: string[] = [];
	const frames = array(object(top.shared, 'shared').frames, 'shared.frames').map((f, i): Frame => {
		const o = object(f, `frame ${i}`);
		return { fn: names.number(text(o.name) || '(unknown)', text(o.file)), line: line(o.line) };
	});
	const profiles = array(top.profiles, 'profiles').map((p, i) => object(p, `profile ${i}`));
	if (!profiles.length) throw new Error('the file has no profiles');
	const units = profiles.map((p) => (text(p.unit) && p.unit !== 'none' ? text(p.unit) : 'count'));
	const taken = new Set<string>(), unique = (name: string) => {
		let all = name;
		for (let n = 2; taken.has(all); n++) all = `${name} (${n})`;
		taken.add(all);
		return all;
	};
	const choices: { type: Type; of: number[] }[] = profiles.map((p, i) => ({ type: { type: unique(text(p.name) || 'samples'), unit: units[i] }, of: [i] }));
	for (const unit of new Set(units)) {
		const of = profiles.flatMap((_, i) => (units[i] === unit ? [i] : []));
		if (of.length > 1) choices.push({ type: { type: unique(`all ${of.length} profiles`), unit }, of });
	}
	const active = typeof top.activeProfileIndex === 'number' && profiles[top.activeProfileIndex] ? top.activeProfileIndex : 0;
	return { format: 'speedscope', types: choices.map((c) => c.type), main: active, notes, tree: (chosen, isByLine) => {
		const tree = new StackTree(names, isByLine);
		const add: Add = (stack, value) => {
			tree.add(stack.reduce((node, k) => {
				const f = frames[k];
				if (!f) throw new Error(`a stack names frame ${String(k)} of ${frames.length}`);
				return tree.at(node, f.fn, f.line);
			}, 0), value);
		};
		for (const i of choices[chosen].of) {
			const p = profiles[i], what = `profile ${i}`;
			if (p.type === 'sampled') sampled(p, what, add);
			else if (p.type === 'evented') evented(p, what, add);
			else throw new Error(`${what} has the type "${text(p.type)}"; "sampled" or "evented" expected`);
		}
		return tree.finish(choices[chosen].type);
	} };
}

/* ---- .cpuprofile ---- */

interface Node {
	stack: Frame[]; // outermost first, without V8's own root
	hits: number;
}

/** Nodes in a list that name their children, or as Node.js before 8 wrote them, inside each other. */
function nodesOf(top: Json, names: Names): Map<unknown, Node> {
	const byId = new Map<unknown, Json>(), nodes = new Map<unknown, Node>(), isChild = new Set<unknown>();
	const list = top.nodes !== undefined ? array(top.nodes, 'nodes').map((n, i) => object(n, `node ${i}`)) : [object(top.head, 'head')];
	for (let i = 0; i < list.length; i++) {
		const n = list[i];
		byId.set(n.id, n);
		for (const c of Array.isArray(n.children) ? n.children : []) {
			if (isObject(c)) list.push(c);
			isChild.add(isObject(c) ? c.id : c);
		}
	}
	const todo: [Json, Frame[]][] = list.filter((n) => !isChild.has(n.id)).map((n) => [n, []]);
	for (let next = todo.pop(); next; next = todo.pop()) {
		const [n, above] = next, call = isObject(n.callFrame) ? n.callFrame : n, name = text(call.functionName) || '(anonymous)';
		if (nodes.has(n.id)) throw new Error(`node ${String(n.id)} has two parents`);
		// Lines count from 0 there, and from 1 in what Node.js 8 wrote before.
		const stack = name === '(root)' ? above : [...above, { fn: names.number(name, text(call.url)), line: line(Number(call.lineNumber) + (n === call ? 0 : 1)) }];
		nodes.set(n.id, { stack, hits: typeof n.hitCount === 'number' ? n.hitCount : 0 });
		for (const c of Array.isArray(n.children) ? n.children : []) {
			const child = isObject(c) ? c : byId.get(c);
			if (!child) throw new Error(`node ${String(n.id)} names the child ${String(c)}, which is not there`);
			todo.push([child, stack]);
		}
	}
	if (nodes.size !== byId.size) throw new Error('the nodes go round in a circle');
	return nodes;
}

/** A sample lasts until the next one, the last one until the end of the profile. */
function timesOf(top: Json): Map<unknown, number> | undefined {
	if (!Array.isArray(top.samples) || !Array.isArray(top.timeDeltas)) return undefined;
	const { samples, timeDeltas } = top, times = new Map<unknown, number>();
	if (samples.length !== timeDeltas.length) throw new Error(`${samples.length} samples, ${timeDeltas.length} timeDeltas`);
	let at = number(top.startTime, 'startTime');
	samples.forEach((id, i) => {
		at += number(timeDeltas[i], `timeDeltas ${i}`);
		const lasts = i + 1 < samples.length ? number(timeDeltas[i + 1], `timeDeltas ${i + 1}`) : number(top.endTime, 'endTime') - at;
		times.set(id, (times.get(id) ?? 0) + Math.max(lasts, 0));
	});
	return times;
}

function readCpuProfile(top: Json): Profile {
	const names = new Names(), nodes = nodesOf(top, names), times = timesOf(top), notes: string[] = [];
	const types: Type[] = [{ type: 'samples', unit: 'count' }];
	if (times) types.push({ type: 'time', unit: 'microseconds' });
	const lost = times ? [...times.keys()].filter((id) => !nodes.has(id)).length : 0;
	if (lost) notes.push(`samples of ${counted(lost, 'node')} that the file does not have are left out`);
	return { format: '.cpuprofile', types, main: types.length - 1, notes, tree: (chosen, isByLine) => {
		const tree = new StackTree(names, isByLine);
		for (const [id, { stack, hits }] of nodes) {
			const value = chosen ? times!.get(id) ?? 0 : hits;
			if (value) tree.add(stack.reduce((node, f) => tree.at(node, f.fn, f.line), 0), value);
		}
		return tree.finish(types[chosen]);
	} };
}

export function readJson(content: string): Profile {
	let top: unknown;
	try {
		top = JSON.parse(content);
	} catch (e) {
		throw new Error(`this is no JSON: ${(e as Error).message}`);
	}
	if (isObject(top) && isObject(top.shared) && Array.isArray(top.profiles)) return readSpeedscope(top);
	if (isObject(top) && (Array.isArray(top.nodes) || isObject(top.head))) return readCpuProfile(top);
	throw new Error('this JSON is neither a speedscope file (shared.frames and profiles expected) nor a .cpuprofile (nodes expected)');
}
