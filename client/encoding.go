package client

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// headerRoom is left for headers when a body is held against max_payload, which
// counts both.
const headerRoom = 4 << 10

// maxWindow bounds what one zstd frame may make the decoder hold.
const maxWindow = 16 << 20

// fill puts a request's body into the message, packed when it is large.
func (c *Client) fill(m *nats.Msg, body []byte) error {
	limit := c.nc.MaxPayload()
	fits := func(n int) bool { return limit <= 0 || int64(n)+headerRoom <= limit || n < headerRoom }
	m.Data = body
	if (c.cfg.CompressAbove > 0 && len(body) >= c.cfg.CompressAbove) || !fits(len(body)) {
		packed, err := pack(body)
		if err != nil {
			return fmt.Errorf("request to %s: packing: %w", m.Subject, err)
		}
		if len(packed) < len(body) {
			m.Data = packed
			m.Header[subjects.HeaderContentEncoding] = []string{subjects.EncodingZstd}
		}
	}
	if !fits(len(m.Data)) {
		return fmt.Errorf("request to %s: %w", m.Subject, subjects.NewError(subjects.CodeTooLarge, fmt.Sprintf(
			"the request has %d bytes (%d packed) and the server takes %d: send fewer definitions, name registry toolsets in place of them, or raise the server's max_payload",
			len(body), len(m.Data), limit)))
	}
	return nil
}

func pack(body []byte) ([]byte, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	packed := z.EncodeAll(body, make([]byte, 0, len(body)/4))
	return packed, z.Close()
}

// unpack decodes a body as a stream, so that a promised size allocates nothing,
// and refuses what is larger than limit.
func unpack(encoding string, data []byte, limit int64) ([]byte, error) {
	var from io.Reader
	switch encoding {
	case "":
		if int64(len(data)) > limit {
			return nil, tooLarge(limit)
		}
		return data, nil
	case subjects.EncodingZstd:
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
		defer z.Close()
		from = z
	case subjects.EncodingGzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
		from = z
	default:
		return nil, fmt.Errorf("%s %.40q is not known", subjects.HeaderContentEncoding, encoding)
	}
	body, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("unpacking: the body is cut off: %w", err)
		}
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, tooLarge(limit)
	}
	return body, nil
}

func tooLarge(limit int64) error {
	return subjects.NewError(subjects.CodeTooLarge, fmt.Sprintf("more than %d bytes unpacked", limit))
}
