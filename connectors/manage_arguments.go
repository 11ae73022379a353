package connectors

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// Actions of manage_connections. The first four are about hosted apps, the last
// three about MCP servers; one call has targets of one kind.
const (
	ActionStatus    = "status"
	ActionConnect   = "connect"
	ActionReconnect = "reconnect"
	ActionRename    = "rename"
	ActionInstall   = "install"
	ActionEnable    = "enable"
	ActionAuthorize = "authorize"
)

// Bounds of one call's arguments.
const (
	maxTargets    = 50
	maxTargetName = 128 // characters, of names, aliases and labels
)

// ManageRequest is what a call of manage_connections asks for.
type ManageRequest struct {
	Action string
	Hosted []ManageTarget // distinct, in the order written
	MCP    []string       // names of MCP servers, distinct, lower-cased
	Force  bool           // reconnect although connected
}

// ManageTarget is an app, or one account of it.
type ManageTarget struct {
	Name  string // lower-cased
	Alias string // which account; "" when none is named
	To    string // rename: the new alias
}

// Refusal says what is wrong with the arguments of manage_connections, for the
// model.
type Refusal struct {
	Kind    string // one of the Refused constants
	Path    string // of the member that is wrong, "" for the whole
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// Kinds of a Refusal.
const (
	RefusedShape         = "bad_arguments"    // no object, a member twice, not readable
	RefusedAction        = "bad_action"       // no such action
	RefusedList          = "bad_list"         // connectors is no name, object or list
	RefusedField         = "unknown_field"    // a member that has no meaning here
	RefusedName          = "empty_name"       // a target without a name
	RefusedTarget        = "bad_name"         // a name that can not be one
	RefusedAlias         = "bad_alias"        // an alias that can not be one
	RefusedTo            = "to_only_rename"   // a new alias outside of rename
	RefusedManyAliases   = "one_alias"        // several targets, one with an alias
	RefusedMany          = "too_many_targets" // more than 50
	RefusedRename        = "rename_shape"     // rename is not about one account with alias and to
	RefusedHostedMCP     = "managed_action_mcp"
	RefusedMCPAlias      = "mcp_no_alias"
	RefusedMCPHosted     = "mcp_action_managed"
	RefusedMCPNoTargets  = "mcp_action_needs_targets"
	aliasRule            = "1 to 32 characters of a-z, 0-9 and -, the first no -"
	hostedActions        = "status, connect, reconnect and rename"
	serverActions        = "install, enable and authorize"
	disconnectIsTheUsers = "; disconnecting is for the user only, on the accounts page"
)

// alias is the grammar of the aliases that can be given to accounts.
var alias = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// ParseManage reads the arguments of manage_connections. It takes what models
// write: one name or object for a list of one, a number for a name, blanks around
// texts, any case of actions and names. The error is a *Refusal.
func ParseManage(arguments []byte) (ManageRequest, error) {
	members := map[string]json.RawMessage{}
	if subjects.Present(arguments) {
		if err := subjects.Decode(arguments, &members); err != nil {
			return ManageRequest{}, &Refusal{RefusedShape, "", "the arguments are not readable: " + err.Error()}
		}
	}
	for name := range members {
		if name != "action" && name != "connectors" && name != "force" {
			return ManageRequest{}, &Refusal{RefusedField, name, fmt.Sprintf("%.40q is no argument of manage_connections: action, connectors and force are; an app's name stands in connectors", name)}
		}
	}
	q := ManageRequest{}
	var err error
	if q.Action, err = readAction(members["action"]); err != nil {
		return q, err
	}
	targets, err := readTargets(members["connectors"])
	if err != nil {
		return q, err
	}
	q.Force = truthy(members["force"])
	return q, q.take(targets)
}

// StartsServers reports whether a call of manage_connections starts MCP servers on a
// surface whose user is not shown a card first, so that policy must say whether a
// person is asked.
func StartsServers(surface string, arguments []byte) bool {
	q, err := ParseManage(arguments)
	return err == nil && len(q.MCP) > 0 && surface != subjects.SurfaceDesktop
}

// written is one target as the model wrote it.
type written struct {
	ManageTarget
	mcp      bool
	hasAlias bool
	hasTo    bool
	path     string
}

// take checks what may stand with which action.
func (q *ManageRequest) take(targets []written) error {
	server := slices.Contains([]string{ActionInstall, ActionEnable, ActionAuthorize}, q.Action)
	for _, t := range targets {
		switch {
		case t.mcp && (t.hasAlias || t.hasTo):
			return &Refusal{RefusedMCPAlias, t.path, fmt.Sprintf("%q is an MCP server (mcp: true), and servers have no accounts: leave alias and to out", t.Name)}
		case t.hasTo && q.Action != ActionRename:
			return &Refusal{RefusedTo, t.path + ".to", "to is the new alias of an account; it goes with rename only"}
		case t.mcp && !server:
			return &Refusal{RefusedHostedMCP, t.path + ".mcp", fmt.Sprintf("%s are about hosted apps; for the MCP server %q use %s", hostedActions, t.Name, serverActions)}
		case !t.mcp && server:
			return &Refusal{RefusedMCPHosted, t.path, fmt.Sprintf("%s are about MCP servers; write {\"name\": %q, \"mcp\": true} for one, and connect for a hosted app", serverActions, t.Name)}
		}
		if t.hasAlias {
			if err := t.checkAlias(q.Action); err != nil {
				return err
			}
		}
		if t.hasTo && !alias.MatchString(t.To) {
			return &Refusal{RefusedAlias, t.path + ".to", fmt.Sprintf("%.40q can not be an alias: %s", t.To, aliasRule)}
		}
		if t.mcp {
			if !slices.Contains(q.MCP, t.Name) {
				q.MCP = append(q.MCP, t.Name)
			}
			continue
		}
		if !slices.ContainsFunc(q.Hosted, func(have ManageTarget) bool { return have.Name == t.Name && have.Alias == t.Alias && have.To == t.To }) {
			q.Hosted = append(q.Hosted, t.ManageTarget)
		}
	}
	return q.checkCounts(server)
}

func (t written) checkAlias(action string) error {
	free := action != ActionConnect // the others name what is there, and that may be a label
	if t.Alias == "" || !free && !alias.MatchString(t.Alias) {
		return &Refusal{RefusedAlias, t.path + ".alias", fmt.Sprintf("%.40q can not be an alias: %s", t.Alias, aliasRule)}
	}
	if utf8.RuneCountInString(t.Alias) > maxTargetName {
		return &Refusal{RefusedAlias, t.path + ".alias", fmt.Sprintf("an alias or label has at most %d characters", maxTargetName)}
	}
	return nil
}

func (q *ManageRequest) checkCounts(server bool) error {
	named := slices.ContainsFunc(q.Hosted, func(t ManageTarget) bool { return t.Alias != "" })
	switch {
	case server && len(q.MCP) == 0:
		return &Refusal{RefusedMCPNoTargets, "connectors", q.Action + ` needs the MCP servers it is about: "connectors": [{"name": "…", "mcp": true}]`}
	case q.Action == ActionRename:
		if len(q.Hosted) != 1 || q.Hosted[0].Alias == "" || q.Hosted[0].To == "" {
			return &Refusal{RefusedRename, "connectors", `rename is about one account: "connectors": [{"name": "gmail", "alias": "its alias or label now", "to": "the new alias"}]`}
		}
	case len(q.Hosted)+len(q.MCP) > maxTargets:
		return &Refusal{RefusedMany, "connectors", fmt.Sprintf("at most %d apps or servers in one call", maxTargets)}
	case named && len(q.Hosted) > 1 && q.Action != ActionStatus:
		return &Refusal{RefusedManyAliases, "connectors", "an account with an alias is connected alone: one call for each"}
	}
	return nil
}

func readAction(raw json.RawMessage) (string, error) {
	text, ok := textOf(raw)
	switch {
	case empty(raw), ok && text == "":
		return ActionStatus, nil
	case ok && jsontext.Value(raw).Kind() == '"':
		switch a := strings.ToLower(text); a {
		case ActionStatus, ActionConnect, ActionReconnect, ActionRename, ActionInstall, ActionEnable, ActionAuthorize:
			return a, nil
		}
	}
	return "", &Refusal{RefusedAction, "action", fmt.Sprintf("there is no action %.40s: %s are about hosted apps, %s about MCP servers%s", shownValue(raw), hostedActions, serverActions, disconnectIsTheUsers)}
}

func readTargets(raw json.RawMessage) ([]written, error) {
	if !subjects.Present(raw) {
		return nil, nil
	}
	var items []json.RawMessage
	path := func(int) string { return "connectors" }
	switch jsontext.Value(raw).Kind() {
	case '"', '{':
		items = []json.RawMessage{raw}
	case '[':
		if err := subjects.Decode(raw, &items); err != nil {
			return nil, &Refusal{RefusedList, "connectors", "connectors is not readable: " + err.Error()}
		}
		path = func(i int) string { return fmt.Sprintf("connectors[%d]", i) }
	default:
		return nil, &Refusal{RefusedList, "connectors", "connectors is a list of names or of objects with name, not " + shownValue(raw)}
	}
	if len(items) > 4*maxTargets { // before duplicates are known
		return nil, &Refusal{RefusedMany, "connectors", fmt.Sprintf("at most %d apps or servers in one call", maxTargets)}
	}
	var list []written
	for i, item := range items {
		t, err := readTarget(item, path(i))
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func readTarget(raw json.RawMessage, path string) (written, error) {
	t := written{path: path}
	named := raw
	if jsontext.Value(raw).Kind() == '{' {
		members := map[string]json.RawMessage{}
		if err := subjects.Decode(raw, &members); err != nil {
			return t, &Refusal{RefusedShape, path, path + " is not readable: " + err.Error()}
		}
		for name := range members {
			if name != "name" && name != "mcp" && name != "alias" && name != "to" {
				return t, &Refusal{RefusedField, path, fmt.Sprintf("%.40q is no member of a target: name, mcp, alias and to are; addresses and secrets are never given here", name)}
			}
		}
		t.mcp = truthy(members["mcp"])
		var ok bool
		if t.hasAlias = subjects.Present(members["alias"]); t.hasAlias {
			if t.Alias, ok = textOf(members["alias"]); !ok {
				return t, &Refusal{RefusedAlias, path + ".alias", "an alias is a text, not " + shownValue(members["alias"])}
			}
		}
		if t.hasTo = subjects.Present(members["to"]); t.hasTo {
			if t.To, ok = textOf(members["to"]); !ok {
				return t, &Refusal{RefusedAlias, path + ".to", "the new alias is a text, not " + shownValue(members["to"])}
			}
		}
		named = members["name"]
	}
	name, ok := textOf(named)
	switch {
	case empty(named), ok && name == "":
		return t, &Refusal{RefusedName, path, path + " has no name"}
	case !ok:
		return t, &Refusal{RefusedTarget, path, "a name is a text, not " + shownValue(named)}
	case utf8.RuneCountInString(name) > maxTargetName:
		return t, &Refusal{RefusedTarget, path, fmt.Sprintf("a name has at most %d characters", maxTargetName)}
	}
	t.Name = strings.ToLower(name)
	return t, nil
}

// textOf is a text, or a number as it is written, without blanks around it.
func textOf(raw json.RawMessage) (string, bool) {
	switch jsontext.Value(raw).Kind() {
	case '0':
		return strings.TrimSpace(string(raw)), true
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		return strings.TrimSpace(strings.ToValidUTF8(string(text), "�")), err == nil || len(text) > 0
	}
	return "", false
}

// empty reports whether a value says nothing: absent, null or false.
func empty(raw json.RawMessage) bool {
	return !subjects.Present(raw) || string(raw) == "false"
}

// truthy reads a switch as models write it.
func truthy(raw json.RawMessage) bool {
	switch jsontext.Value(raw).Kind() {
	case 't':
		return true
	case '0':
		return strings.Trim(string(raw), "0.-eE+") != ""
	case '"':
		text, _ := textOf(raw)
		switch strings.ToLower(text) {
		case "", "0", "false", "no", "off", "none", "null":
			return false
		}
		return true
	}
	return false
}

func shownValue(raw json.RawMessage) string {
	text := strings.ToValidUTF8(string(raw), "�")
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "…"
	}
	return text
}
