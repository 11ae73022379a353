package client

import (
	"context"
	"fmt"

	"toolbridge/subjects"
)

// AnswerConnection tells what the user did on a connection card, whose operation and
// targets the session's events name (connection.request, connection.update). The
// reply says whether it still counted. Which worker runs the operation does not
// matter.
func (s *Session) AnswerConnection(ctx context.Context, a subjects.ConnectionAnswer) (*subjects.ConnectionAnswerReply, error) {
	body, err := s.Request(ctx, subjects.VerbConnectionAnswer, a)
	if err != nil {
		return nil, fmt.Errorf("answering the card of operation %s: %w", a.Operation, err)
	}
	var reply subjects.ConnectionAnswerReply
	if err := decode(subjects.VerbConnectionAnswer, body, &reply); err != nil {
		return nil, err
	}
	return &reply, nil
}
