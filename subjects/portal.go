package subjects

// PortalAction is what a desktop back end wants with a user's accounts.
type PortalAction string

// Actions on …_portal.<user>.
const (
	PortalOpen       PortalAction = "open" // may create the guest identity
	PortalList       PortalAction = "list"
	PortalRename     PortalAction = "rename"
	PortalDisconnect PortalAction = "disconnect"
)

// PortalRequest is the body on …_portal.<user>.
type PortalRequest struct {
	Action  PortalAction `json:"action"`
	Account string       `json:"account,omitempty"` // id: rename, disconnect
	Alias   string       `json:"alias,omitempty"`   // rename: the new name
}

// PortalReply answers it: the accounts as they are afterwards.
type PortalReply struct {
	Identity string    `json:"identity,omitempty"` // open: guest, user
	URL      string    `json:"url,omitempty"`      // open: the accounts page, when there is one
	Accounts []Account `json:"accounts"`
}

// Account is one connected account of a user.
type Account struct {
	ID        string `json:"id"`
	Connector string `json:"connector"`
	Alias     string `json:"alias,omitempty"`
	Label     string `json:"label,omitempty"` // as the provider names it
	Status    string `json:"status"`          // as the portal names it, e.g. active, expired, failed
	Active    bool   `json:"active"`
	Retired   bool   `json:"retired,omitempty"` // can not be renamed
}
