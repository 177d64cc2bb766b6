package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		want   string
	}{
		{
			"a package that passes is one line",
			[]string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: chatter\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.01s\n"}`,
				`{"Action":"pass","Package":"p"}`,
				`{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}`,
				`{"Action":"skip","Package":"q"}`,
			},
			"ok  \tp\t0.01s\n",
		},
		{
			"a test that fails is shown with what it said",
			[]string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: got 1, want 2\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.01s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			"    a_test.go:3: got 1, want 2\n--- FAIL: TestA (0.00s)\nFAIL\tp\t0.01s\n" +
				"FAILED p TestA\n    a_test.go:3: got 1, want 2\n--- FAIL: TestA (0.00s)\n",
		},
		{
			"the summary names a subtest without its parent, and ends with its last lines",
			[]string{
				`{"Action":"output","Package":"p","Test":"TestA/b","Output":"` + strings.Repeat(`line\n`, 30) + `"}`,
				`{"Action":"output","Package":"p","Test":"TestA/b","Output":"    --- FAIL: TestA/b (0.00s)\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/b"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.01s\n"}`,
				`{"Action":"fail","Package":"p"}`,
				`{"Action":"output","Package":"q","Output":"ok  \tq\t0.01s\n"}`,
				`{"Action":"pass","Package":"q"}`,
			},
			strings.Repeat("line\n", 30) + "    --- FAIL: TestA/b (0.00s)\n--- FAIL: TestA (0.00s)\nFAIL\tp\t0.01s\nok  \tq\t0.01s\n" +
				"FAILED p TestA/b\n" + strings.Repeat("line\n", 19) + "    --- FAIL: TestA/b (0.00s)\n",
		},
		{
			"a test that never ended is shown when its package fails",
			[]string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\npanic: out of luck\n` + strings.Repeat(`stack\n`, 30) + `"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			"chatter\npanic: out of luck\n" + strings.Repeat("stack\n", 30) +
				"FAILED p TestA\npanic: out of luck\n" + strings.Repeat("stack\n", 19),
		},
		{
			"what does not compile is shown",
			[]string{
				`{"ImportPath":"p [p.test]","Action":"build-output","Output":"./a.go:1:1: undefined: x\n"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			},
			"./a.go:1:1: undefined: x\nFAIL\tp [build failed]\n" +
				"FAILED p\nFAIL\tp [build failed]\n./a.go:1:1: undefined: x\n",
		},
		{
			"skipped tests come after the rest, by reason and package",
			[]string{
				`{"Action":"output","Package":"q","Test":"TestC/postgres","Output":"    each.go:40: no server\n"}`,
				`{"Action":"output","Package":"q","Test":"TestC/postgres","Output":"--- SKIP: TestC/postgres (0.00s)\n"}`,
				`{"Action":"skip","Package":"q","Test":"TestC/postgres"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"    each.go:40: no server\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    each.go:40: no server\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestD","Output":"--- SKIP: TestD (0.00s)\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestD"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.01s\n"}`,
			},
			"ok  \tp\t0.01s\n" +
				"SKIPPED 1: no reason given\n\tp: TestD\n" +
				"SKIPPED 3: no server\n\tp: TestA, TestB\n\tq: TestC/postgres\n",
		},
		{
			"slow packages come after the rest, the slowest first",
			[]string{
				`{"Action":"pass","Package":"p","Elapsed":19.9}`,
				`{"Action":"pass","Package":"q","Elapsed":20.1}`,
				`{"Action":"pass","Package":"r","Test":"TestA","Elapsed":40}`,
				`{"Action":"pass","Package":"r","Elapsed":41}`,
			},
			"SLOW r: 41 s\nSLOW q: 20 s\n",
		},
		{
			"what is no event passes",
			[]string{"warning: no events here", "{neither is this"},
			"warning: no events here\n{neither is this\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.readAll(strings.NewReader(strings.Join(c.events, "\n") + "\n")); err != nil {
				t.Fatal(err)
			}
			r.printSummary()
			if got := out.String(); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}
