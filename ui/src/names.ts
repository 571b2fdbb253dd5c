// SPDX-License-Identifier: Apache-2.0
//
// Names of functions as people say them: without template arguments, parameters and return type, hashes and clone suffixes. This is
// lib/tree/short_name.c once more, which says why; tests/data/short_names.txt holds them together.

const MOST = 100, HEAD = 50, TAIL = 47; // characters
const CLONES = / \[clone [^\]]*\]|\.(?:constprop|isra|part|cold|lto_priv|llvm|localalias|clone)(?![A-Za-z0-9_])(?:\.\d+)*/g;
const STD = /(?:__cxx11::|__1::|__ndk1::)*/y, BASIC = /basic_(?=[\w$\u0080-\uffff]*<(char|wchar_t)(?![\w$\u0080-\uffff]))/y;
const OPERATOR = /operator(?![\w$\u0080-\uffff]|$)(<=>|<<=|>>=|->\*|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|\+=|-=|\*=|\/=|%=|\^=|&=|\|=|->|\(\)|\[\]|[<>=!+\-*/%^&|~,])?( (?=<))?/y;
const QUALIFIERS = /(?: (?:const|volatile|noexcept|&&|&)(?![\w$\u0080-\uffff]))*/y;
const isWord = (c: string | undefined) => c !== undefined && /[\w$\u0080-\uffff]/.test(c);

function at(re: RegExp, text: string, i: number): RegExpExecArray | null {
	re.lastIndex = i;
	return re.exec(text);
}

/** Behind what closes the bracket at i; -1 without it. */
function closeOf(s: string, i: number): number {
	const open = s[i], close = open === '<' ? '>' : open === '(' ? ')' : ']';
	for (let depth = 0, inside = 0; i < s.length; i++) {
		const c = s[i];
		if (open === '<' && c === '(') inside++;
		else if (open === '<' && c === ')') inside--;
		else if (inside || (c === '>' && s[i - 1] === '-')) continue;
		else if (c === open) depth++;
		else if (c === close && --depth === 0) return i + 1;
	}
	return -1;
}

/** Null where a bracket is never closed. */
function shortened(s: string): string | null {
	let out = '', begin = 0, depth = 0, hasList = false, isOperator = false, isSymbol = false;
	for (let i = 0; i < s.length; ) {
		const c = s[i], follows = out !== '' && isWord(out[out.length - 1]);
		if (!follows && s.startsWith('std::', i)) {
			i += 5 + at(STD, s, i + 5)![0].length;
			const basic = at(BASIC, s, i);
			out += `std::${basic?.[1] === 'wchar_t' ? 'w' : ''}`;
			if (basic) i += 6;
			isSymbol = false;
			continue;
		}
		const op = follows ? null : at(OPERATOR, s, i);
		if (op) {
			out += `operator${op[1] ?? ''}`;
			i += 8 + (op[1]?.length ?? 0) + (op[1] && op[2] ? 1 : 0);
			isOperator ||= !depth;
			isSymbol = op[1] !== undefined;
			continue;
		}
		if (c === '(' || c === '<' || c === '[') {
			const isList = follows || isSymbol, isPath = c === '<' && /[\w$\u0080-\uffff]::$/.test(out.slice(-3)) && !s.startsWith('<impl ', i) && !s.startsWith('<lambda', i);
			if (isList && s.startsWith('[]', i)) {
				out += '[]';
				i += 2;
				isSymbol = true;
				continue;
			}
			if (isList || isPath) {
				const end = closeOf(s, i);
				if (end < 0) return null;
				if (!isList) out = out.slice(0, -2);
				i = end;
				if (c === '(') {
					hasList ||= !depth;
					i += at(QUALIFIERS, s, i)![0].length;
				}
				continue;
			}
			depth++;
		} else if (c === '{') depth++;
		else if (depth && (c === ')' || c === ']' || c === '}' || c === '>')) depth--;
		out += c;
		i++;
		isSymbol = false;
		if (c === ' ' && !depth && !isOperator && !hasList) begin = out.length;
	}
	return hasList && begin && begin < out.length && !/ (?:to|for) $/.test(out.slice(0, begin)) ? out.slice(begin) : out;
}

export function shortName(name: string): string {
	const plain = name.replace(CLONES, '').replace(/^([^]+) \(\)$/, '$1').replace(/^([^]+?)(?:::h[0-9a-fA-F]{16})+$/, '$1');
	const short = shortened(plain) || plain || name;
	if (short.length <= MOST) return short;
	const chars = [...short];
	return chars.length <= MOST ? short : `${chars.slice(0, HEAD).join('')}…${chars.slice(-TAIL).join('')}`;
}

/* ---- what pages show ---- */

const known = new Map<string, string>();
const MOST_KNOWN = 200_000;
const LABEL = /^(?!operator)[A-Za-z_][\w.]*=./; // a frame of a group: key=value, key=value; without a value it is a setter's name
const LABEL_KEYS = /(^|, )[A-Za-z_][\w.]*=(?=.)/g;
let isFull = false;

/** As the address says; true when that is another choice than before. */
export function chooseNames(p: URLSearchParams): boolean {
	const full = p.get('names') === 'full', isNew = full !== isFull;
	isFull = full;
	return isNew;
}

/** The same for answers that the scraper draws. */
export function askedNames(p: URLSearchParams): [string, string][] {
	return [['names', p.get('names') === 'full' ? 'full' : 'short']];
}

export function shownName(name: string): string {
	if (isFull) return name;
	if (LABEL.test(name)) return name.replace(LABEL_KEYS, '$1');
	let short = known.get(name);
	if (short === undefined) {
		if (known.size >= MOST_KNOWN) known.clear();
		known.set(name, (short = shortName(name)));
	}
	return short;
}
