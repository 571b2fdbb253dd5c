// Drives the web interface in Chromium: drive.mjs CHROMIUM SCRATCH_DIR  with {name: {url, …}} on standard input; prints {name: null or what went wrong}.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import * as builds from './builds.mjs';
import * as exports_ from './exports.mjs';
import * as files from './files.mjs';
import * as incident from './incident.mjs';
import * as leaving from './leaving.mjs';
import * as links from './links.mjs';
import * as numbers from './numbers.mjs';
import * as pages from './pages.mjs';
import * as scenarios from './scenarios.mjs';
import * as use from './use.mjs';
import * as viewer from './viewer.mjs';
import * as when from './when.mjs';

const stories = { ...scenarios, ...pages, ...viewer, ...links, ...leaving, ...builds, ...files, ...exports_, ...when, ...numbers, ...use, ...incident };

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const [executablePath, scratch] = process.argv.slice(2);
const wanted = JSON.parse(readFileSync(0, 'utf8'));
const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
const results = {};
for (const [name, options] of Object.entries(wanted)) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, acceptDownloads: true, permissions: ['clipboard-read', 'clipboard-write'], colorScheme: 'light' });
	context.setDefaultTimeout(60_000);
	const page = await context.newPage();
	const said = [];
	page.on('console', (m) => m.type() === 'error' && said.push(m.text()));
	page.on('pageerror', (e) => said.push(String(e.stack)));
	try {
		const answer = await stories[name]({ page, context, scratch, ...options });
		const unexpected = said.filter((t) => !options.expected || !t.includes(options.expected));
		results[name] = unexpected.length ? { error: `the console says: ${unexpected.join('; ')}` } : { answer: answer ?? null };
	} catch (e) {
		await page.screenshot({ path: `${scratch}/${name}.png` }).catch(() => {});
		results[name] = { error: `${e.stack}\n${said.join('\n')}\nat ${page.url()}` };
	}
	await context.close();
}
await browser.close();
console.log(JSON.stringify(results));
