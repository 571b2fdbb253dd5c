// SPDX-License-Identifier: Apache-2.0
//
// What `perf script` prints: for each sample a head line, `comm  12/13 [003] 4711.123456:  10101010 cycles:u:`, then its frames from the leaf
// on, `<tab>ADDRESS SYMBOL+0xOFFSET (FILE)`, then an empty line. Without call chains the one frame stands on the head line.
// lib/prof/text_perf.c reads the same with any choice of fields; here heads have a time and an event.
import { Names, Profile, StackTree, Type, counted } from './profile';

interface Sample {
	stack: number[]; // leaf first
	event: string;
	period: number;
}

const HEAD = /^\s*(?:.*\s)?\d+\.\d+:\s+(?:(\d+)\s+)?(\S.*?):(?:\s+(.*))?$/;
const FRAME = /^\s*([0-9a-f]{1,16})\s+(\S.*)$/;
const IS_CLOCK = /^(?:cpu|task)-clock(?:$|[:/])/;

/** The file is the last thing, in parentheses that may have others inside. */
function cutFile(s: string): [symbol: string, file: string] {
	let depth = 0;
	for (let i = s.length - 1; i >= 0 && s.endsWith(')'); i--) {
		depth += s[i] === ')' ? 1 : s[i] === '(' ? -1 : 0;
		if (!depth) return i && s[i - 1] !== ' ' ? [s, ''] : [s.slice(0, i).trim(), s.slice(i + 1, -1)];
	}
	return [s, ''];
}

function frameOf(text: string, names: Names): number | undefined {
	const m = FRAME.exec(text.trimEnd());
	if (!m) return undefined;
	const [symbol, file] = cutFile(m[2]), name = symbol.replace(/\+0x[0-9a-f]+$/, ''), isKnown = name && name !== '[unknown]';
	return names.number(isKnown ? name : `0x${m[1].replace(/^0+(?=.)/, '')}`, '', file === '[unknown]' || file === 'inlined' ? '' : file);
}

/** Does one of the first lines that say something begin a sample? */
export function isPerfScript(text: string): boolean {
	return text.split('\n', 64).filter((l) => l.trim() && !l.startsWith('#')).slice(0, 8).some((l) => HEAD.test(l.trimEnd()));
}

export function readPerfScript(text: string): Profile {
	const names = new Names(), samples: Sample[] = [], notes: string[] = [];
	let open: Sample | undefined, nBad = 0, firstBad = 0;
	text.split('\n').forEach((raw, i) => {
		const line = raw.trimEnd();
		if (!line) open = undefined;
		else if (open && /^\s/.test(line) && FRAME.test(line)) open.stack.push(frameOf(line, names)!);
		else if (open && open.stack.length && /^\s+\S.*:\d+(?: \(inlined\))?$/.test(line)) return; // the line of the frame above
		else {
			const m = HEAD.exec(line);
			if (m) {
				const lone = m[3] === undefined ? undefined : frameOf(m[3], names);
				samples.push((open = { stack: lone === undefined ? [] : [lone], event: m[2].replace(/:$/, ''), period: m[1] ? Number(m[1]) : NaN }));
			} else if (!line.startsWith('#') && !nBad++) firstBad = i + 1;
		}
	});
	if (!samples.length || nBad >= samples.length) throw new Error(`line ${firstBad || 1} is no sample of perf script: a name, a time with ":" and an event with ":" expected`);
	if (nBad) notes.push(`${counted(nBad, 'line')} ${nBad === 1 ? 'is' : 'are'} left out, the first is line ${firstBad}`);
	const event = samples.find((s) => s.period >= 0)?.event, types: Type[] = [{ type: 'samples', unit: 'count' }];
	if (event !== undefined) types.push(IS_CLOCK.test(event) ? { type: 'cpu', unit: 'nanoseconds' } : { type: event, unit: 'count' });
	return { format: 'perf script', types, main: types.length - 1, notes, tree: (chosen) => {
		const tree = new StackTree(names);
		for (const s of samples) {
			const value = !chosen ? 1 : s.event === event ? s.period || 0 : 0;
			if (value) tree.add(s.stack.reduceRight((node, fn) => tree.at(node, fn), 0), value);
		}
		return tree.finish(types[chosen]);
	} };
}
