package index

// maxStopWord is the length of the longest stop word.
const maxStopWord = 10

// isStopWord tells words that never name what a tool does: the function words
// of English, the pieces that apostrophes leave (don, ll, ve), the words of
// asking and of politeness, and the words for tools themselves. It wants the
// word as it stands, lower-cased but not stemmed.
func isStopWord(word string) bool {
	if len(word) > maxStopWord {
		return false
	}
	switch word {
	case
		// articles, pronouns, determiners
		"a", "an", "the", "i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "you", "your", "yours",
		"yourself", "he", "him", "his", "she", "her", "hers", "it", "its", "itself", "they", "them", "their",
		"theirs", "this", "that", "these", "those", "some", "any", "all", "each", "every", "both", "such",
		"another", "other", "same", "own", "one", "ones", "something", "anything", "someone", "there", "here",
		// prepositions, conjunctions
		"about", "above", "after", "against", "along", "among", "around", "as", "at", "because", "before",
		"below", "between", "but", "by", "during", "either", "for", "from", "if", "in", "inside", "into", "nor",
		"of", "off", "on", "onto", "or", "and", "out", "over", "per", "since", "so", "than", "then", "through",
		"to", "too", "under", "until", "up", "upon", "via", "while", "with", "within", "without", "whether",
		// verbs that carry no meaning of their own
		"am", "is", "are", "was", "were", "be", "been", "being", "do", "does", "did", "doing", "done", "has",
		"have", "had", "having", "can", "could", "may", "might", "must", "shall", "should", "will", "would",
		// questions
		"what", "which", "who", "whom", "whose", "when", "where", "why", "how",
		// adverbs
		"also", "already", "again", "away", "even", "ever", "just", "more", "most", "much", "no", "not", "now",
		"only", "once", "quite", "really", "still", "very", "well", "yet", "currently",
		// asking and politeness
		"please", "pls", "thanks", "thank", "hello", "hi", "hey", "want", "wants", "wanted", "need", "needs",
		"needed", "let", "lets", "like", "help", "able", "tell", "give", "show", "know", "wondering", "use", "using",
		// pieces of words with an apostrophe
		"s", "t", "d", "m", "ll", "re", "ve", "don", "doesn", "didn", "isn", "aren", "wasn", "won", "wouldn",
		"couldn", "shouldn",
		// tools themselves
		"tool", "tools", "mcp", "function", "functions":
		return true
	}
	return false
}
