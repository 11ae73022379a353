package index

// resolve gives every unit its postings and the number of documents that hold
// it, then decides on units that no document holds as they are.
func (s *search) resolve() {
	for i := range s.units {
		s.find(&s.units[i])
	}
	if s.options.Ranking == Reference {
		return
	}
	s.dropJoints()
	s.openCompounds()
	s.dropRepetitions()
	s.settleStopWords()
}

// find looks up a unit's postings and counts its holders.
func (s *search) find(u *unit) {
	u.docs, u.frequencies = s.slotPostings(u.whole)
	if u.parts < u.partsEnd {
		u.docs, u.frequencies = s.withParts(u)
	} else if len(u.docs)*commonEvery >= len(s.index.docs) && len(u.docs) > 0 {
		u.everywhere = s.postings.common[s.slots[u.whole].term]
	}
	u.holders = len(u.docs)
	for i := range s.options.Extra {
		if s.extraFrequency(u, i) != 0 {
			u.holders++
		}
	}
}

func (s *search) slotPostings(at int) (docs []uint32, frequencies []uint16) {
	if term := s.slots[at].term; term != unknown {
		return s.postings.list(term)
	}
	return nil, nil
}

// withParts joins the postings of a compound word with the documents that hold
// all of its parts.
func (s *search) withParts(u *unit) (docs []uint32, frequencies []uint16) {
	slots := s.parts[u.parts:u.partsEnd]
	rarest := slots[0]
	for _, at := range slots {
		if d, _ := s.slotPostings(at); len(d) == 0 {
			return u.docs, u.frequencies
		} else if r, _ := s.slotPostings(rarest); len(d) < len(r) {
			rarest = at
		}
	}
	candidates, _ := s.slotPostings(rarest)
	whole, at := 0, make([]int, len(slots))
	for _, doc := range candidates {
		for ; whole < len(u.docs) && u.docs[whole] < doc; whole++ {
			docs, frequencies = append(docs, u.docs[whole]), append(frequencies, u.frequencies[whole])
		}
		if whole < len(u.docs) && u.docs[whole] == doc {
			continue // comes next
		}
		f := combineParts(len(slots), func(i int) uint16 {
			d, f := s.slotPostings(slots[i])
			if at[i] = seek(d, at[i], doc); at[i] < len(d) && d[at[i]] == doc {
				return f[at[i]]
			}
			return 0
		})
		if f != 0 {
			docs, frequencies = append(docs, doc), append(frequencies, f)
		}
	}
	return append(docs, u.docs[whole:]...), append(frequencies, u.frequencies[whole:]...)
}

// dropJoints drops pairs of characters that no document holds beside pairs that
// some do: they only span two words, or hang a single character on one. What
// remains unknown is a word of its own.
func (s *search) dropJoints() {
	kept := s.units[:0]
	run, held := 0, false // of the unit before
	for i := range s.units {
		u := s.units[i]
		joint := false
		if u.run > 0 && u.holders == 0 {
			joint = held && run == u.run || i+1 < len(s.units) && s.units[i+1].run == u.run && s.units[i+1].holders > 0
		}
		run, held = u.run, u.holders > 0
		if !joint {
			kept = append(kept, u)
		}
	}
	s.units = kept
}

// openCompounds replaces compound words that no document holds, neither whole
// nor in parts, by their parts, as if they had been written apart.
func (s *search) openCompounds() {
	s.opened = s.opened[:0]
	for _, u := range s.units {
		if u.parts == u.partsEnd || u.holders > 0 {
			s.opened = append(s.opened, u)
			continue
		}
		for _, at := range s.parts[u.parts:u.partsEnd] {
			part := unit{whole: at, text: u.text}
			s.find(&part)
			s.opened = append(s.opened, part)
		}
	}
	s.units, s.opened = s.opened, s.units
}

// dropRepetitions keeps the first of the units that ask for one term.
func (s *search) dropRepetitions() {
	kept := s.units[:0]
	for _, u := range s.units {
		if !s.slots[u.whole].taken {
			s.slots[u.whole].taken = true
			kept = append(kept, u)
		}
	}
	s.units = kept
}

// settleStopWords leaves stop words in the query for what they add to a score,
// unless it has no other words: then they are words like any.
func (s *search) settleStopWords() {
	others := false
	for i := range s.units {
		others = others || !s.units[i].stop
	}
	kept := s.units[:0]
	for _, u := range s.units {
		if !others {
			u.stop = false
		}
		if !u.stop || u.holders > 0 && u.run == 0 {
			kept = append(kept, u)
		}
	}
	s.units = kept
}
