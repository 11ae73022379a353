package call

import (
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// inbox receives the answers of all executions over one subscription, since an
// executor may send several messages and a request takes one.
type inbox struct {
	prefix string
	sub    *nats.Subscription

	mu      sync.Mutex
	next    uint64
	waiting map[string]chan *nats.Msg
}

// backlog is how many messages of one execution may wait; what is above is
// dropped, and only interim messages come in numbers.
const backlog = 16

func newInbox(nc *nats.Conn) (*inbox, error) {
	in := &inbox{prefix: nc.NewRespInbox() + ".", waiting: map[string]chan *nats.Msg{}}
	sub, err := nc.Subscribe(in.prefix+"*", in.deliver)
	if err != nil {
		return nil, err
	}
	in.sub = sub
	return in, nil
}

func (in *inbox) deliver(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, in.prefix)
	in.mu.Lock()
	to := in.waiting[token]
	in.mu.Unlock()
	if to == nil {
		return
	}
	select {
	case to <- m:
	default:
		// Make room: a final answer is worth more than an interim one.
		select {
		case <-to:
		default:
		}
		select {
		case to <- m:
		default:
		}
	}
}

// open returns a reply subject and the channel on which its messages come.
func (in *inbox) open() (subject string, messages <-chan *nats.Msg, done func()) {
	c := make(chan *nats.Msg, backlog)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.next++
	token := strconv.FormatUint(in.next, 36)
	in.waiting[token] = c
	return in.prefix + token, c, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.waiting, token)
	}
}
