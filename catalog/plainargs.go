package catalog

import "strings"

// plainSearch reads the arguments of tool_search as models mostly send them:
// {"queries":["…"],"limit":5} with at most MaxQueries texts of ASCII without
// escapes, and a limit of digits. ok is false for everything else, right or
// wrong; limit is -1 where there is none.
func plainSearch(args []byte) (queries []string, limit int, ok bool) {
	limit = -1
	s := plainScan{text: args}
	if !s.take('{') {
		return nil, limit, false
	}
	for {
		name, ok := s.quoted()
		if !ok || !s.take(':') {
			return nil, limit, false
		}
		switch string(name) {
		case "queries":
			if queries != nil {
				return nil, limit, false
			}
			if queries, ok = s.texts(); !ok {
				return nil, limit, false
			}
		case "limit":
			if limit >= 0 {
				return nil, limit, false
			}
			if limit, ok = s.digits(); !ok {
				return nil, limit, false
			}
		default:
			return nil, limit, false
		}
		if s.take(',') {
			continue
		}
		return queries, limit, s.take('}') && s.ended() && queries != nil
	}
}

// plainScan walks over a JSON text of a plain kind.
type plainScan struct {
	text []byte
	at   int
}

func (s *plainScan) space() {
	for s.at < len(s.text) && strings.IndexByte(" \n\r\t", s.text[s.at]) >= 0 {
		s.at++
	}
}

// take passes over one character and the space before it, if it is there.
func (s *plainScan) take(c byte) bool {
	if s.space(); s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *plainScan) ended() bool {
	s.space()
	return s.at == len(s.text)
}

// quoted is the text of a string of ASCII without escapes.
func (s *plainScan) quoted() (text []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	for from := s.at; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[from : s.at-1], true
		case c < ' ' || c == '\\' || c >= 0x7f:
			return nil, false
		}
	}
	return nil, false
}

// texts reads one text, or a list of 1 to MaxQueries.
func (s *plainScan) texts() (list []string, ok bool) {
	if !s.take('[') {
		text, ok := s.quoted()
		return []string{string(text)}, ok
	}
	list = make([]string, 0, 1)
	for {
		text, ok := s.quoted()
		if !ok || len(list) == MaxQueries {
			return nil, false
		}
		list = append(list, string(text))
		if !s.take(',') {
			return list, s.take(']')
		}
	}
}

// digits reads a whole number below a thousand millions.
func (s *plainScan) digits() (n int, ok bool) {
	s.space()
	from := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' && s.at-from < 10 {
		n = 10*n + int(s.text[s.at]-'0')
		s.at++
	}
	length := s.at - from
	return n, length == 1 || 1 < length && length < 10 && s.text[from] != '0'
}
