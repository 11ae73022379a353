package arguments

import "testing"

var benchSchema = []byte(`{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},` +
	`"title":{"type":"string","minLength":1},"labels":{"type":"array","items":{"type":"string"}},"milestone":{"type":"integer"}},` +
	`"required":["owner","repo","title"],"additionalProperties":false}`)

func BenchmarkNormalizeOneEntry(b *testing.B) {
	input := []byte(`{"calls":[{"name":"mcp__github__create_issue","arguments":{"owner":"o","repo":"r","title":"A title of some length","labels":["bug","ui"],"milestone":7}}]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(input)))
	for b.Loop() {
		if _, refusal := Normalize(input, NormalizeOptions{}); refusal != nil {
			b.Fatal(refusal)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchSchema)))
	for b.Loop() {
		if s := Compile(benchSchema); !s.Enforced() {
			b.Fatal(s.Notes())
		}
	}
}

func BenchmarkRepair(b *testing.B) {
	s := Compile(benchSchema)
	for name, input := range map[string]string{
		"valid":    `{"owner":"o","repo":"r","title":"A title of some length","labels":["bug","ui"],"milestone":7}`,
		"repaired": `{"owner":"o","repo":"r","title":"A title of some length","labels":"[\"bug\",\"ui\"]","milestone":"7"}`,
		"refused":  `{"owner":"o","repo":"r","title":"","labels":["bug","ui"],"milestone":"seven"}`,
	} {
		b.Run(name, func(b *testing.B) {
			arguments := []byte(input)
			b.ReportAllocs()
			for b.Loop() {
				if _, invalid := s.Repair(arguments); (invalid != nil) != (name == "refused") {
					b.Fatal(invalid)
				}
			}
		})
	}
}
