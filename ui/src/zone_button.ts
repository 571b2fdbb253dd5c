// SPDX-License-Identifier: Apache-2.0
//
// In the head of every page: the zone of its times, and the switch to UTC.
import { fill, h } from './dom';
import { isUtc, localZone, setUtc, zoneText } from './zone';

const STORED = 'sonde.zone';

/** For a link: whoever opens it sees the same clocks where UTC was chosen. */
export function sharedZone(): string | null {
	return isUtc() ? 'utc' : null;
}

/** A choice goes before the address: `forget` takes it out. `changed` draws the page anew. */
export function zoneButton(asked: string | null, forget: () => void, changed: () => void): HTMLElement {
	const box = h('span', { class: 'zone' }), local = localZone();
	setUtc((asked ?? localStorage.getItem(STORED)) === 'utc');
	const draw = () => {
		const text = zoneText(Date.now() / 1e3);
		if (/^(Etc\/)?UTC$/.test(local)) fill(box, h('span', { class: 'muted', title: 'This computer’s zone is UTC' }, text));
		else fill(box, h('button', { type: 'button', class: 'button quiet', 'aria-pressed': String(isUtc()), 'aria-label': `UTC: times are in ${isUtc() ? 'UTC' : `${local}, ${text}`}`, title: isUtc() ? `Times are in UTC: show those of ${local}` : `Times are in ${local}: show UTC`, onclick: () => {
			setUtc(!isUtc());
			localStorage.setItem(STORED, isUtc() ? 'utc' : 'local');
			draw();
			forget();
			changed();
		} }, text));
	};
	draw();
	return box;
}
