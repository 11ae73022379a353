package subjects

// Grant is what a session may see and call; written by orchestrators only.
// Absent lists mean all, empty ones nothing.
type Grant struct {
	User      string    `json:"user,omitempty"`
	Toolsets  *[]string `json:"toolsets,omitempty"` // globs
	Tools     *[]string `json:"tools,omitempty"`    // globs
	Deny      []string  `json:"deny,omitempty"`     // globs
	Approval  string    `json:"approval,omitempty"` // ask, auto, deny
	Parent    string    `json:"parent,omitempty"`   // session whose grant bounds this one
	ExpiresAt string    `json:"expires_at,omitempty"`
}

// Values of Grant.Approval.
const (
	GrantAsk  = "ask"
	GrantAuto = "auto" // replaces the configured default; rules and Deny still win
	GrantDeny = "deny"
)
