// SPDX-License-Identifier: Apache-2.0
//
// Bundles the web interface and writes it as C: build.mjs NODE_MODULES OUTPUT.c
// OUTPUT is assets.c, the files that the scraper serves, or viewer.c, the viewer of pages that open from disk. Files are gzipped once, here;
// their ETags are hashes of what they hold. The viewer goes into pages as it is.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const MAX_BYTES = 150 * 1024; // gzipped, all files together
const MAX_VIEWER_BYTES = 43 * 1024; // gzipped
const TYPES = {
	html: 'text/html; charset=utf-8',
	js: 'application/javascript; charset=utf-8',
	css: 'text/css; charset=utf-8',
	svg: 'image/svg+xml',
};
const here = dirname(fileURLToPath(import.meta.url));
const [modules, output] = process.argv.slice(2).map((p) => resolve(p));
const { build } = createRequire(join(modules, 'x.js'))('esbuild');

async function bundle(entryPoints, format) {
	const result = await build({
		entryPoints,
		bundle: true,
		minify: true,
		write: false,
		format,
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

function array(bytes) {
	let text = '';
	for (let i = 0; i < bytes.length; i += 24) text += `\t${[...bytes.subarray(i, i + 24)].join(',')},\n`;
	return `{\n${text}}`;
}

function limit(what, bytes, most) {
	if (bytes <= most) return;
	console.error(`ui: ${what}: ${bytes} bytes gzipped, at most ${most}`);
	process.exit(1);
}

async function assets() {
	const files = await bundle({ app: join(here, 'src/main.ts'), worker: join(here, 'src/flame/worker.ts') }, 'esm');
	for (const name of ['index.html', 'icon.svg']) files.push([name, readFileSync(join(here, 'src', name))]);
	let text = '#include "scraper/api/ui.h"\n\n', table = '', total = 0;
	files.sort();
	files.forEach(([name, content], i) => {
		const packed = gzipSync(content, { level: 9 });
		const etag = createHash('sha256').update(content).digest('hex').slice(0, 20);
		total += packed.length;
		text += `static const uint8_t file_${i}[] = ${array(packed)};\n`;
		table += `\t{"${name}", "${TYPES[name.split('.').pop()]}", "\\"${etag}\\"", file_${i}, sizeof(file_${i})},\n`;
	});
	limit('the files', total, MAX_BYTES);
	return `${text}\nconst struct ui_asset ui_assets[] = {\n${table}};\nconst size_t ui_n_assets = sizeof(ui_assets) / sizeof(*ui_assets);\n`;
}

/** Script and style stand in elements of the page: neither may end its own. Servers name the script by its hash. */
async function viewer() {
	const files = new Map(await bundle({ viewer: join(here, 'src/viewer.ts') }, 'iife')), script = files.get('viewer.js'), style = files.get('viewer.css');
	for (const [name, content] of files) if (/<\/(script|style)|<!--/i.test(content)) throw new Error(`${name} cannot stand in a page: it has what ends an element`);
	limit('the viewer', gzipSync(Buffer.concat([script, style])).length, MAX_VIEWER_BYTES);
	const hash = createHash('sha256').update(script).digest('base64');
	// The picture for readers without script has a style of its own.
	const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'`;
	const symbol = (name, content) => `const uint8_t render_viewer_${name}[] = ${array(content)};\nconst size_t render_viewer_${name}_bytes = sizeof(render_viewer_${name});\n`;
	return `#include "lib/render/viewer.h"\n#include "lib/render/render.h"\n\nconst char render_page_policy[] = "${policy}";\n${symbol('script', script)}${symbol('style', style)}`;
}

writeFileSync(output, `/* Made by ui/build.mjs. */\n${await { assets, viewer }[basename(output, '.c')]()}`);
