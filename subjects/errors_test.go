package subjects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryErrorReplyReadsBackAsItWasSent(t *testing.T) {
	standing := &Decision{ID: "a1", State: ApprovalDenied, Choice: ChoiceDeny, By: "bob", At: "2026-03-02T09:31:07Z"}
	for _, e := range []*Error{
		NewError(CodeUnknownCatalog, "assemble again"),
		{Code: CodeBusy, Message: "too many calls", Retryable: true, RetryAfterMS: 250},
		{Code: CodeAlreadyDecided, Message: "denied by bob", Decision: standing},
		{Code: CodeBadRequest, Message: "é: \"x\"\r\nbad <y>", Path: "toolsets[1]"},
	} {
		body, err := Encode(ErrorReply{Error: e})
		if err != nil {
			t.Fatal(err)
		}
		for name, header := range map[string]map[string][]string{"with headers": e.Header(), "without": nil} {
			if diff := cmp.Diff(e, ErrorFromReply(header, body)); diff != "" {
				t.Errorf("%s %s: %s", e.Code, name, diff)
			}
		}
		for _, v := range e.Header() {
			if strings.ContainsAny(v[0], "\r\n") || len(v[0]) > 256 {
				t.Errorf("header %q", v[0])
			}
		}
	}
}

func TestErrorFromReplyTakesFromTheHeadersWhatTheBodyLacks(t *testing.T) {
	header := func(code, message string) map[string][]string {
		return map[string][]string{HeaderErrorCode: {code}, HeaderError: {message}}
	}
	for name, c := range map[string]struct {
		header map[string][]string
		body   string
		want   *Error
	}{
		"a result":                        {nil, `{"id":"c1","name":"tool_search","is_error":false,"result":{}}`, nil},
		"a result that is an error":       {nil, `{"id":"c1","name":"tool_call","is_error":true,"result":{"error":{"code":"TOOL_NOT_FOUND","message":"x"}}}`, nil},
		"bytes of a blob":                 {nil, "\x00\x01{", nil},
		"empty":                           {nil, "", nil},
		"a tool's own error":              {nil, `{"error":{"code":"E_DISK","message":"full"}}`, nil},
		"another error member":            {nil, `{"error":"text"}`, nil},
		"error null":                      {nil, `{"error":null}`, nil},
		"body alone":                      {nil, `{"error":{"code":"BUSY","message":"later","retryable":true,"retry_after_ms":9}}`, &Error{Code: CodeBusy, Message: "later", Retryable: true, RetryAfterMS: 9}},
		"a code that only the body knows": {header("418", "x"), `{"error":{"code":"NEW_CODE","message":"m"}}`, &Error{Code: "NEW_CODE", Message: "m"}},
		"headers with code":               {header("404", "UNKNOWN_CALL: no such call"), "", &Error{Code: CodeUnknownCall, Message: "no such call"}},
		"headers, body not JSON":          {header("429", "slow down"), "<html>", &Error{Code: CodeBusy, Message: "slow down", Retryable: true}},
		"headers with number only":        {header("403", ""), "", &Error{Code: CodeForbidden, Message: "the reply has status 403 and no message"}},
		"unknown client error":            {header("404", "gone"), "{}", &Error{Code: CodeBadRequest, Message: "gone"}},
		"unknown server error":            {header("502", "bad"), "{}", &Error{Code: CodeInternal, Message: "bad", Retryable: true}},
		"no responders":                   {map[string][]string{"Status": {"503"}}, "", &Error{Code: CodeUnavailable, Message: "nobody answers on this subject", Retryable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ErrorFromReply(c.header, []byte(c.body))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzErrorFromReply(f *testing.F) {
	f.Add("404", "UNKNOWN_CALL: x", []byte(`{"error":{"code":"BUSY","message":"m"}}`))
	f.Add("", "", []byte(`{"error":{"decision":{"id":1}}}`))
	f.Fuzz(func(t *testing.T, status, message string, body []byte) {
		e := ErrorFromReply(map[string][]string{HeaderErrorCode: {status}, HeaderError: {message}}, body)
		if (e == nil) && status != "" {
			t.Fatal("the code header was not heeded")
		}
		if e != nil && e.Code == "" {
			t.Fatal("an error without a code")
		}
	})
}

func TestErrorOfTellsTheRequesterWhatConcernsThem(t *testing.T) {
	_, token := Space{}.Parse("toolbridge.v1.acme.s 1.bridge")
	message := Decode([]byte(`{"toolsets":7}`), new(AssembleRequest))
	own := NewError(CodeTooLarge, "big")
	for name, c := range map[string]struct {
		err  error
		code Code
		part string
		path string
	}{
		"own":      {fmt.Errorf("a: %w", own), CodeTooLarge, "big", ""},
		"token":    {token, CodeBadRequest, `session "s 1"`, ""},
		"message":  {fmt.Errorf("b: %w", message), CodeBadRequest, "toolsets: a list is expected", "toolsets"},
		"deadline": {fmt.Errorf("c: %w", context.DeadlineExceeded), CodeDeadlineExceeded, "deadline", ""},
		"others":   {errors.New("password=secret"), CodeInternal, "internal error", ""},
	} {
		got := ErrorOf(c.err)
		if got.Code != c.code || !strings.Contains(got.Message, c.part) || got.Path != c.path || strings.Contains(got.Message, "secret") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if ErrorOf(nil) != nil {
		t.Error("no error became one")
	}
	if !errors.Is(fmt.Errorf("d: %w", own), &Error{Code: CodeTooLarge}) || errors.Is(own, &Error{Code: CodeBusy}) {
		t.Error("errors.Is does not go by the code")
	}
}

func TestEveryCodeOfARequestHasAStatus(t *testing.T) {
	for code, want := range map[Code]int{
		CodeBadRequest: 400, CodeForbidden: 403, CodeUnknownCatalog: 404, CodeUnknownCall: 404, CodeIDReused: 409, CodeTooLarge: 413,
		CodeBusy: 429, CodeInternal: 500, CodeUnavailable: 503, CodeDeadlineExceeded: 504,
		CodeUnknownApproval: 404, CodeAlreadyDecided: 409, CodeArgumentsChanged: 409, CodeExpired: 410, CodeWithdrawn: 410,
		CodeToolNotFound: 0, CodeTooLate: 0, CodeCancelled: 0, "": 0,
	} {
		if got := code.Status(); got != want {
			t.Errorf("%s has the status %d, want %d", code, got, want)
		}
	}
}
