package subjects

// StopRequest is the body on …stop. Without a call id it covers every call
// accepted so far.
type StopRequest struct {
	CallID string `json:"call_id,omitempty"`
}

// StopReply answers it.
type StopReply struct {
	Stopped []Stopped `json:"stopped"`
}

// Stopped is what a stop met in one call: entries that will never start, and
// entries that had started, whose result tells what happened.
type Stopped struct {
	CallID      string `json:"call_id"`
	Interrupted []int  `json:"interrupted"`
	InFlight    []int  `json:"in_flight"`
}
