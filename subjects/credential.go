package subjects

// CredentialRequest is what a worker asks on <prefix>.<tenant>._credentials.<user>:
// the bearer token with which the user's requests go to the gateway. Only workers
// publish there, and only the service that keeps the tokens may subscribe.
type CredentialRequest struct {
	Refused bool `json:"refused,omitempty"` // the gateway has refused the token that was given last
}

// CredentialReply answers it. Without a token the user has no identity at the
// gateway; Error says that it could not be had now.
type CredentialReply struct {
	Token        string `json:"token,omitempty"`
	ExpiresAt    string `json:"expires_at,omitempty"`    // kept until then; 5 minutes when absent
	ManagedTools *bool  `json:"managed_tools,omitempty"` // false: the user may not use connectors
	Error        string `json:"error,omitempty"`
}
