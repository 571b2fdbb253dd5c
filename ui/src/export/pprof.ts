// SPDX-License-Identifier: Apache-2.0
//
// pprof (https://github.com/google/pprof/blob/main/proto/profile.proto). Two profiles are a difference as go tool pprof understands it:
// values of the first are negative, with the label pprof::base.
import type { Functions, Tree } from '../flame/tree';
import { Shown, Written, frameName, wholeUnit, without } from './format';
import { Writer } from './protobuf';

/** Numbers from 1, in the order in which things are asked for first. */
class Numbers {
	private readonly known = new Map<string, number>();

	of(key: string, isNew: (n: number) => void): number {
		const old = this.known.get(key);
		if (old !== undefined) return old;
		const n = this.known.size + 1;
		this.known.set(key, n);
		isNew(n);
		return n;
	}
}

class Profile {
	readonly top = new Writer();
	private readonly strings: string[] = [''];
	private readonly texts = new Map([['', 0]]);
	private readonly mappings = new Numbers();
	private readonly functions = new Numbers();
	private readonly locations = new Numbers();

	text(s: string): number {
		const old = this.texts.get(s);
		if (old !== undefined) return old;
		this.texts.set(s, this.strings.length);
		return this.strings.push(s) - 1;
	}

	/** Its functions have names, so nobody has to look into the binary. */
	private mapping(file: string, build: string): number {
		if (!file && !build) return 0;
		return this.mappings.of(`${file}\0${build}`, (n) => this.top.message(3, new Writer().int(1, n).int(5, this.text(file)).int(6, this.text(build)).int(7, 1).int(8, 1).int(9, 1).int(10, 1)));
	}

	private function(name: string, file: string): number {
		return this.functions.of(`${name}\0${file}`, (n) => this.top.message(5, new Writer().int(1, n).int(2, this.text(name)).int(3, this.text(name)).int(4, this.text(file))));
	}

	private location(name: string, { file, mapping, builds }: Functions, f: number, line: number): number {
		const function_ = this.function(name, file[f]), where = this.mapping(mapping[f], builds?.[f] ?? '');
		return this.locations.of(`${function_} ${where} ${line}`, (n) => this.top.message(4, new Writer().int(1, n).int(2, where).message(4, new Writer().int(1, function_).int(2, line))));
	}

	/** Of each node the number of its location, then of each with a value a sample. */
	add(t: Tree, factor: number, label?: Writer): void {
		const at = new Uint32Array(t.n), known: (Map<number, number> | undefined)[] = []; // by function and line: nodes are many
		for (let i = 1; i < t.n; i++) {
			const f = t.fn[i], line = t.line[i] ?? 0, old = t.cut.has(i) ? undefined : known[f]?.get(line);
			at[i] = old ?? this.location(frameName(t, i), t.functions, f, line);
			if (old === undefined && !t.cut.has(i)) (known[f] ??= new Map()).set(line, at[i]);
		}
		for (let i = 0; i < t.n; i++) {
			const v = Math.round(t.self[i] * factor), stack: number[] = [];
			if (!v) continue;
			for (let k = i; k; k = t.parent[k]) stack.push(at[k]);
			const sample = new Writer().packed(1, stack).packed(2, [v]);
			this.top.message(2, label ? sample.message(3, label) : sample);
		}
	}

	finish(): Uint8Array {
		for (const s of this.strings) this.top.text(6, s);
		return this.top.take();
	}
}

async function gzip(data: Uint8Array): Promise<Blob> {
	return new Response(new Blob([data as BlobPart]).stream().pipeThrough(new CompressionStream('gzip'))).blob();
}

export async function pprof({ trees, time, seconds }: Shown): Promise<Written> {
	const { factor, unit, left } = wholeUnit(trees), p = new Profile(), [a, b] = trees;
	p.top.message(1, new Writer().int(1, p.text(a.type)).int(2, p.text(unit))).int(9, Math.round(time * 1e9)).int(10, Math.round(seconds * 1e9));
	if (b) {
		p.add(a, -factor, new Writer().int(1, p.text('pprof::base')).int(2, p.text('true')));
		p.add(b, factor);
	} else p.add(a, factor);
	return { parts: [await gzip(p.finish())], left: [...left, ...without(a, 'kind')] };
}
