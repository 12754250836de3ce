"use strict";
/* Under node: what randomize.js makes of the vectors on standard input, as JSON. */
const { randomize } = require(process.argv[2]);
const { cases } = JSON.parse(require("node:fs").readFileSync(0, "utf-8"));
const made = cases.map(({ description, runs }) => runs.map(({ answers, words }) => randomize(description, answers, words.map(BigInt))));
process.stdout.write(JSON.stringify(made));
