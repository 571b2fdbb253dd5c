// SPDX-License-Identifier: Apache-2.0
//
// The zone in which times are written and read: this computer's, or UTC.

/** Of a date and a clock; months from 1. */
export interface Fields {
	year: number;
	month: number;
	day: number;
	hour: number;
	minute: number;
	second: number; // with a fraction
}

let utc = false;

export function isUtc(): boolean {
	return utc;
}

export function setUtc(on: boolean): void {
	utc = on;
}

/** What this computer calls its zone: "Europe/Berlin". */
export function localZone(): string {
	return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Of the zone in use; `offset`, in minutes east of Greenwich, of another. */
export function fieldsOf(seconds: number, offset: number | undefined = utc ? 0 : undefined): Fields {
	const d = new Date(seconds * 1e3 + (offset ?? 0) * 6e4);
	if (offset === undefined) return { year: d.getFullYear(), month: d.getMonth() + 1, day: d.getDate(), hour: d.getHours(), minute: d.getMinutes(), second: d.getSeconds() };
	return { year: d.getUTCFullYear(), month: d.getUTCMonth() + 1, day: d.getUTCDate(), hour: d.getUTCHours(), minute: d.getUTCMinutes(), second: d.getUTCSeconds() };
}

/** Unix seconds. Days beyond a month's end are those of the next; a clock that the change to summer time leaves out is that of an hour later. */
export function secondsOf(f: Fields, offset: number | undefined = utc ? 0 : undefined): number {
	const whole = Math.floor(f.second), d = new Date(0);
	if (offset === undefined) {
		d.setFullYear(f.year, f.month - 1, f.day);
		d.setHours(f.hour, f.minute, whole, 0);
	} else {
		d.setUTCFullYear(f.year, f.month - 1, f.day);
		d.setUTCHours(f.hour, f.minute, whole, 0);
	}
	return d.getTime() / 1e3 + (f.second - whole) - (offset ?? 0) * 60;
}

/** "UTC+1", "UTC−3:30": the zone in use at that time. */
export function zoneText(seconds: number): string {
	const east = utc ? 0 : -new Date(seconds * 1e3).getTimezoneOffset(), minutes = Math.abs(east) % 60;
	return `UTC${east ? `${east > 0 ? '+' : '−'}${Math.floor(Math.abs(east) / 60)}${minutes ? `:${String(minutes).padStart(2, '0')}` : ''}` : ''}`;
}
