// SPDX-License-Identifier: Apache-2.0
//
// What the name of a mapping says of its code, as lib/prof/code.c has it. tests/data/mappings.txt has a case of each name.
export type Code = 'native' | 'kernel' | 'jit' | 'interpreter';

/** By what stands after the bracket, whose version may follow. */
const RUNTIMES: Record<string, [Code, string]> = {
	python: ['interpreter', 'python'], ruby: ['interpreter', 'ruby'], php: ['interpreter', 'php'], perl: ['interpreter', 'perl'], lua: ['interpreter', 'lua'], interpreter: ['interpreter', ''],
	jvm: ['jit', 'java'], hotspot: ['jit', 'java'], java: ['jit', 'java'], node: ['jit', 'javascript'], v8: ['jit', 'javascript'], beam: ['jit', 'erlang'], dotnet: ['jit', 'dotnet'],
};

/** As people write them. */
const TITLES: Record<string, string> = { python: 'Python', java: 'Java', javascript: 'JavaScript', ruby: 'Ruby', php: 'PHP', perl: 'Perl', lua: 'Lua', erlang: 'Erlang', dotnet: '.NET' };

function runtimeOf(mapping: string): [Code, string] | undefined {
	return Object.entries(RUNTIMES).find(([name]) => mapping.startsWith(`[${name}`) && /^[^a-zA-Z_]/.test(mapping.slice(name.length + 1)))?.[1];
}

export function codeOf(mapping: string): Code {
	const runtime = runtimeOf(mapping);
	if (runtime) return runtime[0];
	if (/^\[(vdso|vsyscall|unknown|uprobes)\]/.test(mapping)) return 'native';
	if (/^(\[jit|\[anon|\/\/anon|\/memfd:|\[heap\]|\[stack\])/.test(mapping)) return 'jit';
	if (/^\[(kernel|guest\.kernel|vmlinux|bpf)/.test(mapping) || /^\[[\w-]+\]$/.test(mapping) || /\.ko(\.xz|\.zst)?$/.test(mapping)) return 'kernel';
	return mapping.endsWith('.map') ? 'jit' : 'native';
}

/** "python" of "[python3.13]", as the label `language` has it; else "". */
export function languageOf(mapping: string): string {
	return runtimeOf(mapping)?.[1] ?? '';
}

/** "Python" of "python". */
export function languageTitle(language: string): string {
	return TITLES[language] ?? language;
}
