package state

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The API subject of a read by the stream's leader; the client library reads KV
// entries by direct get, which any replica may answer.
const leaderGet = "$JS.API.STREAM.MSG.GET."

type leaderReply struct {
	Error *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
	Message *struct {
		Seq    uint64 `json:"seq"`
		Header []byte `json:"hdrs"`
		Data   []byte `json:"data"`
	} `json:"message"`
}

const errCodeNoMessage = 10037

func getFresh(ctx context.Context, nc *nats.Conn, bucket, key string) ([]byte, uint64, error) {
	value, revision, header, err := last(ctx, nc, "KV_"+bucket, "$KV."+bucket+"."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, jetstream.ErrKeyNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s of bucket %s: %w", key, bucket, err)
	}
	gone, err := isMarker(header)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s of bucket %s: %w", key, bucket, err)
	}
	if gone {
		return nil, 0, jetstream.ErrKeyNotFound
	}
	return value, revision, nil
}

// last reads the last message of a subject from the stream's leader.
func last(ctx context.Context, nc *nats.Conn, stream, subject string) (data []byte, seq uint64, header []byte, err error) {
	body, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return nil, 0, nil, err
	}
	msg, err := nc.RequestWithContext(ctx, leaderGet+stream, body)
	if err != nil {
		return nil, 0, nil, err
	}
	var reply leaderReply
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		return nil, 0, nil, err
	}
	switch {
	case reply.Error != nil && reply.Error.ErrCode == errCodeNoMessage:
		return nil, 0, nil, jetstream.ErrMsgNotFound
	case reply.Error != nil:
		return nil, 0, nil, fmt.Errorf("%s (%d)", reply.Error.Description, reply.Error.ErrCode)
	case reply.Message == nil:
		return nil, 0, nil, errors.New("the server sent no message")
	}
	return reply.Message.Data, reply.Message.Seq, reply.Message.Header, nil
}

// isMarker reports whether a stored message's header block says that the key is
// deleted, purged or expired.
func isMarker(header []byte) (bool, error) {
	if len(header) == 0 {
		return false, nil
	}
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(header)))
	if _, err := r.ReadLine(); err != nil { // NATS/1.0
		return false, errors.New("the header block is broken")
	}
	h, err := r.ReadMIMEHeader()
	if err != nil {
		return false, errors.New("the header block is broken")
	}
	return h.Get("KV-Operation") != "" || h.Get(jetstream.MarkerReasonHeader) != "", nil
}
