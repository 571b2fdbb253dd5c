// SPDX-License-Identifier: Apache-2.0
//
// TYPE{label="value", …} as parts that can be edited, and back. What this does not understand stays text, for the server to judge.

export type Op = '=' | '!=' | '=~' | '!~';
export const OPS: [Op, string][] = [['=', 'is'], ['!=', 'is not'], ['=~', 'matches'], ['!~', 'does not match']];
export interface Matcher {
	name: string;
	op: Op;
	value: string;
}
export interface Selector {
	type: string;
	matchers: Matcher[];
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*/;
const STRING = /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`([^`]*)`)/s;
const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r' };

function unescape(text: string): string {
	return text.replace(/\\(.)/gs, (_, c: string) => ESCAPES[c] ?? c);
}

class Scanner {
	constructor(private rest: string) {}

	take(re: RegExp): RegExpExecArray | null {
		this.rest = this.rest.trimStart();
		const m = re.exec(this.rest);
		if (m) this.rest = this.rest.slice(m[0].length);
		return m;
	}

	string(): string | null {
		const m = this.take(STRING);
		return m ? m[3] ?? unescape(m[1] ?? m[2] ?? '') : null;
	}

	get isDone(): boolean {
		return !this.rest.trim();
	}
}

/** null when it is no selector (yet). */
export function parse(text: string): Selector | null {
	const s = new Scanner(text), matchers: Matcher[] = [];
	const type = s.take(/^[A-Za-z_:][A-Za-z0-9_:]*/)?.[0] ?? '';
	if (!s.take(/^\{/)) return s.isDone ? { type, matchers } : null;
	while (!s.take(/^\}/)) {
		const name = s.take(NAME)?.[0] ?? s.string(), op = s.take(/^(=~|!~|!=|=)/)?.[0] as Op | undefined, value = op ? s.string() : null;
		if (name === null || !op || value === null) return null;
		matchers.push({ name, op, value });
		if (!s.take(/^,/) && !s.take(/^(?=\})/)) return null;
	}
	return s.isDone ? { type, matchers } : null;
}

/** What to do about a selection without profiles. */
export function advice(query: string): string {
	return `Nothing was stored for this selector in this range. Widen the range${parse(query)?.matchers.length === 0 ? '.' : ', or take matchers away.'}`;
}

export function quote(text: string): string {
	return `"${text.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')}"`;
}

function label(name: string): string {
	return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : quote(name);
}

export function print(s: Selector): string {
	return `${s.type}{${s.matchers.map((m) => `${label(m.name)}${m.op}${quote(m.value)}`).join(', ')}}`;
}

/** The selector with name="value" in place of what it said of that label. */
export function narrowed(s: Selector, more: Record<string, string>): Selector {
	const kept = s.matchers.filter((m) => !(m.name in more));
	return { type: s.type, matchers: [...kept, ...Object.entries(more).map(([name, value]): Matcher => ({ name, op: '=', value }))] };
}

export function escapeRegexp(text: string): string {
	return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
