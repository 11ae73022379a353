package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolbridge/client"
	"toolbridge/subjects"
)

// connect stands for a running Toolbridge: a NATS server in this process, where
// one responder knows one tool.
func connect() (*nats.Conn, func()) {
	ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		panic(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(10 * time.Second) {
		panic("the server did not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		panic(err)
	}
	answer := func(m *nats.Msg, body string) {
		_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Data: []byte(body), Header: nats.Header{"Toolbridge-Kind": {"reply"}}})
	}
	_, err = nc.Subscribe("toolbridge.v1.*.*.assemble", func(m *nats.Msg) {
		answer(m, `{"catalog":"sha256:51","activated":true,"tier":1,"deferred_count":1,"tools":[{"name":"tool_search"},{"name":"tool_describe"},{"name":"tool_call"}],"warnings":[]}`)
	})
	if err != nil {
		panic(err)
	}
	_, err = nc.Subscribe("toolbridge.v1.*.*.bridge", func(m *nats.Msg) {
		var r subjects.BridgeRequest
		if err := subjects.Decode(m.Data, &r); err != nil {
			panic(err)
		}
		switch r.Name {
		case "tool_search":
			answer(m, `{"id":"`+r.ID+`","name":"tool_search","is_error":false,"result":{"queries":["add numbers"],"total_available":1,"results":[{"query":"add numbers","matches":["sum"]}],"tools":{"sum":{"source":"plugin","source_name":"maths","description":"Adds two numbers.","required":["a","b"]}}}}`)
		case "tool_call":
			answer(m, `{"id":"`+r.ID+`","name":"tool_call","is_error":false,"result":{"sum":3}}`)
		}
	})
	if err != nil {
		panic(err)
	}
	_, err = nc.Subscribe("toolbridge.v1.*.*.call", func(m *nats.Msg) {
		var r subjects.BridgeRequest
		if err := subjects.Decode(m.Data, &r); err != nil {
			panic(err)
		}
		answer(m, `{"id":"`+r.ID+`","stored":true}`)
	})
	if err != nil {
		panic(err)
	}
	_, err = nc.Subscribe("toolbridge.v1.*.*.fetch", func(m *nats.Msg) {
		answer(m, `{"id":"c1","name":"tool_call","is_error":false,"result":{"sum":3}}`)
	})
	if err != nil {
		panic(err)
	}
	const asked = `{"id":"a1","session":"s1","call_id":"c1","index":0,"tool":"sum","arguments":{"a":1,"b":2},"arguments_json":"{\"a\":1,\"b\":2}","choices":["once","deny"]}`
	_, err = nc.Subscribe("toolbridge.v1.*._approvals.list.*", func(m *nats.Msg) {
		answer(m, `{"approvals":[`+asked+`],"remembered":[]}`)
	})
	if err != nil {
		panic(err)
	}
	_, err = nc.Subscribe("toolbridge.v1.*._approvals.decide.ada", func(m *nats.Msg) {
		answer(m, `{"id":"a1","state":"approved","choice":"once","by":"ada","at":"2026-01-01T00:00:00Z"}`)
	})
	if err != nil {
		panic(err)
	}
	return nc, func() {
		nc.Close()
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}

func Example() {
	nc, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.New(nc, client.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	s, err := c.Session("default", "s1")
	if err != nil {
		panic(err)
	}
	assembly, err := s.Assemble(ctx, subjects.AssembleRequest{
		Tools:   json.RawMessage(`[{"name":"sum","toolset":"maths","description":"Adds two numbers.","parameters":{"type":"object"}}]`),
		Surface: subjects.SurfaceCLI,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("tools for the model:", len(assembly.Tools))

	from := client.Catalog(assembly.Catalog)
	found, err := s.Search(ctx, from, client.SearchArguments{Queries: []string{"add numbers"}})
	if err != nil {
		panic(err)
	}
	name := found.Results[0].Matches[0]
	fmt.Println(name+":", found.Tools[name].Description)

	reply, err := s.Call(ctx, from, name, json.RawMessage(`{"a":1,"b":2}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.IsError, string(reply.Result))
	// Output:
	// tools for the model: 3
	// sum: Adds two numbers.
	// false {"sum":3}
}

func ExampleSession_Serve() {
	nc, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.New(nc, client.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	s, err := c.Session("default", "s1")
	if err != nil {
		panic(err)
	}
	server, err := s.Serve(ctx, client.ServeConfig{}, func(_ context.Context, r subjects.ExecRequest) (json.RawMessage, error) {
		if r.Tool != "sum" {
			return nil, &client.ToolError{Code: "NO_SUCH_TOOL", Message: r.Tool}
		}
		return json.RawMessage(`{"sum":3}`), nil
	})
	if err != nil {
		panic(err)
	}
	defer server.Stop(ctx)

	// What a worker sends when the model calls the session's tool.
	reply, err := nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: "toolbridge.v1.default.s1.exec",
		Data:    []byte(`{"execution_id":"c1.0","session":"s1","tool":"sum","arguments":{"a":1,"b":2}}`),
		Header:  nats.Header{"Toolbridge-Kind": {"exec"}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(reply.Data))
	// Output: {"result":{"sum":3}}
}

func ExampleSession_Bridge() {
	nc, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.New(nc, client.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	s, err := c.Session("default", "s1")
	if err != nil {
		panic(err)
	}
	// Arguments as the model emitted them, here as a JSON string.
	reply, err := s.Bridge(ctx, subjects.BridgeRequest{
		ID: "c7", Name: "tool_call", Catalog: "sha256:51",
		Arguments: json.RawMessage(`"{\"calls\":[{\"name\":\"sum\",\"arguments\":{\"a\":1,\"b\":2}}]}"`),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.ID, string(reply.Result))
	// Output: c7 {"sum":3}
}

func ExampleSession_CallDurable() {
	nc, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.New(nc, client.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	s, err := c.Session("default", "s1")
	if err != nil {
		panic(err)
	}
	id, err := s.CallDurable(ctx, client.Catalog("sha256:51"), "sum", json.RawMessage(`{"a":1,"b":2}`))
	if err != nil {
		panic(err)
	}
	// From here on the call is in good hands; this process may end, and another
	// one fetch the result.
	reply, err := s.Wait(ctx, id)
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.IsError, string(reply.Result))
	// Output: false {"sum":3}
}

func ExampleApprover() {
	nc, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.New(nc, client.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	ada, err := c.Approver("default", "ada")
	if err != nil {
		panic(err)
	}
	list, err := ada.List(ctx, "")
	if err != nil {
		panic(err)
	}
	for _, a := range list.Approvals {
		fmt.Println("may", a.Session, "call", a.Tool, "with", a.ArgumentsJSON)
		decision, err := ada.Decide(ctx, client.Answer(a, subjects.ChoiceOnce, ""))
		if err != nil {
			panic(err)
		}
		fmt.Println(decision.State, "by", decision.By)
	}
	// Output:
	// may s1 call sum with {"a":1,"b":2}
	// approved by ada
}

func ExampleApprover_Watch() {
	nc, stop := connect()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.New(nc, client.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	ada, err := c.Approver("default", "ada")
	if err != nil {
		panic(err)
	}
	news, err := ada.Watch(ctx)
	if err != nil {
		panic(err)
	}
	defer news.Stop()

	// What a worker sends when a call needs a person's word.
	_, err = nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: "toolbridge.v1.default._approvals.requested",
		Data:    []byte(`{"id":"a1","session":"s1","tool":"sum","arguments_json":"{\"a\":1,\"b\":2}"}`),
		Header:  nats.Header{"Toolbridge-Kind": {"approval"}},
	})
	if err != nil {
		panic(err)
	}
	n := <-news.C
	fmt.Println(n.Requested.Tool, n.Requested.ArgumentsJSON)
	// Output: sum {"a":1,"b":2}
}
