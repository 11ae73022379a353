package worker

import "sync"

// maxKeptBuffer is how large a buffer may be to be used again.
const maxKeptBuffer = 64 << 10

// buffers lends byte slices to requests. The zero value is ready.
type buffers struct{ pool sync.Pool }

// lend returns an empty slice with room, which the request gives back once its
// reply has been handed to the connection.
func (b *buffers) lend() *[]byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return p
	}
	p := make([]byte, 0, 8<<10)
	return &p
}

// giveBack takes a slice, as it was used last.
func (b *buffers) giveBack(p *[]byte, used []byte) {
	if cap(used) > maxKeptBuffer {
		return
	}
	*p = used[:0]
	b.pool.Put(p)
}
