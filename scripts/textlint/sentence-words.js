"use strict";

// A rule of textlint: no sentence in a paragraph or in a table's cell has more than `max` words. textlint's own
// `sentence-length` counts characters, leaves tables out, and takes the apostrophe of a plural for an open quotation.

const { StringSource } = require("textlint-util-to-string");

const CODE = "\uE000"; // stands for each character of inline code, which is one word and may begin a sentence
const BETWEEN_SENTENCES = /(?<!\b(?:e\.g|i\.e|vs|cf)\.)(?<=[.!?…]["'”’)\]]*)\s+(?=["'“‘([]*[\p{Lu}\p{N}\uE000])/gu;
const HAS_A_WORD = /[\p{L}\p{N}\uE000]/u;

function* sentencesOf(text) {
  let start = 0;
  for (const gap of text.matchAll(BETWEEN_SENTENCES)) {
    yield [start, text.slice(start, gap.index)];
    start = gap.index + gap[0].length;
  }
  yield [start, text.slice(start)];
}

module.exports = (context, { max }) => {
  const { RuleError, Syntax, locator, report } = context;
  const replacer = ({ node, maskValue }) => (node.type === Syntax.Code ? maskValue(CODE) : undefined);
  const check = (node) => {
    const source = new StringSource(node, { replacer });
    for (const [start, sentence] of sentencesOf(source.toString())) {
      const words = sentence.split(/\s+/).filter((word) => HAS_A_WORD.test(word));
      if (words.length > max) {
        const text = words.join(" ").replace(/\uE000+/g, "`…`");
        const padding = locator.at(source.originalIndexFromIndex(start) ?? 0);
        report(node, new RuleError(`${words.length} words: ${text}`, { padding }));
      }
    }
  };
  return { [Syntax.Paragraph]: check, [Syntax.TableCell]: check };
};
