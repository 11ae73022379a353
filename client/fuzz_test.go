package client

import (
	"testing"

	"toolbridge/subjects"
)

func FuzzUnpack(f *testing.F) {
	packed, err := pack([]byte(`{"tools":{}}`))
	if err != nil {
		f.Fatal(err)
	}
	for _, encoding := range []string{"", subjects.EncodingZstd, subjects.EncodingGzip, "br"} {
		f.Add(encoding, packed)
		f.Add(encoding, []byte{0x1f, 0x8b, 8, 0})
	}
	f.Fuzz(func(t *testing.T, encoding string, data []byte) {
		const limit = 64 << 10
		if body, err := unpack(encoding, data, limit); err == nil && len(body) > limit {
			t.Errorf("%d bytes came out; at most %d may", len(body), limit)
		}
	})
}
