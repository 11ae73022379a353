package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"toolbridge/subjects"
)

// WriteResult writes the whole result of a reply, as JSON: what it carries, or
// the blob that stands in its place.
func (s *Session) WriteResult(ctx context.Context, reply *subjects.BridgeReply, w io.Writer) error {
	if reply.Blob != nil {
		return s.FetchBlob(ctx, *reply.Blob, w)
	}
	if _, err := w.Write(reply.Result); err != nil {
		return fmt.Errorf("writing the result of call %s: %w", reply.ID, err)
	}
	return nil
}

// FetchBlob writes a large result to w, chunk by chunk as it comes, and holds
// its size and hash against what the blob says. When the error is not nil, what
// was written is not the result: throw it away. A blob of which only the name is
// known has Size 0; its name is its hash then.
func (s *Session) FetchBlob(ctx context.Context, blob subjects.Blob, w io.Writer) error {
	fail := func(err error) error { return fmt.Errorf("fetching blob %.70s: %w", blob.Name, err) }
	want := strings.ToLower(blob.SHA256)
	if want == "" {
		want = blob.Name
	}
	if len(want) != hex.EncodedLen(sha256.Size) || strings.Trim(want, "0123456789abcdef") != "" {
		return fail(errors.New("its SHA-256 is needed, 64 hexadecimal digits, to know that it came whole"))
	}
	subject := s.client.cfg.Space.Session(s.tenant, s.name, subjects.VerbFetch)
	sum, offset := sha256.New(), int64(0)
	for blob.Size <= 0 || offset < blob.Size {
		request, err := subjects.Encode(subjects.FetchRequest{Blob: blob.Name, Offset: offset})
		if err != nil {
			return fail(err)
		}
		chunk, err := s.client.requestBytes(ctx, subject, request, s.client.cfg.Timeout)
		if err != nil {
			return fail(err)
		}
		if len(chunk) == 0 {
			break
		}
		offset += int64(len(chunk))
		if blob.Size > 0 && offset > blob.Size {
			break
		}
		_, _ = sum.Write(chunk) // never fails
		if _, err := w.Write(chunk); err != nil {
			return fail(err)
		}
	}
	if blob.Size > 0 && offset != blob.Size {
		return fail(fmt.Errorf("%d bytes came where %d were told", offset, blob.Size))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fail(fmt.Errorf("its %d bytes have the SHA-256 %s, not %s", offset, got, want))
	}
	return nil
}
