// SPDX-License-Identifier: Apache-2.0
//
// Bundles the web interface and writes it as C: build.mjs NODE_MODULES OUTPUT.c
// Every file is gzipped once, here; its ETag is the hash of what it holds.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const MAX_BYTES = 150 * 1024; // gzipped, all files together
const TYPES = {
	html: 'text/html; charset=utf-8',
	js: 'application/javascript; charset=utf-8',
	css: 'text/css; charset=utf-8',
	svg: 'image/svg+xml',
};
const here = dirname(fileURLToPath(import.meta.url));
const [modules, output] = process.argv.slice(2).map((p) => resolve(p));
const { build } = createRequire(join(modules, 'x.js'))('esbuild');

async function bundle() {
	const result = await build({
		entryPoints: { app: join(here, 'src/main.ts'), worker: join(here, 'src/flame/worker.ts') },
		bundle: true,
		minify: true,
		write: false,
		format: 'esm',
		target: ['es2021'],
		charset: 'utf8',
		legalComments: 'inline',
		outdir: '/assets',
		nodePaths: [modules],
		tsconfig: join(here, 'tsconfig.json'),
		alias: { uplot: join(modules, 'uplot') },
		logLevel: 'warning',
	});
	return result.outputFiles.map((f) => [f.path.split('/').pop(), Buffer.from(f.contents)]);
}

function* array(bytes) {
	for (let i = 0; i < bytes.length; i += 24)
		yield `\t${[...bytes.subarray(i, i + 24)].join(',')},\n`;
}

const files = await bundle();
for (const name of ['index.html', 'icon.svg']) files.push([name, readFileSync(join(here, 'src', name))]);
let text = '/* Made by ui/build.mjs. */\n#include "scraper/api/ui.h"\n\n';
let table = '', total = 0;
files.sort();
files.forEach(([name, content], i) => {
	const packed = gzipSync(content, { level: 9 });
	const etag = createHash('sha256').update(content).digest('hex').slice(0, 20);
	total += packed.length;
	text += `static const uint8_t file_${i}[] = {\n${[...array(packed)].join('')}};\n`;
	table += `\t{"${name}", "${TYPES[name.split('.').pop()]}", "\\"${etag}\\"", file_${i}, sizeof(file_${i})},\n`;
});
if (total > MAX_BYTES) {
	console.error(`ui: ${total} bytes gzipped, at most ${MAX_BYTES}`);
	process.exit(1);
}
writeFileSync(output, `${text}\nconst struct ui_asset ui_assets[] = {\n${table}};\nconst size_t ui_n_assets = sizeof(ui_assets) / sizeof(*ui_assets);\n`);
