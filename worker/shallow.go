package worker

// maxLevels is how deep a request's values may nest before they are cut: far above
// what one definition may, far below what a JSON reader takes.
const maxLevels = 1000

// shallow replaces, in a JSON text, each value that lies deeper than so many levels
// by null, so that one definition that no reader takes does not cost the others; it
// is still too deep to be served. cut is false when nothing lies so deep, or when
// brackets or quotes do not match: then the text comes back as it is.
func shallow(text []byte, levels int) (out []byte, cut bool) {
	depth, kept := 0, 0 // kept: up to where text is in out
	start := 0          // of the value that is left out
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth == levels+1 {
				start = i
			}
		case '}', ']':
			if depth == levels+1 {
				out = append(append(out, text[kept:start]...), "null"...)
				kept, cut = i+1, true
			}
			depth--
		}
	}
	if depth != 0 || !cut {
		return text, false
	}
	return append(out, text[kept:]...), true
}
