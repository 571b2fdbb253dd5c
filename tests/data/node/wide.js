'use strict';
// ü and → and 漢字: this source has two bytes a character, a line that ends in a separator (  here), and a long line.
exports.wide = function wide(next) { const µ = next(); return µ + 1; };
exports.minified=function minified(a){var b=1;if(a){b=2}return(function nested(c){return c()})(a)};
// A function with so many registers that its bytecode has operands of two bytes.
exports.large = new Function('next', Array.from({ length: 300 }, (_, i) => `let v${i} = ${i} + next.length;`).join('\n') +
  '\nlet got = next();\nreturn got + ' + Array.from({ length: 300 }, (_, i) => `v${i}`).join(' + ') + ';\n//# sourceURL=large.js');
