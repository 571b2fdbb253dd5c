// A program that knows its stacks. Every stack ends in work(). With the argument "stacks" the program prints each of them, as the
// interpreter gives them (S, then "F line column name file", leaf first, all but work() itself). Otherwise it runs for
// ever, and says once that it has come so far that its functions are compiled. A number behind it is how long work() works.
'use strict';
const vm = require('vm');
const wide = require('./wide.js');
Error.stackTraceLimit = Infinity;
const seen = new Set();
let isRecording = process.argv[2] === 'stacks';
let size = Number(process.argv[3]) || 3000;
let nRounds = 0;

function record() {
  const before = Error.prepareStackTrace;
  Error.prepareStackTrace = (error, sites) => sites;
  const sites = new Error().stack.slice(2); // without record() and work()
  Error.prepareStackTrace = before;
  const isCalled = (s) => !(s.isAsync && s.isAsync()); // what awaits is no caller
  const lines = sites.filter(isCalled).map((s) =>
    ['F', s.getLineNumber() || 0, s.getColumnNumber() || 0, s.getFunctionName() || '-', s.getFileName() || (s.isNative() || !s.getLineNumber() ? '-' : '[eval]')].join(' '));
  seen.add(lines.join('\n'));
}

function work() {
  if (isRecording) {
    record();
    return 1;
  }
  let sum = 0;
  for (let i = 0; i < size; i++) sum = (sum + i * 7) % 1000003;
  return sum;
}

function small(n) { return work() + n; }
const arrow = (n) => small(n) + 1;
class Shape {
  constructor(n) { this.n = n === undefined ? 0 : arrow(n); }
  area(n) { return arrow(n) * 2; }
  static make(n) { return new Shape(n).n; }
  get side() { return this.area(1); }
  set side(v) { this.n = v + arrow(2); }
  toJSON() { return small(this.n); }
  *[Symbol.iterator]() { yield small(1); yield arrow(2); }
}
const shape = new Shape();

function each() { let t = 0; [1, 2].forEach(function perItem(x) { t += shape.area(x); }); return t; }
function mapped() { return [3, 4].map((x) => small(x)).reduce((a, b) => a + work() + b, 0); }
function sorted() { return [3, 1, 2].sort(function compare(a, b) { return small(a) - small(a) + a - b; })[0]; }
function replaced() { return 'abc'.replace(/b/, function matched() { return String(small(3)); }).length; }
function json() { return JSON.stringify(shape).length; }
function applied() { return Reflect.apply(small, null, [1]) + small.call(null, 2) + small.bind(null, 3)(); }
function proxied() { return new Proxy({}, { get: function trap(o, key) { return small(key.length); } }).anything; }
function spread() { return [...shape].length; }
function caught() {
  try {
    return thrower(1);
  } catch (e) {
    return small(e.n);
  } finally {
    arrow(5);
  }
}
function thrower(n) { throw { n: small(n) }; }
function deep(n) { return n ? deep(n - 1) + 1 : small(n); }
function accessors() { shape.side = 3; return shape.side; }
async function later(n) { work(); await null; return small(n); }
const evaluated = new Function('small', 'n', '\n\n  return 1 + small(n);');
const inContext = vm.runInThisContext('(function inContext(f) {\n\treturn f(7); })', { filename: 'ctx.js', lineOffset: 100, columnOffset: 10 });
function inWide() { return wide.wide(work) + wide.minified(work) + wide.large(work); }
function Constructed() { this.made = small(1); }
function constructed() { return new Constructed().made + Shape.make(4); }
const object = { method() { return arrow(6); }, 'quoted name': function () { return arrow(7); }, [Symbol('sym')]: 1 };
function methods() { return object.method() + object['quoted name'](); }
function toPrimitive() { return +{ valueOf() { return small(1); } }; }

function all() {
  return each() + mapped() + sorted() + replaced() + json() + applied() + proxied() + spread() + caught() + deep(20) +
    accessors() + evaluated(small, 1) + inContext(arrow) + inWide() + constructed() + methods() + toPrimitive();
}

function once(done) {
  all();
  Promise.all([later(1), later(2)]).then(() => setImmediate(done));
}

function rounds(n) {
  if (++nRounds === 50 && !isRecording) process.stdout.write('ready\n');
  if (n) once(() => rounds(n - 1));
  else process.stdout.write([...seen].map((s) => 'S\n' + s + '\n').join('') + '.\n');
}

rounds(isRecording ? 3 : Infinity);
