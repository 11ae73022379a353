package subjects

import "strings"

// Headers of the contract. NATS headers are case-sensitive; the W3C ones are
// lower case.
const (
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
	HeaderBaggage     = "baggage"

	// HeaderKind says what a message from a worker is, one of the Kind
	// constants; a receiver drops what does not fit the subject it subscribed.
	HeaderKind = "Toolbridge-Kind"
	// HeaderDeadline bounds the reply, not the call: unix milliseconds.
	HeaderDeadline = "Toolbridge-Deadline"
	// HeaderStatus with StatusWorking marks an executor's interim message.
	HeaderStatus = "Toolbridge-Status"

	HeaderContentEncoding = "Content-Encoding"
	HeaderAcceptEncoding  = "Accept-Encoding"

	// HeaderErrorCode and HeaderError are those of NATS micro.
	HeaderErrorCode = "Nats-Service-Error-Code"
	HeaderError     = "Nats-Service-Error"
)

// Values of HeaderKind.
const (
	KindReply    = "reply"
	KindResult   = "result"
	KindEvent    = "event"
	KindExec     = "exec"
	KindHook     = "hook"
	KindApproval = "approval"

	KindCredential = "credential"
)

// StatusWorking is the value of HeaderStatus on an interim message.
const StatusWorking = "working"

// Values of the encoding headers.
const (
	EncodingZstd = "zstd"
	EncodingGzip = "gzip"
)

// ReplyPrefixes are the only beginnings of a reply subject that a worker
// answers to unless configured otherwise. A NATS server does not check reply
// subjects, so anything else could aim an answer at another session, a bucket
// or a stream.
func ReplyPrefixes() []string { return []string{"_INBOX.", "_R_."} }

// ReplyAllowed reports whether a reply subject begins with one of the prefixes
// and is a plain subject: no wildcard, no empty token, no white space or control
// character. A prefix should end with a dot: without it, it also allows every
// token that merely begins so.
func ReplyAllowed(reply string, prefixes []string) bool {
	ok := false
	for _, p := range prefixes {
		if p != "" && len(reply) > len(p) && strings.HasPrefix(reply, p) {
			ok = true
			break
		}
	}
	if !ok || strings.HasPrefix(reply, ".") || strings.HasSuffix(reply, ".") || strings.Contains(reply, "..") {
		return false
	}
	for i := range len(reply) {
		if c := reply[i]; c <= ' ' || c == 0x7f || c == '*' || c == '>' {
			return false
		}
	}
	return true
}
