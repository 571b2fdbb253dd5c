// SPDX-License-Identifier: Apache-2.0
//
// A part of a page that is filled by a request: shows that it is loading, can be cancelled, and says what to do when it failed.
import { ApiError } from './api';
import { Child, fill, h } from './dom';

const PATIENCE_MS = 250;

const ADVICE: Record<string, string> = {
	bad_data: 'Change the query and try again.',
	execution: 'Ask for less: a shorter range, more matchers, or a larger limit in the scraper’s flags.',
	timeout: 'The query took longer than --query.timeout allows. Try a shorter range or more matchers.',
	unavailable: 'The scraper is not ready yet. It answers when its log is read.',
	network: 'Is it running, and reachable from this browser?',
	internal: 'The scraper’s log has more.',
};

export class Panel {
	readonly body = h('div', { class: 'panel-body' });
	private readonly bar = h('div', { class: 'progress', hidden: true, role: 'progressbar', 'aria-label': 'Loading' });
	private readonly note = h('div', { class: 'loading-note', hidden: true });
	private readonly text = h('span');
	private readonly state = h('div', { class: 'state', hidden: true });
	readonly root: HTMLElement;
	private abort?: AbortController;
	private timer = 0;

	constructor(name: string, ...head: Child[]) {
		this.note.append(this.text, h('button', { type: 'button', class: 'button small', onclick: () => this.cancel() }, 'Cancel'));
		this.root = h('section', { class: `panel panel-${name}` }, head, this.bar, this.note, this.state, this.body);
	}

	/** Runs work; what it replaces is aborted. `again` is what "Run again" does. `failed`: what else on the page is of an earlier answer. */
	async run<T>(work: (signal: AbortSignal, progress: (text: string) => void) => Promise<T>, done: (result: T) => void, again: () => void, failed?: () => void): Promise<void> {
		this.abort?.abort();
		const abort = (this.abort = new AbortController());
		this.begin();
		try {
			const result = await work(abort.signal, (text) => (this.text.textContent = text));
			if (abort !== this.abort) return;
			this.end();
			this.clear();
			done(result);
		} catch (e) {
			if (abort !== this.abort) return;
			this.end();
			failed?.();
			if (abort.signal.aborted) this.say('cancelled', 'Cancelled', 'The query was stopped before its answer came.', ['Run again', again]);
			else this.fail(e as Error, again);
		}
	}

	cancel(): void {
		this.abort?.abort();
	}

	leave(): void {
		this.abort?.abort();
		this.abort = undefined;
		clearTimeout(this.timer);
	}

	say(kind: string, title: string, text: Child, action?: [string, () => void]): void {
		this.body.hidden = true;
		this.state.hidden = false;
		this.state.className = `state state-${kind}`;
		if (kind === 'error') this.state.setAttribute('role', 'alert');
		else this.state.removeAttribute('role');
		fill(this.state, h('strong', {}, title), h('div', { class: 'state-text' }, text), action && h('button', { type: 'button', class: 'button', onclick: action[1] }, action[0]));
	}

	/** Back from what was said to the body. */
	clear(): void {
		this.state.hidden = true;
		this.body.hidden = false;
	}

	private fail(e: Error, again: () => void): void {
		const type = e instanceof ApiError ? e.type : 'internal';
		this.say('error', type === 'bad_data' ? 'The query is not understood' : 'This did not work', [e.message, h('br'), h('span', { class: 'muted' }, ADVICE[type] ?? '')], ['Try again', again]);
		if (!(e instanceof ApiError)) console.error(e);
	}

	private begin(): void {
		const began = Date.now();
		clearTimeout(this.timer);
		this.root.setAttribute('aria-busy', 'true'); // at once; what is seen waits, lest it flickers
		this.text.textContent = 'Running the query…';
		this.timer = window.setTimeout(() => {
			this.bar.hidden = false;
			this.note.hidden = false;
			this.root.classList.add('is-loading');
		}, Math.max(PATIENCE_MS - (Date.now() - began), 0));
	}

	private end(): void {
		clearTimeout(this.timer);
		this.root.removeAttribute('aria-busy');
		this.bar.hidden = true;
		this.note.hidden = true;
		this.root.classList.remove('is-loading');
	}
}
