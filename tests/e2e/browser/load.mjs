// Parts of the web interface for tests that need no browser.
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const top = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');

/** `modules` is where esbuild lies; `text` is the module's source, which imports from ui/src. */
export async function load(modules, text) {
	const { build } = createRequire(join(resolve(modules), 'x.js'))('esbuild');
	const { outputFiles } = await build({ stdin: { contents: text, resolveDir: join(top, 'ui/src'), loader: 'ts' }, bundle: true, write: false, format: 'esm', target: ['es2021'], logLevel: 'warning' });
	return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}
