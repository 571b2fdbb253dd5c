// SPDX-License-Identifier: Apache-2.0
//
// Whose rates graphs over time show: of all instances together, as the values are, or of one in the mean.
import { Query } from './api';
import { segmented } from './dom';
import { set } from './router';

export type Rates = 'service' | 'instance';

export const ratesOf = (p: URLSearchParams): Rates => (p.get('rates') === 'instance' ? 'instance' : 'service');

/** Of a service as they were measured: nobody asks for all times at which each of its instances was watched. */
export const askedRates = (p: URLSearchParams): Query => (ratesOf(p) === 'instance' ? [['of', 'instance']] : []);

export function ratesSwitch(p: URLSearchParams): HTMLElement {
	return segmented<Rates>('Rates', [['service', 'Service', 'Rates of all instances together'], ['instance', 'Per instance', 'Rates of one instance in the mean']], ratesOf(p), (of) => set({ rates: of === 'instance' ? of : null }));
}
