// SPDX-License-Identifier: Apache-2.0
//
// What lasts as long as a page or a part of it: listeners, delays and requests end with it, so that none reaches the page that comes next.

/** From the last letter that is typed to what follows from the text. */
export const TYPING_MS = 120;

export interface Delay {
	/** From now on; what was started before is replaced. */
	start(): void;
	stop(): void;
}

export class Life {
	private readonly ending = new AbortController();
	/** For requests. */
	readonly signal = this.ending.signal;

	listen<E extends Event>(target: EventTarget, type: string, heard: (e: E) => void): void {
		target.addEventListener(type, heard as EventListener, { signal: this.signal });
	}

	delay(ms: number, over: () => void): Delay {
		let timer = 0;
		const stop = () => clearTimeout(timer);
		this.atEnd(stop);
		return {
			start: () => {
				stop();
				if (!this.signal.aborted) timer = window.setTimeout(over, ms);
			},
			stop,
		};
	}

	atEnd(f: () => void): void {
		this.signal.addEventListener('abort', f);
	}

	end(): void {
		this.ending.abort();
	}
}
