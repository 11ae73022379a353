package worker

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"toolbridge/subjects"
)

// packing compresses and expands bodies. Making a zstd coder costs far more than
// using one, so they are kept.
type packing struct {
	encoder  *zstd.Encoder // EncodeAll may be called by several at once
	decoders sync.Pool
}

func newPacking() (*packing, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(maxBuilding), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("preparing compression: %w", err)
	}
	return &packing{encoder: e}, nil
}

// maxWindow bounds what one zstd frame may make a decoder hold.
const maxWindow = 16 << 20

var errTooLarge = errors.New("too large")

// pack compresses a body as zstd or gzip.
func (p *packing) pack(encoding string, body []byte) ([]byte, error) {
	if encoding == subjects.EncodingZstd {
		return p.encoder.EncodeAll(body, make([]byte, 0, len(body)/4)), nil
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	err := z.Close()
	return buf.Bytes(), err
}

// unzstd decodes as a stream, so that a frame's promised size allocates nothing.
func (p *packing) unzstd(data []byte, limit int64) ([]byte, error) {
	d, ok := p.decoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
			return nil, err
		}
	}
	if err := d.Reset(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	body, err := readBounded(d, limit)
	if resetErr := d.Reset(nil); resetErr == nil { // hold no request's bytes
		p.decoders.Put(d)
	}
	return body, err
}

func gunzip(data []byte, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return readBounded(z, limit)
}

func readBounded(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, errTooLarge
	}
	return body, nil
}
