package arguments

import "strconv"

// How often the same input may be refused before the answer gets firmer, and
// before it asks the agent to stop.
const (
	FirmerFrom = 3
	HaltFrom   = 5
)

// Wording chooses the answer to the n-th identical refusal in a row, counted from
// 1: the message, later the problem in one short sentence; and whether the agent
// should stop asking. Small models ignore a warning that only grows; they read a
// short one.
func Wording(message, problem string, n int) (string, bool) {
	switch {
	case n >= HaltFrom:
		return "Refused " + strconv.Itoa(n) + " times: " + problem + " Stop calling this and tell the user what failed.", true
	case n >= FirmerFrom:
		return "Refused " + strconv.Itoa(n) + " times, nothing was run: " + problem + " Do not send the same call again.", false
	}
	return message, false
}
