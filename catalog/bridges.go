package catalog

import "strconv"

// Bounds that the bridges announce and hold.
const (
	// MaxQueries is how many queries one tool_search answers; the hosted route
	// refuses more as well.
	MaxQueries = 7
	// MaxDescribed is how many distinct names one tool_describe answers.
	MaxDescribed = 10
)

// Parameter schemas of the three bridge tools.
const (
	searchParameters = `{"type":"object","properties":{` +
		`"queries":{"type":"array","items":{"type":"string"},"description":"What you want to do, one intent per query, in a few words; 1 to 7 queries. An exact tool name finds that tool."},` +
		`"limit":{"type":"integer","description":"Largest number of matches per query."}},"required":["queries"]}`
	describeParameters = `{"type":"object","properties":{` +
		`"names":{"type":"array","items":{"type":"string"},"description":"Exact tool names from tool_search or the listing; 1 to 10."}},"required":["names"]}`
	callParameters = `{"type":"object","properties":{` +
		`"calls":{"type":"array","description":"The tools to run, at most 10, answered in this order.","items":{"type":"object","properties":{` +
		`"name":{"type":"string","description":"Exact tool name."},` +
		`"arguments":{"type":"object","description":"That tool's own arguments, as tool_describe gives its parameters."}},"required":["name","arguments"]}}},"required":["calls"]}`
)

// Descriptions of tool_describe and tool_call.
const (
	describeText = "Gives the description and the parameter schema of deferred tools by their exact names, without running them. Read a tool's parameters here before you call it for the first time."
	callText     = "Runs deferred tools. Each entry has a tool's exact name and the arguments that its parameters ask for; checks, approvals and results are those of the tool itself. Only for tools that are not in your own tool list: call those directly."
)

// Sentences of tool_search's description.
const (
	searchIntro       = " tools of this session are not shown in your tool list. This finds them: say in each query what you want to do, and get the exact names that fit. Then read the parameters with tool_describe and run the tool with tool_call."
	searchIntroOne    = "1 tool of this session is not shown in your tool list. This finds it: say in a query what you want to do, and get its exact name if it fits. Then read the parameters with tool_describe and run the tool with tool_call."
	searchIntroApps   = "Finds tools of the apps that are or can be connected to this session: say in each query what you want to do, and get the exact names that fit. Then read the parameters with tool_describe and run the tool with tool_call."
	searchIntroNone   = "No further tools can be found here at the moment."
	searchConnected   = " Apps reached through connectors (names beginning connectors__) are searched too; they are neither counted nor listed here"
	searchConnections = searchConnected + ", and " + ManageConnections + " connects one that is missing."
	framingComplete   = " The listing below is complete. For a tool whose name stands there, skip the search and go to tool_describe."
	framingMixed      = " For a tool whose name stands in the listing below, skip the search and go to tool_describe. Sources that show only a number of tools must be searched."
	framingGroups     = " Search first: the listing below gives only the number of tools of each source."
	framingNone       = " Search before you conclude that something can not be done."
)

// searchText is tool_search's description: the number of deferred tools, a
// sentence on connectors where they are granted, and the listing with advice
// that fits its form.
func searchText(deferred int, connections, form, listing string) string {
	text := strconv.Itoa(deferred) + searchIntro
	switch {
	case deferred == 1:
		text = searchIntroOne
	case deferred == 0 && connections != "":
		text = searchIntroApps
	case deferred == 0:
		text = searchIntroNone
	}
	text += connections
	switch {
	case deferred == 0:
	case form == FormFull || form == FormNames:
		text += framingComplete
	case form == FormMixed:
		text += framingMixed
	case form == FormGroups:
		text += framingGroups
	default:
		text += framingNone
	}
	if listing != "" {
		text += "\n\n" + listing
	}
	return text
}

// connectionText is the sentence on connectors, "" where they are not granted.
func (in Input) connectionText(granted bool) string {
	switch {
	case !granted:
		return ""
	case in.ConnectOnly:
		return searchConnected + "."
	}
	return searchConnections
}

// bridges are the three bridge tools in a dialect: tool_search, tool_describe,
// tool_call.
func bridges(to Dialect, search string) [3][]byte {
	return [3][]byte{
		renderTool(to, ToolSearch, search, []byte(searchParameters)),
		renderTool(to, ToolDescribe, describeText, []byte(describeParameters)),
		renderTool(to, ToolCall, callText, []byte(callParameters)),
	}
}
