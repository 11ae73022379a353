package connectors

import (
	"encoding/json"

	"toolbridge/subjects"
)

// manageParameters is the schema of manage_connections' arguments. It says what
// models should write; ParseManage is more lenient (one name for a list of one)
// and stricter (what may stand with which action).
const manageParameters = `{"type":"object","properties":{` +
	`"action":{"type":"string","enum":["status","connect","reconnect","rename","install","enable","authorize"],"description":"status, connect, reconnect and rename are about hosted apps; install, enable and authorize about MCP servers (mcp: true). Without it: status."},` +
	`"connectors":{"type":"array","description":"Which apps or servers; for status none means all.","items":{"type":"object","properties":{` +
	`"name":{"type":"string","description":"Name of the app or server, e.g. gmail."},` +
	`"mcp":{"type":"boolean","description":"It is an MCP server; for install, enable and authorize."},` +
	`"alias":{"type":"string","description":"Which account of the app: the alias of a further one to connect (a-z, 0-9 and -, at most 32), or the alias or label of the one to reconnect or rename."},` +
	`"to":{"type":"string","description":"The new alias; for rename."}},"required":["name"],"additionalProperties":false}},` +
	`"force":{"type":"boolean","description":"reconnect: start the authorization again even where it stands."}},"additionalProperties":false}`

// Descriptions of manage_connections, by whether its user sees a card.
const (
	manageIntro = "Shows and makes the connections through which tools reach the user's apps. status lists the apps and their accounts; connect starts the authorization of apps, or of a further account under an alias; reconnect repairs a broken one; rename gives an account another alias. install adds an MCP server of the catalog, enable and authorize make a configured one usable. "
	manageCard  = "The user sees a card and acts there; the call returns when they are done, with what is connected. Call it once for all apps that are needed, and not again while it waits."
	manageLink  = "Connecting returns a link for each app: give it to the user, and look with status when they say that they are done."
	manageEnd   = " Accounts can be disconnected by the user only, never from here."
)

// ManageDefinition is the definition of manage_connections for a session on that
// surface, in the plain dialect. A side agent has none: nil.
func ManageDefinition(surface string) json.RawMessage {
	text := manageIntro + manageLink + manageEnd
	switch surface {
	case subjects.SurfaceSide:
		return nil
	case subjects.SurfaceDesktop:
		text = manageIntro + manageCard + manageEnd
	}
	quoted, err := subjects.Encode(text)
	if err != nil {
		return nil // a text can be encoded
	}
	return json.RawMessage(`{"name":"` + ManageName + `","description":` + string(quoted) + `,"parameters":` + manageParameters + `}`)
}

// ManageName is the name of the tool.
const ManageName = "manage_connections"
