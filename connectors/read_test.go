package connectors

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRefusalsAreReadInAllTheirForms(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status int
		header string
		body   string
		want   Failure
	}{
		"object":              {400, "", `{"error":{"code":"BAD","message":"no such thing"}}`, Failure{Kind: KindRefused, Code: "BAD", Message: "no such thing"}},
		"text":                {403, "", `{"error":"no_access"}`, Failure{Kind: KindForbidden, Code: "no_access", Message: "the gateway answered HTTP 403 Forbidden"}},
		"sentence":            {403, "", `{"error":"you may not do this"}`, Failure{Kind: KindForbidden, Code: "HTTP_403", Message: "you may not do this"}},
		"flat":                {429, "", `{"code":"RATE","message":"slow","requestId":"r-1","retryAfterMs":2500}`, Failure{Kind: KindRateLimited, Code: "RATE", Message: "slow", RequestID: "r-1", RetryAfter: 2500 * time.Millisecond}},
		"flat beside text":    {409, "", `{"error":"taken","message":"choose another"}`, Failure{Kind: KindConflict, Code: "taken", Message: "choose another"}},
		"wait in the object":  {503, "", `{"error":{"code":"BUSY","message":"m","retryAfterMs":7}}`, Failure{Kind: KindServer, Code: "BUSY", Message: "m", RetryAfter: 7 * time.Millisecond}},
		"unknown code":        {418, "", `{"error":{"code":"TEAPOT_7","message":"m"}}`, Failure{Kind: KindRefused, Code: "TEAPOT_7", Message: "m"}},
		"HTML":                {502, "", "<html><h1>Bad gateway</h1></html>", Failure{Kind: KindServer, Code: "HTTP_502", Message: "the gateway answered HTTP 502 Bad Gateway"}},
		"empty":               {500, "", "", Failure{Kind: KindServer, Code: "HTTP_500", Message: "the gateway answered HTTP 500 Internal Server Error"}},
		"empty object":        {404, "", "{}", Failure{Kind: KindDark, Code: "HTTP_404", Message: "the gateway answered HTTP 404 Not Found"}},
		"null":                {401, "", "null", Failure{Kind: KindAuth, Code: "HTTP_401", Message: "the gateway answered HTTP 401 Unauthorized"}},
		"array":               {401, "", `[{"code":"X"}]`, Failure{Kind: KindAuth, Code: "HTTP_401", Message: "the gateway answered HTTP 401 Unauthorized"}},
		"wrong types":         {400, "", `{"error":{"code":7,"message":["m"]},"retryAfterMs":"soon"}`, Failure{Kind: KindRefused, Code: "HTTP_400", Message: "the gateway answered HTTP 400 Bad Request"}},
		"first of duplicates": {400, "", `{"error":{"code":"A","code":"B","message":"m"}}`, Failure{Kind: KindRefused, Code: "A", Message: "m"}},
		"broken off":          {400, "", `{"error":{"code":"A","mess`, Failure{Kind: KindRefused, Code: "HTTP_400", Message: "the gateway answered HTTP 400 Bad Request"}},
		"redirect":            {307, "", "", Failure{Kind: KindRefused, Code: "HTTP_307", Message: "the gateway redirects (HTTP 307); redirects are not followed: configure the address that it names"}},
		"odd status":          {799, "", "", Failure{Kind: KindServer, Code: "HTTP_799", Message: "the gateway answered HTTP 799"}},
		"lines":               {400, "", `{"error":{"code":"A\nB","message":"## one\r\n\ttwo\u0000three\u202e"}}`, Failure{Kind: KindRefused, Code: "A B", Message: "## one two three"}},

		"seconds":             {429, "7", `{"retryAfterMs":1}`, Failure{Kind: KindRateLimited, Code: "HTTP_429", RetryAfter: 7 * time.Second}},
		"no seconds":          {429, "0", "", Failure{Kind: KindRateLimited, Code: "HTTP_429"}},
		"a date":              {429, "Mon, 02 Mar 2026 09:00:30 GMT", "", Failure{Kind: KindRateLimited, Code: "HTTP_429", RetryAfter: 30 * time.Second}},
		"a date gone by":      {503, "Mon, 02 Mar 2026 08:00:30 GMT", "", Failure{Kind: KindServer, Code: "HTTP_503"}},
		"nonsense, then ms":   {429, "soon", `{"retryAfterMs":1500.5}`, Failure{Kind: KindRateLimited, Code: "HTTP_429", RetryAfter: 1500500 * time.Microsecond}},
		"neither":             {429, "-4", `{"retryAfterMs":-1}`, Failure{Kind: KindRateLimited, Code: "HTTP_429", RetryAfter: time.Second}},
		"too long":            {429, "1e300", "", Failure{Kind: KindRateLimited, Code: "HTTP_429", RetryAfter: maxRetryAfter}},
		"far too long":        {429, "", `{"retryAfterMs":1e999}`, Failure{Kind: KindRateLimited, Code: "HTTP_429", RetryAfter: maxRetryAfter}},
		"not a number":        {429, "NaN", "", Failure{Kind: KindRateLimited, Code: "HTTP_429", RetryAfter: time.Second}},
		"named without a 429": {400, "3", "", Failure{Kind: KindRefused, Code: "HTTP_400", RetryAfter: 3 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Status = c.status
			got := *refused(attempt{status: c.status, retryAfter: c.header, body: []byte(c.body)}, now)
			if c.want.Message == "" {
				got.Message = ""
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Failure{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessagesOfRefusalsAreBounded(t *testing.T) {
	long, _ := json.Marshal(map[string]string{"code": strings.Repeat("C", 5000), "message": strings.Repeat("ü", 5000)})
	f := refused(attempt{status: 400, body: long}, time.Now())
	if n := utf8.RuneCountInString(f.Message); n != maxMessageChars {
		t.Errorf("the message has %d characters", n)
	}
	if n := utf8.RuneCountInString(f.Code); n != maxCodeChars {
		t.Errorf("the code has %d characters", n)
	}
}

// raw compares raw JSON as text.
var raw = cmp.Transformer("raw", func(r json.RawMessage) string { return string(r) })

func TestResultsAreReadByTheirPlaceEachForItself(t *testing.T) {
	data := func(s string) Result { return Result{Data: json.RawMessage(s)} }
	bad := Result{Malformed: true}
	for name, c := range map[string]struct {
		body string
		want []Result
	}{
		"wrong index":       {`{"results":[{"index":7,"data":1},{"index":0,"data":2}]}`, []Result{data("1"), data("2")}},
		"index no number":   {`{"results":[{"index":"x","data":1},{"data":2}]}`, []Result{data("1"), data("2")}},
		"too few":           {`{"results":[{"data":1}]}`, []Result{data("1"), bad}},
		"too many":          {`{"results":[{"data":1},{"data":2},{"data":3}]}`, []Result{data("1"), data("2")}},
		"none":              {`{}`, []Result{bad, bad}},
		"null":              {`{"results":null}`, []Result{bad, bad}},
		"null data":         {`{"results":[{"data":null},{"data":false}]}`, []Result{data("null"), data("false")}},
		"digits":            {`{"results":[{"data":{"n":12345678901234567890.10,"e":1E+2}},{"data":-0}]}`, []Result{data(`{"n":12345678901234567890.10,"e":1E+2}`), data("-0")}},
		"one is no object":  {`{"results":[7,{"data":2}]}`, []Result{bad, data("2")}},
		"one says nothing":  {`{"results":[{"index":0},{"data":2}]}`, []Result{bad, data("2")}},
		"one twice":         {`{"results":[{"data":1,"data":2},{"data":2}]}`, []Result{bad, data("2")}},
		"twice within data": {`{"results":[{"data":{"a":1,"a":2}},{"data":2}]}`, []Result{data(`{"a":1,"a":2}`), data("2")}},
		"error wins":        {`{"results":[{"data":1,"error":{"code":"X"}},{"data":2,"error":null}]}`, []Result{{Err: &ToolError{Code: "X"}}, data("2")}},
		"unknown code":      {`{"results":[{"error":{"code":"QUOTA_EXCEEDED","message":"m","new":1}},{"data":2}]}`, []Result{{Err: &ToolError{Code: "QUOTA_EXCEEDED", Message: "m"}}, data("2")}},
		"error is a text":   {`{"results":[{"error":"vendor down"},{"error":{}}]}`, []Result{{Err: &ToolError{Code: "PROVIDER_ERROR", Message: "vendor down"}}, {Err: &ToolError{Code: "PROVIDER_ERROR"}}}},
		"error of all":      {`{"results":[{"error":{"code":"CONNECTION_REQUIRED","message":"m","hint":"h","connector":"c","connectUrl":"u","connectionId":"i","retryAfterMs":5},"account":"work"},{"data":2,"account":null}]}`, []Result{{Err: &ToolError{Code: "CONNECTION_REQUIRED", Message: "m", Hint: "h", Connector: "c", ConnectURL: "u", ConnectionID: "i", RetryAfterMS: 5}, Account: "work"}, data("2")}},
		"error types":       {`{"results":[{"error":{"code":["x"],"message":7}},{"data":2,"account":9}]}`, []Result{{Err: &ToolError{Code: "PROVIDER_ERROR"}}, data("2")}},
		"too deep":          {`{"results":[{"data":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `},{"data":2}]}`, []Result{bad, data("2")}},
		"unknown members":   {`{"extra":{"a":1},"results":[{"data":1,"later":2},{"data":2}]}`, []Result{data("1"), data("2")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readExecute([]byte(c.body), 2)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, raw); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAnswerWithoutItsShapeIsMalformed(t *testing.T) {
	for _, body := range []string{"", "<html>", "null", "[]", `"x"`, `{"results":"x"}`, `{"results":{}}`, `{"results":[]}}`, `{"results":[`, `{"results":[],"results":[]}`, `{"results":[]} x`} {
		if got, err := readExecute([]byte(body), 1); err == nil && !(body == "null" && got[0].Malformed) {
			t.Errorf("execute took %q as %v", body, got)
		}
		if _, err := readSearch([]byte(body)); err == nil && body != "null" {
			t.Errorf("search took %q", body)
		}
		if _, err := readMint([]byte(body)); err == nil && body != "null" {
			t.Errorf("mint took %q", body)
		}
	}
}

func TestOneBadItemOfASearchCostsNoOther(t *testing.T) {
	got, err := readSearch([]byte(`{
		"results":[{"index":0,"useCase":"a","tools":["A",7,"B"]},"x",{"tools":"no list","error":"down"}],
		"schemas":{"A":{"connector":"gmail","tool":"A","description":"d","inputSchema":{"type":"object"}},"B":7,
			"C":{"connector":5,"inputSchema":[]},"A":{"connector":"other"},"D":{"connector":"x","tool":"D2"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &SearchReply{
		Results: []SearchGroup{{UseCase: "a", Tools: []string{"A", "B"}}, {Index: 1}, {Index: 2, Error: json.RawMessage(`"down"`)}},
		Schemas: map[string]ToolSchema{
			"A": {Connector: "gmail", Tool: "A", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)},
			"C": {Tool: "C"}, "D": {Connector: "x", Tool: "D2"},
		},
	}
	if diff := cmp.Diff(want, got, raw); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzReadRefusal(f *testing.F) {
	for _, body := range []string{`{"error":{"code":"A","message":"m"}}`, `{"error":"a"}`, `{"code":"A","message":"m","requestId":"r","retryAfterMs":5}`, "<html>", "", `{"error":{"code":"\ud800"}}`, `{"retryAfterMs":1e999}`} {
		f.Add(429, "3", []byte(body))
	}
	f.Add(503, "Mon, 02 Mar 2026 09:00:30 GMT", []byte("{}"))
	f.Fuzz(func(t *testing.T, status int, header string, body []byte) {
		got := refused(attempt{status: status, retryAfter: header, body: body}, time.Unix(1_700_000_000, 0))
		if got.Code == "" || got.Message == "" || got.RetryAfter < 0 || got.RetryAfter > maxRetryAfter {
			t.Fatalf("%+v", got)
		}
		for _, s := range []string{got.Code, got.Message, got.RequestID} {
			if !utf8.ValidString(s) || strings.ContainsAny(s, "\r\n\x00") || utf8.RuneCountInString(s) > maxMessageChars {
				t.Fatalf("%q", s)
			}
		}
		if (status == http.StatusUnauthorized) != (got.Kind == KindAuth) {
			t.Fatalf("status %d is %s", status, got.Kind)
		}
	})
}

func FuzzReadExecute(f *testing.F) {
	for _, body := range []string{`{"results":[{"data":1},{"error":{"code":"X"}}]}`, `{"results":[7,null,{"data":{"a":[1,2,{"b":"\ud800"}]}}]}`, `{}`, `{"results":[{"data":1,"data":2}]}`, "<html>"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := readExecute(body, 3)
		if err != nil {
			return
		}
		if len(got) != 3 {
			t.Fatalf("%d slots", len(got))
		}
		for _, r := range got {
			switch {
			case r.Malformed != (r.Data == nil && r.Err == nil), r.Data != nil && r.Err != nil:
				t.Fatalf("%+v", r)
			case r.Data != nil && (!json.Valid(r.Data) || !bytes.Contains(body, r.Data)):
				t.Fatalf("data %q is not of the answer", r.Data)
			case r.Err != nil && r.Err.Code == "":
				t.Fatalf("an error without a code: %+v", r.Err)
			}
		}
	})
}

func FuzzReadAnswers(f *testing.F) {
	f.Add([]byte(`{"results":[{"index":0,"useCase":"a","tools":["A"]}],"schemas":{"A":{"connector":"c","inputSchema":{}}},"notFound":["B"],"items":[{"connector":"c","connected":true}],"nextCursor":"x","accounts":[{"connectionId":"1","alias":null}]}`))
	f.Add([]byte(`{"results":[{"connector":"c","status":"initiated","connectUrl":"u"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := readSearch(body); err == nil {
			for slug, s := range r.Schemas {
				if s.InputSchema != nil && !json.Valid(s.InputSchema) {
					t.Fatalf("schema of %q: %q", slug, s.InputSchema)
				}
			}
		}
		_, _ = readSchemas(body)
		_, _ = readMint(body)
		if apps, _, err := readPage(body); err == nil {
			for _, a := range apps {
				if a.Connector == "" {
					t.Fatal("an app without a name")
				}
			}
		}
		if accounts, err := readAccounts(body); err == nil {
			for _, a := range accounts {
				if a.ConnectionID == "" {
					t.Fatal("an account without an id")
				}
			}
		}
	})
}
