// SPDX-License-Identifier: Apache-2.0
//
// What is shown of files, in each format that it can be saved in.
import { json } from './arrays';
import { folded } from './folded';
import type { Shown, Written } from './format';
import { page } from './page';
import { pprof } from './pprof';
import { speedscope } from './speedscope';
import { svg } from './svg';

const WRITERS = { pprof, folded, speedscope, svg, page, json } as const;
export type Format = keyof typeof WRITERS;

export async function write(format: Format, shown: Shown): Promise<{ blob: Blob; left: string[] }> {
	const { parts, left }: Written = await WRITERS[format](shown);
	return { blob: new Blob(parts), left };
}
