package catalog

import (
	"toolbridge/catalog/index"
)

// Switch is a setting with three positions.
type Switch string

// The positions of a Switch. The zero value counts as Auto.
const (
	Auto Switch = "auto"
	On   Switch = "on"
	Off  Switch = "off"
)

// Config is the section tools.tool_search, with every value in its range.
// ParseConfig makes one; the zero value is the documented default.
type Config struct {
	Enabled            Switch  // default auto; auto and on behave alike
	ThresholdPct       float64 // share of the context that the listing may take, 0 to 100. Default 5
	SearchDefaultLimit int     // matches per query when none are asked for, 1 to MaxSearchLimit. Default 5
	MaxSearchLimit     int     // 1 to 50. Default 25
	Listing            Switch  // default auto; off: tool_search carries no listing
	ListingMaxTokens   int     // 200 to 60,000. Default 4,000
	// Defer are the names that are deferred whatever they are. nil means the
	// curated default (DefaultDefer), an empty slice that none is named.
	Defer       []string
	Ranking     index.Ranking // default standard
	NearMatches Switch        // default auto; off: answers carry no near_matches and unmatched_terms
}
