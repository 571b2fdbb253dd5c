// SPDX-License-Identifier: Apache-2.0
//
// Writes messages in protobuf's encoding.

const LOW = 2 ** 32;

export class Writer {
	private data = new Uint8Array(1 << 10);
	private n = 0;

	private room(more: number): void {
		if (this.n + more <= this.data.length) return;
		const larger = new Uint8Array(Math.max(this.data.length * 2, this.n + more));
		larger.set(this.data.subarray(0, this.n));
		this.data = larger;
	}

	/** Of a safe integer; a negative one in two's complement of 64 bits. */
	varint(v: number): this {
		this.room(10);
		if (v < 0) {
			for (let wide = BigInt.asUintN(64, BigInt(v)); ; wide >>= 7n) {
				this.data[this.n++] = Number(wide & 127n) | (wide > 127n ? 128 : 0);
				if (wide <= 127n) return this;
			}
		}
		for (; v >= LOW; v = Math.floor(v / 128)) this.data[this.n++] = (v % 128) | 128;
		for (v >>>= 0; v > 127; v >>>= 7) this.data[this.n++] = (v & 127) | 128;
		this.data[this.n++] = v;
		return this;
	}

	/** A field that is 0 is not there. */
	int(field: number, v: number): this {
		return v ? this.varint(field << 3).varint(v) : this;
	}

	bytes(field: number, b: Uint8Array): this {
		this.varint((field << 3) | 2).varint(b.length).room(b.length);
		this.data.set(b, this.n);
		this.n += b.length;
		return this;
	}

	text(field: number, s: string): this {
		return this.bytes(field, new TextEncoder().encode(s));
	}

	message(field: number, m: Writer): this {
		return this.bytes(field, m.take());
	}

	packed(field: number, values: ArrayLike<number>): this {
		if (!values.length) return this;
		const all = new Writer();
		for (let i = 0; i < values.length; i++) all.varint(values[i]);
		return this.message(field, all);
	}

	take(): Uint8Array {
		return this.data.subarray(0, this.n);
	}
}
