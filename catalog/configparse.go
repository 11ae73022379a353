package catalog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/catalog/index"
	"toolbridge/subjects"
)

// Ranges and defaults of the numbers in a Config.
const (
	defaultThresholdPct     = 5.0
	defaultSearchLimit      = 5
	defaultMaxSearchLimit   = 25
	largestMaxSearchLimit   = 50
	defaultListingMaxTokens = 4000
	minListingMaxTokens     = 200
	maxListingMaxTokens     = 60000
	// tokensOfUnknownContext stands for the share of a context of unknown length.
	tokensOfUnknownContext = 10000
)

// DefaultConfig is what applies when nothing is configured.
func DefaultConfig() Config { return Config{}.effective() }

// effective replaces what a literal Config left zero by the defaults. A
// ThresholdPct of 0 stays only in a Config from ParseConfig, With or
// DefaultConfig, in which no other number is 0.
func (c Config) effective() Config {
	if c.MaxSearchLimit == 0 && c.ThresholdPct == 0 {
		c.ThresholdPct = defaultThresholdPct
	}
	if c.MaxSearchLimit == 0 {
		c.MaxSearchLimit = defaultMaxSearchLimit
	}
	if c.SearchDefaultLimit == 0 {
		c.SearchDefaultLimit = min(defaultSearchLimit, c.MaxSearchLimit)
	}
	if c.ListingMaxTokens == 0 {
		c.ListingMaxTokens = defaultListingMaxTokens
	}
	for _, s := range []*Switch{&c.Enabled, &c.Listing, &c.NearMatches} {
		if *s == "" {
			*s = Auto
		}
	}
	return c
}

// ParseConfig reads the JSON value of tools.tool_search; nil, null and what is
// no mapping mean the defaults, except false, which means enabled: off. What is
// wrong becomes a warning and that one setting's default.
func ParseConfig(raw []byte) (Config, []Warning) { return DefaultConfig().With(raw) }

// With is the configuration with some settings replaced, as one assembly may ask
// for. What is wrong in the override becomes a warning, and c's own value stays.
func (c Config) With(override []byte) (Config, []Warning) {
	c = c.effective()
	p := configReader{section: "tools.tool_search"}
	kind := jsontext.Value(override).Kind()
	switch {
	case len(override) == 0 || kind == 'n' || kind == 't':
		return c, nil
	case kind == 'f':
		c.Enabled = Off
		return c, nil
	}
	list, err := members(override)
	if errors.Is(err, errNotObject) {
		p.invalid("", override, "a mapping, true or false", "the section is ignored")
		return c, p.warnings
	}
	if err != nil {
		p.warn(subjects.WarnConfigInvalid, "", fmt.Sprintf("%s is %v; the section is ignored", p.section, err))
		return c, p.warnings
	}
	wantLimit := c.SearchDefaultLimit
	for _, m := range list {
		switch m.name {
		case "enabled":
			c.Enabled = p.position(m, c.Enabled)
		case "listing":
			c.Listing = p.position(m, c.Listing)
		case "near_matches":
			c.NearMatches = p.position(m, c.NearMatches)
		case "threshold_pct":
			c.ThresholdPct = p.percent(m, c.ThresholdPct)
		case "max_search_limit":
			c.MaxSearchLimit = p.integer(m, c.MaxSearchLimit, 1, largestMaxSearchLimit)
		case "search_default_limit":
			wantLimit = p.integer(m, wantLimit, 1, largestMaxSearchLimit)
		case "listing_max_tokens":
			c.ListingMaxTokens = p.integer(m, c.ListingMaxTokens, minListingMaxTokens, maxListingMaxTokens)
		case "defer":
			c.Defer = p.names(m, c.Defer)
		case "ranking":
			c.Ranking = p.ranking(m, c.Ranking)
		default:
			p.unknown(m.name, configKeys())
		}
	}
	c.SearchDefaultLimit = min(wantLimit, c.MaxSearchLimit)
	return c, p.warnings
}

// configKeys are the keys of tools.tool_search.
func configKeys() []string {
	return []string{"enabled", "threshold_pct", "search_default_limit", "max_search_limit", "listing", "listing_max_tokens", "defer", "ranking", "near_matches"}
}

// MarshalJSON writes every setting, always in the same order; ParseConfig reads
// it back to an equal Config.
func (c Config) MarshalJSON() ([]byte, error) {
	c = c.effective()
	b := append(make([]byte, 0, 256), `{"enabled":`...)
	b = appendString(b, string(c.Enabled))
	b = append(b, `,"threshold_pct":`...)
	b = strconv.AppendFloat(b, c.ThresholdPct, 'f', -1, 64)
	b = append(b, `,"search_default_limit":`...)
	b = strconv.AppendInt(b, int64(c.SearchDefaultLimit), 10)
	b = append(b, `,"max_search_limit":`...)
	b = strconv.AppendInt(b, int64(c.MaxSearchLimit), 10)
	b = append(b, `,"listing":`...)
	b = appendString(b, string(c.Listing))
	b = append(b, `,"listing_max_tokens":`...)
	b = strconv.AppendInt(b, int64(c.ListingMaxTokens), 10)
	b = append(b, `,"defer":`...)
	if c.Defer == nil {
		b = append(b, `null`...)
	} else {
		b = appendStrings(b, c.Defer)
	}
	ranking := "standard"
	if c.Ranking == index.Reference {
		ranking = "reference"
	}
	b = append(b, `,"ranking":`...)
	b = appendString(b, ranking)
	b = append(b, `,"near_matches":`...)
	b = appendString(b, string(c.NearMatches))
	return append(b, '}'), nil
}

// ListingBudget is how many tokens the listing may take in a context of that
// many tokens: the smaller of ListingMaxTokens and ThresholdPct of the context,
// never less than 0. A context length of 0 or less is unknown and counts as one
// whose share is 10,000 tokens.
func (c Config) ListingBudget(contextLength int64) int {
	c = c.effective()
	return max(0, min(c.ListingMaxTokens, c.contextShare(contextLength)))
}

func (c Config) contextShare(contextLength int64) int {
	if contextLength <= 0 {
		return tokensOfUnknownContext
	}
	share := float64(contextLength) * (c.ThresholdPct / 100)
	return int(min(share, math.MaxInt32))
}

// ParseConnectors reads the JSON value of tools.connectors, a boolean or a
// mapping with "enabled", and says whether connectors are wanted. They are when
// nothing is configured, and when what is there can not be read.
func ParseConnectors(raw []byte) (enabled bool, warnings []Warning) {
	p := configReader{section: "tools.connectors"}
	switch jsontext.Value(raw).Kind() {
	case 'f':
		return false, nil
	case 't', 'n':
		return true, nil
	default:
		if len(raw) == 0 {
			return true, nil
		}
	}
	list, err := members(raw)
	if err != nil {
		p.invalid("", raw, "true, false or a mapping with enabled", "connectors stay enabled")
		return true, p.warnings
	}
	enabled = true
	for _, m := range list {
		if m.name != "enabled" {
			p.unknown(m.name, []string{"enabled"})
			continue
		}
		enabled = p.truth(m)
	}
	return enabled, p.warnings
}

// nearestKey is the known key that is spelled most like name, or "" when none
// comes near.
func nearestKey(name string, known []string) string {
	name = strings.ToLower(cut(name, 64))
	best, bestDistance := "", len(name)/2+1
	for _, k := range known {
		if d := distance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the number of bytes to insert, remove or replace between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

func dedupe(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
