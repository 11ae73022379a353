package subjects_test

import (
	"errors"
	"fmt"

	"toolbridge/subjects"
)

func ExampleSpace_Parse() {
	var space subjects.Space
	a, err := space.Parse("toolbridge.v1.acme.s-7f3a91.result.01JNAX7211H3K5M7N9P1R3T5V7")
	fmt.Println(a.Tenant, a.Session, a.Verb, a.CallID, err)

	_, err = space.Parse("toolbridge.v1.acme.s 7.bridge")
	var token *subjects.ErrToken
	fmt.Println(errors.As(err, &token), subjects.ErrorOf(err).Code)

	_, err = space.Parse("toolbridge.v1.acme._other.bridge")
	fmt.Println(errors.Is(err, subjects.ErrForeign))
	// Output:
	// acme s-7f3a91 result 01JNAX7211H3K5M7N9P1R3T5V7 <nil>
	// true BAD_REQUEST
	// true
}

func ExampleEncodeToolset() {
	token := subjects.EncodeToolset("mcp-käse & co")
	name, err := subjects.DecodeToolset(token)
	fmt.Println(token)
	fmt.Println(name, err)
	// Output:
	// mcp-k=C3=A4se=20=26=20co
	// mcp-käse & co <nil>
}

func ExampleDecode() {
	var request subjects.BridgeRequest
	err := subjects.Decode([]byte(`{"id":"c1","name":"tool_call","arguments":{"n": 1.50},"catalog":"sha256:…"}`), &request)
	fmt.Println(request.Name, string(request.Arguments), err)

	err = subjects.Decode([]byte(`{"id":"c1","id":"c2"}`), &request)
	fmt.Println(err)
	// Output:
	// tool_call {"n": 1.50} <nil>
	// id: the member stands twice in the same object
}

func ExampleErrorFromReply() {
	busy := &subjects.Error{Code: subjects.CodeBusy, Message: "try again", Retryable: true, RetryAfterMS: 500}
	body, _ := subjects.Encode(subjects.ErrorReply{Error: busy})

	e := subjects.ErrorFromReply(busy.Header(), body)
	fmt.Println(e, e.RetryAfterMS, errors.Is(e, &subjects.Error{Code: subjects.CodeBusy}))
	// Output:
	// BUSY: try again 500 true
}
