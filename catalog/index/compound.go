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
	from := len(s.joinedDocs)
	joined := func(doc uint32, frequency uint16) {
		s.joinedDocs, s.joinedFrequencies = append(s.joinedDocs, doc), append(s.joinedFrequencies, frequency)
	}
	whole, at := 0, [maxParts]int{}
	for _, doc := range candidates {
		for ; whole < len(u.docs) && u.docs[whole] < doc; whole++ {
			joined(u.docs[whole], u.frequencies[whole])
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
			joined(doc, f)
		}
	}
	for ; whole < len(u.docs); whole++ {
		joined(u.docs[whole], u.frequencies[whole])
	}
	to := len(s.joinedDocs)
	return s.joinedDocs[from:to:to], s.joinedFrequencies[from:to:to]
}

// dropJoints drops pairs of characters that no document holds beside pairs that
// some do: they only span two words, or hang a single character on one. What
// remains unknown is a word of its own.
func (s *search) dropJoints() {
	kept := 0
	run, held := 0, false // of the unit before
	for i := range s.units {
		u := &s.units[i]
		joint := false
		if u.run > 0 && u.holders == 0 {
			joint = held && run == u.run || i+1 < len(s.units) && s.units[i+1].run == u.run && s.units[i+1].holders > 0
		}
		run, held = u.run, u.holders > 0
		if !joint {
			kept = s.keep(kept, i)
		}
	}
	s.units = s.units[:kept]
}

// keep moves the i-th unit behind those kept already, and counts it.
func (s *search) keep(kept, i int) int {
	if kept != i {
		s.units[kept] = s.units[i]
	}
	return kept + 1
}

// openCompounds replaces compound words that no document holds, neither whole
// nor in parts, by their parts, as if they had been written apart.
func (s *search) openCompounds() {
	s.opened = s.opened[:0]
	compound := false
	for i := range s.units {
		compound = compound || s.units[i].opens()
	}
	if !compound {
		return
	}
	for i := range s.units {
		u := &s.units[i]
		if !u.opens() {
			s.opened = append(s.opened, *u)
			continue
		}
		for _, at := range s.parts[u.parts:u.partsEnd] {
			part := unit{whole: at, text: u.text}
			s.find(&part)
			s.opened = append(s.opened, part)
		}
	}
	s.units, s.opened = s.opened, s.units
	s.most = max(s.most, len(s.units))
}

// dropRepetitions keeps the first of the units that ask for one term.
func (s *search) dropRepetitions() {
	kept := 0
	for i := range s.units {
		if slot := &s.slots[s.units[i].whole]; !slot.taken {
			slot.taken = true
			kept = s.keep(kept, i)
		}
	}
	s.units = s.units[:kept]
}

// settleStopWords leaves stop words in the query for what they add to a score,
// unless it has no other words: then they are words like any.
func (s *search) settleStopWords() {
	others := false
	for i := range s.units {
		others = others || !s.units[i].stop
	}
	kept := 0
	for i := range s.units {
		u := &s.units[i]
		u.stop = u.stop && others
		if !u.stop || u.holders > 0 && u.run == 0 {
			kept = s.keep(kept, i)
		}
	}
	s.units = s.units[:kept]
}
