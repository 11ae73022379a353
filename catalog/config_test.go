package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolbridge/catalog/index"
	"toolbridge/subjects"
)

type vectorConfig struct {
	Enabled            Switch          `json:"enabled"`
	ThresholdPct       json.RawMessage `json:"threshold_pct"`
	SearchDefaultLimit int             `json:"search_default_limit"`
	MaxSearchLimit     int             `json:"max_search_limit"`
	Listing            Switch          `json:"listing"`
	ListingMaxTokens   int             `json:"listing_max_tokens"`
	Defer              *[]string       `json:"defer"`
	Raises             string          `json:"raises"`
}

func TestConfigFollowsTheVectors(t *testing.T) {
	// A list with items that are no strings is refused as a whole, in place of
	// one language's text forms of null and true.
	overruled := map[string]string{"k066": "items of another type are refused, the default stays"}
	var v struct {
		Cases []struct {
			ID     string
			Input  json.RawMessage
			Expect vectorConfig
		}
	}
	readVectors(t, "config.json", &v)
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			input := c.Input
			var special struct{ Special, Key string }
			if json.Unmarshal(input, &special) == nil && special.Special != "" {
				// JSON spells no infinity; a YAML file's arrives as text.
				word, _, isInt := strings.Cut(special.Special, " ")
				input = []byte(`{"` + special.Key + `":"` + word + `"}`)
				if isInt && c.Expect.Raises != "" {
					got, warnings := ParseConfig(input)
					if got.SearchDefaultLimit != 5 || len(warnings) != 1 {
						t.Errorf("got %+v, %v; want the default and a warning", got, warnings)
					}
					return
				}
			}
			got, warnings := ParseConfig(input)
			if reason, ok := overruled[c.ID]; ok {
				if got.Defer != nil || len(warnings) == 0 {
					t.Errorf("%s: got %v, %v", reason, got.Defer, warnings)
				}
				return
			}
			want := c.Expect
			pct, _ := number([]byte(want.ThresholdPct))
			if got.ThresholdPct != pct {
				t.Errorf("threshold_pct = %v, want %s", got.ThresholdPct, want.ThresholdPct)
			}
			if got.SearchDefaultLimit != want.SearchDefaultLimit {
				t.Errorf("search_default_limit = %d, want %d", got.SearchDefaultLimit, want.SearchDefaultLimit)
			}
			if special.Special != "" {
				return
			}
			var names *[]string
			if got.Defer != nil {
				names = &got.Defer
			}
			if diff := cmp.Diff(want, vectorConfig{
				Enabled: got.Enabled, ThresholdPct: want.ThresholdPct, SearchDefaultLimit: got.SearchDefaultLimit,
				MaxSearchLimit: got.MaxSearchLimit, Listing: got.Listing, ListingMaxTokens: got.ListingMaxTokens, Defer: names,
			}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestListingBudgetFollowsTheVectors(t *testing.T) {
	var v struct {
		Cases []struct {
			ID    string
			Input struct {
				Config        json.RawMessage
				ContextLength *int64 `json:"context_length"`
			}
			Expect int
		} `json:"listing_budget_cases"`
	}
	readVectors(t, "config.json", &v)
	for _, c := range v.Cases {
		cfg, _ := ParseConfig(c.Input.Config)
		length := int64(0)
		if c.Input.ContextLength != nil {
			length = *c.Input.ContextLength
		}
		if got := cfg.ListingBudget(length); got != c.Expect {
			t.Errorf("%s: budget %d, want %d", c.ID, got, c.Expect)
		}
	}
}

// F03: a YAML reader's idea of off, no and 0 must not crash or switch anything on.
func TestF03EnabledInEverySpelling(t *testing.T) {
	cases := []struct {
		value string
		want  []Switch
	}{
		{`false`, []Switch{Off}},
		{`"off"`, []Switch{Off}},
		{`"OFF"`, []Switch{Off}},
		{`"no"`, []Switch{Off}},
		{`0`, []Switch{Off}},
		{`"0"`, []Switch{Off}},
		{`true`, []Switch{On, Auto}},
		{`"auto"`, []Switch{Auto}},
		{`"on"`, []Switch{On}},
		{`"yes"`, []Switch{On}},
		{`"maybe"`, []Switch{Auto}},
		{`null`, []Switch{Auto}},
		{`{}`, []Switch{Auto}},
	}
	for _, c := range cases {
		got, warnings := ParseConfig([]byte(`{"enabled":` + c.value + `}`))
		found := false
		for _, w := range c.want {
			found = found || got.Enabled == w
		}
		if !found {
			t.Errorf("enabled: %s gives %s, want one of %v", c.value, got.Enabled, c.want)
		}
		if wrong := c.value == `"maybe"` || c.value == `{}`; wrong != (len(warnings) > 0) {
			t.Errorf("enabled: %s gives the warnings %v", c.value, warnings)
		}
	}
	if got, _ := ParseConfig([]byte(`false`)); got.Enabled != Off {
		t.Errorf("tool_search: false gives %s", got.Enabled)
	}
}

// F04: numbers out of range or as text are clamped, or fall back, each alone.
func TestF04NumbersAreClampedFieldByField(t *testing.T) {
	for _, c := range []struct {
		input string
		check func(Config) bool
	}{
		{`{"max_search_limit": 500, "search_default_limit": "9"}`, func(c Config) bool { return c.MaxSearchLimit == 50 && c.SearchDefaultLimit == 9 }},
		{`{"max_search_limit": 3, "search_default_limit": 10}`, func(c Config) bool { return c.MaxSearchLimit == 3 && c.SearchDefaultLimit == 3 }},
		{`{"threshold_pct": -5}`, func(c Config) bool { return c.ThresholdPct == 0 }},
		{`{"threshold_pct": "x"}`, func(c Config) bool { return c.ThresholdPct == 5 }},
		{`{"listing_max_tokens": 1}`, func(c Config) bool { return c.ListingMaxTokens == 200 }},
		{`{"listing_max_tokens": "9e9"}`, func(c Config) bool { return c.ListingMaxTokens == 4000 }},
	} {
		got, _ := ParseConfig([]byte(c.input))
		if !c.check(got) {
			t.Errorf("%s gives %+v", c.input, got)
		}
	}
}

func TestConfigWarnsOfWrongValuesAndUnknownKeys(t *testing.T) {
	for _, c := range []struct {
		name, input string
		code        subjects.WarningCode
		tool, says  string
	}{
		{"unknown key with its neighbour", `{"listing_max_token": 300}`, subjects.WarnConfigUnknownKey, "tools.tool_search.listing_max_token", "listing_max_tokens"},
		{"unknown key without one", `{"zzzzzzzzzz": 1}`, subjects.WarnConfigUnknownKey, "tools.tool_search.zzzzzzzzzz", "ignored"},
		{"wrong type", `{"max_search_limit": [1]}`, subjects.WarnConfigInvalid, "tools.tool_search.max_search_limit", "25"},
		{"out of range", `{"listing_max_tokens": 70000}`, subjects.WarnConfigInvalid, "tools.tool_search.listing_max_tokens", "60000"},
		{"defer as text", `{"defer": "todo_list"}`, subjects.WarnConfigInvalid, "tools.tool_search.defer", "list"},
		{"unknown ranking", `{"ranking": "best"}`, subjects.WarnConfigInvalid, "tools.tool_search.ranking", "standard or reference"},
		{"section of another type", `["x"]`, subjects.WarnConfigInvalid, "tools.tool_search", "mapping"},
		{"key twice", `{"listing":"on","listing":"off"}`, subjects.WarnConfigInvalid, "tools.tool_search", "twice"},
		{"broken JSON", `{"listing":`, subjects.WarnConfigInvalid, "tools.tool_search", "not valid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, warnings := ParseConfig([]byte(c.input))
			if len(warnings) != 1 || warnings[0].Code != c.code || warnings[0].Tool != c.tool || !strings.Contains(warnings[0].Message, c.says) {
				t.Errorf("warnings %+v, want one %s about %s that says %q", warnings, c.code, c.tool, c.says)
			}
		})
	}
}

func TestConfigOverrideKeepsWhatItDoesNotName(t *testing.T) {
	base, _ := ParseConfig([]byte(`{"max_search_limit": 40, "search_default_limit": 30, "listing": "off", "defer": ["a"], "ranking": "reference"}`))
	got, warnings := base.With([]byte(`{"max_search_limit": 10, "threshold_pct": "x", "near_matches": false}`))
	want := base
	want.MaxSearchLimit, want.SearchDefaultLimit, want.NearMatches = 10, 10, Off
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(warnings) != 1 {
		t.Errorf("warnings %v, want one about threshold_pct", warnings)
	}
	if got, _ := base.With([]byte(`false`)); got.Enabled != Off || got.ListingMaxTokens != base.ListingMaxTokens {
		t.Errorf("false gives %+v", got)
	}
	if got, _ := base.With(nil); !cmp.Equal(got, base) {
		t.Errorf("no override gives %+v", got)
	}
}

func TestZeroConfigIsTheDefault(t *testing.T) {
	parsed, _ := ParseConfig(nil)
	if diff := cmp.Diff(parsed, Config{}.effective()); diff != "" {
		t.Error(diff)
	}
	if got := (Config{}).ListingBudget(0); got != 4000 {
		t.Errorf("budget %d", got)
	}
	if parsed.Ranking != index.Standard {
		t.Errorf("ranking %v", parsed.Ranking)
	}
	zero, _ := ParseConfig([]byte(`{"threshold_pct":0}`))
	if got := zero.ListingBudget(200000); got != 0 {
		t.Errorf("a threshold of 0 leaves a budget of %d", got)
	}
}

func TestConfigSurvivesJSON(t *testing.T) {
	for _, in := range []string{`null`, `{"threshold_pct":0}`, `{"defer":[],"ranking":"reference","near_matches":"off"}`, `{"defer":["<a&b>","é"],"threshold_pct":33.3,"enabled":"off","listing":"on"}`} {
		c, _ := ParseConfig([]byte(in))
		raw, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		back, warnings := ParseConfig(raw)
		if diff := cmp.Diff(c, back); diff != "" || len(warnings) > 0 {
			t.Errorf("%s: %s %v", raw, diff, warnings)
		}
	}
}

func TestConnectorsAreEnabledUnlessSwitchedOff(t *testing.T) {
	for in, want := range map[string]bool{
		``: true, `null`: true, `true`: true, `false`: false, `{}`: true, `{"enabled":true}`: true, `{"enabled":false}`: false,
		`{"enabled":"no"}`: false, `{"enabled":"OFF"}`: false, `{"enabled":""}`: false, `{"enabled":"0"}`: false, `{"enabled":"whatever"}`: true,
		`{"enabled":0}`: false, `{"enabled":0.0}`: false, `{"enabled":2}`: true, `{"enabled":[]}`: true, `{"enabled":null}`: true, `[]`: true, `"off"`: true, `{`: true,
	} {
		if got, _ := ParseConnectors([]byte(in)); got != want {
			t.Errorf("connectors: %s gives %v, want %v", in, got, want)
		}
	}
}
