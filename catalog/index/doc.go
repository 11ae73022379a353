// Package index ranks tools for short queries in words: an immutable inverted
// index with BM25. It knows names, labels, descriptions and parameter names, not
// JSON and not definitions.
//
// # Guarantees
//
//  1. An Index never changes and may be used by any number of goroutines. The
//     same documents and query give the same result, bit for bit, on one kind of
//     machine; nothing depends on the order of a map.
//  2. Equal scores keep the order of the documents.
//  3. A search costs what the postings of its words cost. It never walks over all
//     documents, and allocates only its result (words that the index has not seen
//     are stemmed, which allocates too).
//  4. Matches and near matches together never exceed the limit, and no document
//     is both.
//  5. Text from outside is bounded by the Max constants. Invalid UTF-8 is
//     separation, no more.
//
// # Matches
//
// Both rankings follow the same plan; they differ in what a word is and in the
// score. N is the number of documents, df that of documents that hold a word.
//
//   - Weight: idf = ln(1 + (N - df + 0.5) / (df + 0.5)).
//   - Gate: the word of the query with the highest idf, the first of equals. A
//     match must hold it. A word that no document holds has the highest there is,
//     so a query with such a word has no matches: a tool that lacks the word that
//     names the intent is none.
//   - Floor: of the query's different words that some document holds, a match must
//     hold one, or from four such words on, half of them, rounded up.
//   - Exact name: a document whose name is the query, trimmed and case folded, is
//     always a match, with the score +Inf.
//
// # Reference
//
// Words are the runs of ASCII letters and digits, lower-cased and stemmed (Stem).
// A document's words are those of its name without a leading "mcp__", of its
// source label unless the label is one of the name's words, of its description
// and of its property names. A query without such words finds nothing. With tf
// the number of times a document holds a word, and length and mean length in
// words (the mean is at least 1), the score is the sum over the query's words,
// repetitions included, of
//
//	idf · tf · 2.5 / (tf + 1.5 · (0.25 + 0.75 · length/mean))
//
// # Standard
//
// Words are Unicode. Accents and points, compatibility forms and case are folded
// (café, CAFE and ＣＡＦＥ are one word). Compound words count whole and in parts:
// stockItemBatch as stock, item, batch; http2 as http, 2. The s behind capitals is
// dropped (PRs is pr). A document holds a
// compound word of the query if it holds the whole or all of the parts; if no
// document does, the parts are taken as if written apart. Text in scripts without
// spaces, and Hangul, counts in pairs of characters and in single ones; a query's
// pair that nothing holds is left out beside one that something holds, and
// hiragana is taken for grammar.
//
// Stop words count neither for gate nor floor, unless the query has no other
// words. Each word of the query counts once. The "mcp" of a name such as
// mcp__server__tool is no word, in documents or queries. Aliases are searched.
//
// tf counts words of the tool's own name (behind the last "__") and of aliases
// three times. The score is the sum over the query's words of
//
//	idf · tf · 2.5 / (tf + 1.5 · (0.5 + 0.5 · length/mean))
//
// and a bonus when the name is covered: with named the sum of idf of the query's
// words in the name or an alias,
//
//	0.6 · named · (named / idf of all · named words / words of the name)²
//
// # Near matches
//
// A search with fewer matches than the limit may be filled up with documents that
// hold part of the query. They are ordered by share, the sum of the idf of the
// words that the document holds over that of all words of the query, then as
// matches would be. A share below 0.05 is not near. Beside them stand the words
// of the query that no document holds.
package index
