package sim

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"toolbridge/connectors"
)

// User is somebody who has a token.
type User struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	// Accounts are the accounts that the user has at the start. Of an app's
	// accounts the first active one is the one that is used when none is named.
	Accounts []Connected `json:"accounts,omitempty"`
	// DisabledApps and DisabledTools (slugs) are switched off for the user.
	DisabledApps  []string `json:"disabled_apps,omitempty"`
	DisabledTools []string `json:"disabled_tools,omitempty"`
}

// Connected is an account that exists from the start.
type Connected struct {
	Connector string `json:"connector"`
	Alias     string `json:"alias,omitempty"`
	Label     string `json:"label,omitempty"`  // default: from app and user
	Status    string `json:"status,omitempty"` // default active
}

// DefaultUsers are those of a simulator that was given none: dev, who has
// everything but mail and notes, ada with two mail accounts, and grace with none
// at all. Nobody has connected notion.
func DefaultUsers() []User {
	return []User{
		{Name: "dev", Token: "dev-token", Accounts: []Connected{
			{Connector: "github"}, {Connector: "googlecalendar"}, {Connector: "linear"}, {Connector: "slack"},
		}},
		{Name: "ada", Token: "ada-token", Accounts: []Connected{
			{Connector: "gmail", Alias: "work"},
			{Connector: "gmail", Alias: "home", Label: "ada.home@mail.example"},
			{Connector: "googlecalendar"},
			{Connector: "linear"},
			{Connector: "github"},
			{Connector: "bank"},
			{Connector: "slack", Status: StatusExpired},
		}},
		{Name: "grace", Token: "grace-token"},
	}
}

// States of an account.
const (
	StatusPending  = "pending"
	StatusActive   = "active"
	StatusFailed   = "failed"
	StatusRevoked  = "revoked"
	StatusInactive = "inactive"
	StatusExpired  = "expired"
)

var statuses = []string{StatusPending, StatusActive, StatusFailed, StatusRevoked, StatusInactive, StatusExpired}

var (
	userName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	aliasName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
)

// user is a user's state, under the server's lock.
type user struct {
	User
	accounts []*account // oldest first
	keys     map[string]*stored
	next     map[string]int // last number by kind of id
}

// account is an account, or one that is being connected.
type account struct {
	connectors.Account
	Replaces string // connection that ends when this one is made
	ReturnTo string
	Open     bool // its link has not been used yet
}

// id counts up, per user and kind.
func (u *user) id(kind string) string {
	u.next[kind]++
	return fmt.Sprintf("%s_%s_%d", kind, u.Name, u.next[kind])
}

// addUser adds a user, or gives a known one another token and more accounts.
func (s *Server) addUser(in User) (*user, error) {
	if !userName.MatchString(in.Name) || in.Token == "" {
		return nil, errors.New("a user has a name of letters, digits, _ and -, and a token")
	}
	if u := s.tokens[in.Token]; u != nil && u.Name != in.Name {
		return nil, fmt.Errorf("users %s and %s have the same token", u.Name, in.Name)
	}
	for _, c := range in.Accounts {
		if err := s.checkAccount(c); err != nil {
			return nil, err
		}
	}
	u := s.users[in.Name]
	if u == nil {
		u = &user{keys: map[string]*stored{}, next: map[string]int{}}
		s.users[in.Name] = u
	} else {
		delete(s.tokens, u.Token)
	}
	u.User = in
	s.tokens[in.Token] = u
	for _, c := range in.Accounts {
		s.addAccount(u, c)
	}
	return u, nil
}

func (s *Server) checkAccount(c Connected) error {
	if s.shelf.named[c.Connector] == nil {
		return fmt.Errorf("there is no app %q", c.Connector)
	}
	if c.Alias != "" && !aliasName.MatchString(c.Alias) {
		return fmt.Errorf("alias %q: small letters, digits and hyphens, at most 32", c.Alias)
	}
	if c.Status != "" && !slices.Contains(statuses, c.Status) {
		return fmt.Errorf("status %q is none of %v", c.Status, statuses)
	}
	return nil
}

// addAccount adds an account that needs no connecting.
func (s *Server) addAccount(u *user, c Connected) *account {
	a := s.newAccount(u, c.Connector, c.Alias)
	a.Open = false
	if c.Label != "" {
		a.Label = c.Label
	}
	a.Status = StatusActive
	if c.Status != "" {
		a.Status = c.Status
	}
	u.choose(c.Connector)
	return a
}

// newAccount begins one that waits for its link to be opened.
func (s *Server) newAccount(u *user, connector, alias string) *account {
	at := s.now().UTC().Format(time.RFC3339)
	who := u.Name
	if alias != "" {
		who += "-" + alias
	}
	a := &account{Open: true, Account: connectors.Account{
		ConnectionID: u.id("ca"), Connector: connector, Status: StatusPending,
		Label: fmt.Sprintf(s.shelf.named[connector].Label, who), CreatedAt: at, UpdatedAt: at,
	}}
	if alias != "" {
		a.Alias = &alias
	}
	u.accounts = append(u.accounts, a)
	return a
}

func (s *Server) setStatus(u *user, a *account, status string) {
	a.Status = status
	a.UpdatedAt = s.now().UTC().Format(time.RFC3339)
	u.choose(a.Connector)
}

// choose sees to it that an app with active accounts has one that is used by
// default: the one that is, or else the oldest.
func (u *user) choose(connector string) {
	var first *account
	for _, a := range u.accounts {
		if a.Connector != connector {
			continue
		}
		switch usable := a.usable(); {
		case usable && a.Active:
			first = a
		case usable && first == nil:
			first = a
		case !usable:
			a.Active = false
		}
	}
	if first != nil {
		first.Active = true
	}
}

func (a *account) usable() bool {
	return a.Status == StatusActive && !a.Disabled && !a.Retired
}

func (a *account) alias() string {
	if a.Alias == nil {
		return ""
	}
	return *a.Alias
}

func (u *user) account(id string) *account {
	for _, a := range u.accounts {
		if a.ConnectionID == id {
			return a
		}
	}
	return nil
}

// named is the user's account of an app by its alias, a usable one before others;
// retired ones have none.
func (u *user) named(connector, alias string) (found *account) {
	for _, a := range u.accounts {
		if a.Connector == connector && !a.Retired && a.alias() == alias && (found == nil || !found.usable() && a.usable()) {
			found = a
		}
	}
	return found
}

// chosen is the account of an app that is used when none is named.
func (u *user) chosen(connector string) *account {
	for _, a := range u.accounts {
		if a.Connector == connector && a.Active {
			return a
		}
	}
	return nil
}

// broken is the account of an app that should be connected again: the newest that
// is neither usable nor retired.
func (u *user) broken(connector string) *account {
	for _, a := range slices.Backward(u.accounts) {
		if a.Connector == connector && !a.Retired && !a.usable() {
			return a
		}
	}
	return nil
}

// aliases are those of the user's usable accounts of an app.
func (u *user) aliases(connector string) (names []string, count int) {
	for _, a := range u.accounts {
		if a.Connector == connector && a.usable() {
			count++
			if a.Alias != nil {
				names = append(names, *a.Alias)
			}
		}
	}
	return names, count
}
