// Titles come first, and pages for contributors last. The numbers are those of Sphinx.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score, , kind]) => {
    if (/^(decisions\/|bars$|engine$|measuring$|performance-flow$|proof$|proof-runs$|speed$)/.test(page)) return score - 100;
    return kind === "title" ? score + 10 : score;
  },
};
