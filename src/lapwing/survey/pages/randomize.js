"use strict";
/* From answers to the randomized report, with the survey's description and random words as the only other inputs.

   A word is 64 random bits, compared with the whole numbers of the description: this file knows no probability. The
   same words give the same report as lapwing/survey/program.py. Randomness comes from crypto.getRandomValues alone. */
const lapwing = (() => {
  const BYTES = 8; // of a word
  const AT_ONCE = 65536; // bytes that a browser gives in one call
  const HALF = 1n << 63n;

  /* The symbol in this place, or by chance another one. */
  function spread(program, place, word) {
    const truth = BigInt(program.truth);
    if (word < truth) return place;
    const other = (word - truth) / BigInt(program.other);
    return other + (other >= place ? 1n : 0n);
  }

  /* The true symbol of one item of several: chosen or not, or whether there is an answer at all. */
  function trueSymbol(program, answer, item) {
    if (item === BigInt(program.options)) return answer === null ? 1n : 0n;
    if (answer === null) return program.symbols === 3 ? 2n : 0n;
    return (answer >> item) & 1n;
  }

  /* The point of the grid below a number, or by chance the one above. */
  function gridPoint(program, answer, word) {
    const steps = BigInt(program.steps), along = answer * BigInt(program.points - 1);
    return along / steps + (word * steps < (along % steps) << 64n ? 1n : 0n);
  }

  /* What is randomized: "no answer" is the last symbol. */
  const held = (program, answer) => (answer === null ? BigInt(program.symbols - 1) : answer);

  const OPERATIONS = {
    whole: (program, answer, [word]) => spread(program, held(program, answer), word),
    coins: (program, answer, [word]) => (answer === null ? (word < HALF ? 0n : 1n) : spread(program, answer, word)),
    option: (program, answer, [first, second]) => {
      const item = (first * BigInt(program.items)) >> 64n;
      return item * BigInt(program.symbols) + spread(program, trueSymbol(program, answer, item), second);
    },
    bits: (program, answer, words) => {
      const mine = held(program, answer), rare = BigInt(program.rare);
      const bit = (word, i) => (word < (BigInt(i) === mine ? HALF : rare) ? 1n << BigInt(i) : 0n);
      return words.map(bit).reduce((sum, one) => sum + one, 0n);
    },
    rounded: (program, answer, [first, second]) => {
      const point = answer === null ? held(program, answer) : gridPoint(program, answer, first);
      return spread(program, point, second);
    },
  };

  /* One question: a whole number or null, and its words, to the number that is sent. */
  function run(program, answer, words) {
    const known = answer === null || (Number.isInteger(answer) && answer >= 0 && answer < program.answers);
    if (!known) throw new RangeError("This is not an answer to the question.");
    if (words.length !== program.words) throw new RangeError("A question reads a fixed number of words.");
    return OPERATIONS[program.op](program, answer === null ? null : BigInt(answer), words);
  }

  /* A number as bytes, the lowest first, in hexadecimal. */
  function toHex(number, bytes) {
    const pairs = Array.from({ length: bytes }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));
    return pairs.map((pair) => pair.toString(16).padStart(2, "0")).join("");
  }

  /* The report to all questions; an answer that is missing is "no answer". */
  function randomize(description, answers, words) {
    if (words.length !== description.words) throw new RangeError("A survey reads a fixed number of words.");
    let used = 0;
    return description.questions.map(({ id, program }) => {
      const mine = words.slice(used, (used += program.words));
      return toHex(run(program, answers[id] ?? null, mine), program.bytes);
    }).join("");
  }

  /* Random bytes, or an error where a browser has no secure ones. */
  function drawBytes(count, source = globalThis.crypto) {
    if (!source || typeof source.getRandomValues !== "function") throw new Error("There is no secure randomness.");
    const bytes = new Uint8Array(count);
    for (let start = 0; start < count; start += AT_ONCE) source.getRandomValues(bytes.subarray(start, start + AT_ONCE));
    if (count >= 16 && bytes.every((byte) => byte === bytes[0])) throw new Error("The randomness is broken.");
    return bytes;
  }

  /* Bytes as words, the highest byte first. */
  function toWords(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return Array.from({ length: bytes.length / BYTES }, (_, i) => view.getBigUint64(i * BYTES));
  }

  const drawWords = (count, source) => toWords(drawBytes(count * BYTES, source));
  const drawNonce = (source) => Array.from(drawBytes(16, source), (byte) => toHex(BigInt(byte), 1)).join("");
  return Object.freeze({ drawNonce, drawWords, randomize, run, toWords });
})();
if (typeof module === "object") module.exports = lapwing; // under node, for tests
