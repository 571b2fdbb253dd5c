"""Reads blocks and logs of the store by docs/formats/block.md and wal.md alone: nothing here comes from the C code but the text of `sonde tsdb dump`."""
import ctypes
import ctypes.util
import json
import os
import re
import struct

FILES = ['index', 'symbols', 'stacks', 'profiles', 'rows', 'profiles_10m', 'rows_10m', 'profiles_1h', 'rows_1h']
STREAM_KINDS = ['profile', 'gauges', 'coverage']
COLUMN_KINDS = ['delta', 'instant', 'gauge']
MAPPING_KINDS = ['native', 'kernel', 'jit', 'interpreter']
PROFILE, GAUGES = 0, 1
HAS_ADDRESS = 2

_zstd = ctypes.CDLL(ctypes.util.find_library('zstd') or 'libzstd.so.1')
_zstd.ZSTD_decompress.restype = ctypes.c_size_t
_zstd.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


def _crc_table():
    out = []
    for c in range(256):
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
        out.append(c)
    return out


_CRC = _crc_table()


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for x in data:
        crc = _CRC[(crc ^ x) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


def need(condition, what):
    if not condition:
        raise ValueError(what)


def varint(b, p):
    v = shift = 0
    while True:
        v |= (b[p] & 127) << shift
        shift += 7
        p += 1
        if b[p - 1] < 128:
            return v & (1 << 64) - 1, p


def svarint(b, p):
    v, p = varint(b, p)
    return v >> 1 ^ -(v & 1), p


def signed(v):
    v &= (1 << 64) - 1
    return v - (1 << 64) if v >> 63 else v


def _runs(b, p, n, value):
    out = []
    while len(out) < n:
        length, p = varint(b, p)
        v, p = svarint(b, p)
        need(length > 0, 'a run of nothing')
        out += value(v, len(out), length)
    return out, p


def decode(codec, b, n, columns):
    """`n` values of a column, or its bytes."""
    out, p, x, before = [], 0, 0, 0
    if codec == 0:
        v, p = svarint(b, 0)
        out = [v] * n
    elif codec in (1, 2, 3, 4, 5):
        for _ in range(n):
            v, p = varint(b, p) if codec in (1, 4) else svarint(b, p)
            if codec == 3:
                v = signed(x + v)
            elif codec == 4:
                v = (x + v) % (1 << 32)
            elif codec == 5:
                v = signed(2 * x - before + v)
            before, x = x, v
            out.append(v)
    elif codec == 6:
        out, p = _runs(b, 0, n, lambda v, at, length: [v] * length)
    elif codec == 7:
        other = columns[b[0]]
        out, p = _runs(b, 1, n, lambda v, at, length: [signed(x * v) for x in other[at:at + length]])
    elif codec == 8:
        out, p = list(struct.unpack_from(f'<{n}Q', b)), 8 * n
    else:
        need(codec == 9, f'codec {codec}')
        need(len(b) == n, 'bytes are not as many as their lengths say')
        return b
    need(p == len(b) and len(out) == n, f'codec {codec}: {p} of {len(b)} bytes, {len(out)} of {n} values')
    return out


def read_page(b, n_columns, count):
    """count(i, columns so far): how many values column i has."""
    heads = [struct.unpack_from('<BBII', b, 10 * i) for i in range(n_columns)]
    p, columns = 10 * n_columns, []
    for i, (codec, compression, raw, stored) in enumerate(heads):
        data = b[p:p + stored]
        p += stored
        if compression:
            need(compression == 1, f'compression {compression}')
            out = ctypes.create_string_buffer(raw + 1)
            need(_zstd.ZSTD_decompress(out, raw, data, len(data)) == raw, 'zstd')
            data = out.raw[:raw]
        need(len(data) == raw, 'a column has another length')
        columns.append(decode(codec, data, count(i, columns), columns))
    need(p == len(b), 'a page has more than its columns')
    return columns


def spread(lengths, *columns):
    """Values per item, as one list per row."""
    out, at = [], 0
    for n in lengths:
        out.append(list(zip(*[c[at:at + n] for c in columns])))
        at += n
    return out


def _matches(m, value):
    hit = m['value'] == value if m['op'] in ('=', '!=') else bool(re.fullmatch(m['value'], value))
    return hit == (m['op'] in ('=', '=~'))


class Part:
    """What a block or a log holds: lists by id, `streams` of (schema, label set) and `profiles` of (stream, time, duration, period, totals, rows)."""

    def __init__(self):
        self.strings, self.functions, self.mappings, self.locations = [], [], [], []
        self.sets, self.nodes, self.schemas, self.streams, self.profiles = [], [], [], [], []
        self.tombstones = []

    # what pages of both formats have in common

    def add_strings(self, lengths, data):
        at = 0
        for n in lengths:
            self.strings.append(bytes(data[at:at + n]).decode())
            at += n

    def add_locations(self, c):
        for mapping, flags, address, lines in zip(c[0], c[1], c[2], spread(c[3], c[4], c[5], c[6])):
            self.locations.append((mapping - 1, flags, address, lines))

    def add_sets(self, c):
        self.sets += spread(c[0], c[1], c[2])

    def add_schemas(self, c):
        self.schemas += zip(c[0], c[1], c[2], spread(c[3], c[4], c[5], c[6]))

    def is_deleted(self, stream, time):
        labels = {self.strings[n]: self.strings[v] for n, v in self.sets[self.streams[stream][1]]}
        return any(t['min_time'] <= time <= t['max_time'] and all(_matches(m, labels.get(m['name'], '')) for m in t['matchers'])
                   for t in self.tombstones)

    # the text of `sonde tsdb dump --rows`

    def text(self, i):
        out = ''
        for ch in self.strings[i]:
            out += '\\' + ch if ch in '\\;"' else f'\\x{ord(ch):02x}' if ord(ch) < 32 or ord(ch) == 127 else ch
        return out

    def labels(self, i):
        return '{' + ','.join(f'{self.text(n)}="{self.text(v)}"' for n, v in self.sets[i]) + '}'

    def frame(self, location):
        mapping, flags, address, lines = self.locations[location]
        parts = []
        for function, line, column in lines:
            name, system, file, start = self.functions[function]
            s = self.text(name)
            s += '|' + self.text(system) if system != name else ''
            s += '@' + self.text(file) if file else ''
            parts.append(s + (f':{line}:{column}/{start}' if line or column or start else ''))
        out = '<'.join(parts)
        if mapping >= 0:
            file, build_id, kind = self.mappings[mapping]
            out += ' [' + self.text(file) + (' ' + self.text(build_id) if build_id else '') + f' {MAPPING_KINDS[kind]}]'
        out += f' +0x{address:x}' if flags & HAS_ADDRESS else ''
        return out + (f' flags={flags & ~HAS_ADDRESS}' if flags & ~HAS_ADDRESS else '')

    def stack(self, node):
        out = []
        while node:
            parent, location = self.nodes[node]
            out.append(self.frame(location))
            node = parent
        return ';'.join(reversed(out))

    def stream_text(self, i):
        schema, labels = self.streams[i]
        kind, period_type, period_unit, columns = self.schemas[schema]
        out = f'{self.labels(labels)} {STREAM_KINDS[kind]}'
        if period_type:
            out += f' period={self.text(period_type)}/{self.text(period_unit)}'
        return out + ''.join(f' {self.text(t)}/{self.text(u)}/{COLUMN_KINDS[k]}' for t, u, k in columns)

    def profile_text(self, time, duration, period, totals, rows, gauges):
        if gauges:
            totals = [f'{struct.unpack("<d", struct.pack("<q", signed(v)))[0]:.17g}' for v in totals]
        out = [f'  time={time} duration={duration} period={period} rows={len(rows)} totals ' + ' '.join(map(str, totals))]
        lines = [f'    {self.labels(s)} {self.stack(n)} ' + ' '.join(map(str, v)) for s, n, *v in rows]
        return out + sorted(lines, key=str.encode)

    def dump(self):
        by_stream = {}
        for stream, *profile in self.profiles:
            if not self.is_deleted(stream, profile[0]):
                by_stream.setdefault(stream, []).append(profile)
        out = []
        for text, i in sorted((self.stream_text(i).encode(), i) for i in by_stream):
            out.append(text.decode())
            for profile in sorted(by_stream[i], key=lambda p: p[0]):
                out += self.profile_text(*profile, self.schemas[self.streams[i][0]][0] == GAUGES)
        return '\n'.join(out) + '\n'


# ---- blocks ----

def _frame(path, number):
    with open(path, 'rb') as f:
        b = f.read()
    need(b[:8] == b'sblk' + bytes([number, 1, 0, 0]), f'{path}: header')
    n, crc, magic = struct.unpack('<III', b[-12:])
    table = b[-12 - 24 * n:-12]
    need(magic == 0x746b6c62 and crc32c(table + struct.pack('<I', n)) == crc, f'{path}: section table')
    at, out = 8, {}
    for i in range(n):
        ident, section_crc, offset, length = struct.unpack_from('<IIQQ', table, 24 * i)
        out[ident] = b[offset:offset + length]
        need(offset == at and crc32c(out[ident]) == section_crc, f'{path}: section {ident}')
        at += length
    need(at == len(b) - 12 - 24 * n, f'{path}: sections do not fill it')
    return out, crc, len(b)


def _pages(sections, table, count):
    """(rows, columns) of each page. count(i, columns, rows): values of column i."""
    at = 0
    for i in range(0, len(sections[2 * table + 1]), 48):
        offset, length, rows, columns, zero, crc, *_ = struct.unpack_from('<QIIHHIIIqq', sections[2 * table + 1], i)
        page = sections[2 * table][offset:offset + length]
        need(offset == at and zero == 0 and crc32c(page) == crc, f'table {table}: page')
        at += length
        yield rows, read_page(page, columns, lambda k, c, rows=rows: count(k, c, rows))
    need(at == len(sections[2 * table]), f'table {table}: pages do not fill it')


def _per_row(k, columns, rows):
    return rows


def _items(of, first):
    """The columns from `first` on have as many values as column `of` adds up to."""
    return lambda k, columns, rows: sum(columns[of]) if k >= first else rows


class Block(Part):
    """A block's raw profiles, and `rollups`: per resolution a list of (stream's text, its end, profiles merged, sum of durations, totals, rows)."""

    def __init__(self, path):
        super().__init__()
        with open(f'{path}/meta.json', 'rb') as f:
            text = f.read()
        end = text.rindex(b'crc32c ')
        need(int(text[end + 7:], 16) == crc32c(text[:end]), 'meta.json')
        self.meta = json.loads(text[:end])
        self.tombstones = self.meta.get('tombstones', [])
        self.sections = {}
        for f in self.meta['files']:
            name = f['name']
            self.sections[name], crc, size = _frame(f'{path}/{name}', FILES.index(name) + 1)
            need(size == f['size'] and crc == int(str(f['crc32c']), 16 if isinstance(f['crc32c'], str) else 10), name)
        self._symbols(self.sections['symbols'])
        self._nodes(self.sections['stacks'])
        for _, c in _pages(self.sections['index'], 1, _items(3, 4)):
            self.add_schemas(c)
        found = self._streams(self.sections['index'])
        self.streams = [s[:2] for s in found]
        for stream, q, totals, rows in self._profiles('', found, 7):
            need(q[3] == 0 and q[4] == 1, 'a raw profile is of one')
            self.profiles.append((stream, *q[:3], totals, rows))
        self.rollups = {}
        for r in self.meta.get('rollups', []):
            name = r['resolution']
            self.rollups[name] = [(self.stream_text(s), q[0], q[4], q[1], totals, rows)
                                  for s, q, totals, rows in self._profiles('_' + name, self._streams(self.sections[f'profiles_{name}']), 9)]
        for name, have in (('strings', self.strings), ('locations', self.locations), ('nodes', self.nodes), ('streams', self.streams)):
            need(self.meta['stats'][name] == len(have), f'meta.json: {name}')

    def _symbols(self, s):
        for _, c in _pages(s, 3, _items(0, 1)):
            self.add_strings(*c)
        n = self.meta['stats']['label_strings']
        for run in (self.strings[:n], self.strings[n:]):
            need(run == sorted(run, key=str.encode), 'strings are not in order')
        for _, c in _pages(s, 4, _per_row):
            self.functions += zip(*c)
        for _, c in _pages(s, 5, _per_row):
            self.mappings += zip(*c)
        need(self.functions == sorted(self.functions) and self.mappings == sorted(self.mappings), 'functions or mappings are not in order')
        for _, c in _pages(s, 6, _items(3, 4)):
            self.add_locations(c)
        self.keys = [k & (1 << 64) - 1 for _, c in _pages(s, 7, _per_row) for k in c[0]]
        need(len(self.keys) == len(self.locations) and self.keys == sorted(self.keys), 'location keys')
        for _, c in _pages(s, 8, _items(0, 1)):
            self.add_sets(c)

    def _nodes(self, s):
        for rows, c in _pages(s, 9, lambda k, c, rows: rows if k < 2 else 1 if k == 2 else c[2][0]):
            path = list(c[3])
            need([self.nodes[n][1] for n in path] == list(c[4]), 'the path of a page of nodes')
            for up, location in zip(c[0], c[1]):
                path = path[:len(path) - up]
                self.nodes.append((path[-1] if path else 0, location))
                path.append(len(self.nodes) - 1)

    @staticmethod
    def _streams(s):
        return [row for _, c in _pages(s, 2, _per_row) for row in zip(*c)]

    def _profiles(self, suffix, streams, n_fixed):
        rows = [row for _, c in _pages(self.sections['rows' + suffix], 11, _per_row) for row in zip(*c)]
        profiles = []
        for n, c in _pages(self.sections['profiles' + suffix], 10, lambda k, c, n: 1 if k == 6 else n):
            first = c[6][0]
            for i in range(n):
                q = [column[i] for column in c[:6]]
                profiles.append((q, [column[i] for column in c[n_fixed:]], rows[first:first + q[5]]))
                first += q[5]
        at = 0
        for i, s in enumerate(streams):
            for q, totals, its in profiles[at:at + s[2]]:
                need(s[3] <= q[0] <= s[4] and q[1] <= s[5], "a stream's times")
                if self.schemas[s[0]][0] == PROFILE:
                    need(totals == [sum(r[2 + k] for r in its) for k in range(len(totals))], 'rows do not add up')
                yield i, q, totals, its
            at += s[2]
        need(at == len(profiles), 'profiles of no stream')


# ---- the log ----

WAL_PAGES = range(1, 18)


class Log(Part):
    """One generation; `cursors` are those that stand at the end."""

    def __init__(self, wal, generation):
        """generation: 16 bytes, as `generations` gives them."""
        super().__init__()
        self.strings, self.sets, self.nodes = [''], [[]], [(0, 0)]
        self.cursors, self.pending = {}, None
        seed, expected = crc32c(generation), None
        for path in sorted(os.listdir(wal)):
            with open(f'{wal}/{path}', 'rb') as f:
                b = f.read()
            if b[16:32] != generation:
                continue
            at = 128
            while at + 24 <= len(b) and struct.unpack_from('<I', b, at)[0] == 0x44524353:
                _, length, sequence, body_crc, head_crc = struct.unpack_from('<IIQII', b, at)
                body = b[at + 24:at + 24 + length]
                need(crc32c(b[at:at + 20], seed) == head_crc and crc32c(body, seed) == body_crc, 'a checksum of a record')
                need(expected in (None, sequence), 'a sequence')
                expected = sequence + 1
                self._record(body)
                at = (at + 24 + length + 7) & ~7
            need(not any(b[at:]), 'something follows the last record')

    def _record(self, body):
        need(body[0] in (1, 2) and body[1] == 0, 'a kind of record')
        _, p = varint(body, 2)
        while p < len(body):
            tag = body[p]
            p += 1
            head = []
            for _ in range(4):
                v, p = varint(body, p)
                head.append(v)
            n, first, n_columns, length = head
            self._group(tag, n, first, n_columns, body[p:p + length])
            p += length

    def _group(self, tag, n, first, n_columns, b):
        if tag not in WAL_PAGES:
            self._cursors(tag, n, b)
            return
        items = {1: (0, 1), 4: (3, 4), 5: (0, 1), 7: (3, 4)}.get(tag)
        c = read_page(b, n_columns, lambda k, c: sum(c[items[0]]) if items and k >= items[1] else n)
        if tag < 16:
            into = {1: self.strings, 2: self.functions, 3: self.mappings, 4: self.locations, 5: self.sets, 6: self.nodes, 7: self.schemas,
                    8: self.streams}[tag]
            need(len(into) == first, f'group {tag} begins at {first}, {len(into)} are there')
        if tag == 1:
            self.add_strings(*c)
        elif tag == 4:
            self.add_locations(c)
        elif tag == 5:
            self.add_sets(c)
        elif tag == 7:
            self.add_schemas(c)
        elif tag in (2, 3, 6, 8):
            into += zip(*c)
        elif tag == 16:
            for stream, time, duration, period, n_rows, *totals in zip(*c):
                self.profiles.append((stream, time, duration, period, totals, []))
            self.pending = [(p[5], k) for p, k in zip(self.profiles[-n:], c[4])]
        else:
            self._rows(list(zip(*c)))

    def _rows(self, rows):
        for into, n in self.pending:
            take = min(n - len(into), len(rows))
            into += rows[:take]
            rows = rows[take:]
        need(not rows, 'rows of no profile')

    def _cursors(self, tag, n, b):
        need(tag in (18, 19), f'tag {tag}')
        p = 0
        for _ in range(n):
            texts = []
            for _ in range(3):
                length, p = varint(b, p)
                texts.append(bytes(b[p:p + length]))
                p += length
            _, p = svarint(b, p)
            key, before, after = texts
            need(not before if tag == 19 else self.cursors.get(key, b'') == before, 'a cursor does not follow the one before')
            self.cursors[key] = after
        need(p == len(b), 'a group of cursors')


def generations(wal):
    """Their ULIDs as 16 bytes, oldest first; each segment's header is checked."""
    out = []
    for name in sorted(os.listdir(wal)):
        with open(f'{wal}/{name}', 'rb') as f:
            b = f.read(128)
        magic, version, zero, incompat = struct.unpack_from('<IHHQ', b)
        need((magic, version, zero, incompat) == (0x4c415753, 1, 0, 0) and b[:64] == b[64:], f'{name}: header')
        need(struct.unpack_from('<Q', b, 40)[0] == int(name) and struct.unpack_from('<I', b, 60)[0] == crc32c(b[:60]), f'{name}: header')
        if b[16:32] not in out:
            out.append(b[16:32])
    return out


def ulid_text(ulid):
    n, out = int.from_bytes(ulid, 'big'), ''
    for _ in range(26):
        out = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'[n & 31] + out
        n >>= 5
    return out
