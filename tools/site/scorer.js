// How a search orders the pages: the book, then the diffs, the rest, and the answers last, which would give away the labs.
// Sphinx puts this file into searchtools.js; the other numbers are its own.
"use strict";
const GROUPS = [
  ["The book", /^(index$|docs\/(?!answers))/],
  ["The diffs", /^diffs\//],
  ["Steps, tools and classes", /^(?!docs\/answers)/],
  ["Answers", /^/],
];
const groupOf = (page) => GROUPS.findIndex(([, pages]) => pages.test(page));
var Scorer = {
  score: ([page, , , , score]) => score + 10000 * (GROUPS.length - groupOf(page)),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
