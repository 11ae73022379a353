package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"toolbridge/connectors"
)

// guest is what a key has created.
type guest struct {
	body  []byte
	reply connectors.GuestReply
}

// createGuest makes an identity for somebody who has none, and a user of its name.
// The same key gives the same identity; another key another one, and its creation
// is an effect of its own.
func (s *Server) createGuest(v *visit) answer {
	if s.cfg.NoGuests {
		return problem(http.StatusForbidden, "GUESTS_NOT_ALLOWED", "guest identities are not given out")
	}
	if v.key == "" {
		return problem(http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED", "header "+connectors.HeaderIdempotencyKey+" is missing")
	}
	if before := s.guests[v.key]; before != nil {
		if !bytes.Equal(before.body, v.body) {
			return problem(http.StatusConflict, "IDEMPOTENCY_CONFLICT", "the key was used with another body")
		}
		return ok(before.reply)
	}
	var q connectors.GuestRequest
	if err := json.Unmarshal(v.body, &q); err != nil || q.Tenant == "" || q.User == "" {
		return problem(http.StatusBadRequest, "INVALID_REQUEST", "a guest has a tenant and a user")
	}
	id := fmt.Sprintf("guest-%d", len(s.guests)+1)
	u, err := s.addUser(User{Name: id, Token: "token-of-" + id})
	if err != nil {
		return problem(http.StatusConflict, "IDENTITY_EXISTS", err.Error())
	}
	reply := connectors.GuestReply{Identity: id, Token: u.Token}
	s.guests[v.key] = &guest{body: v.body, reply: reply}
	s.record.effect(Effect{Request: v.note.Seq, Kind: EffectGuest, User: id, Key: v.key, Arguments: encode(q)}, s.now())
	return ok(reply)
}
