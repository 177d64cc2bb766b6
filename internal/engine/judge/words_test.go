package judge_test

import (
	"fmt"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

func TestStems(t *testing.T) {
	for text, want := range map[string]string{
		"Fills in PDF-forms, fillForm & form_filling": "[fill pdf form fill form form fill]",
		"planning planned plans plan":                 "[plan plan plan plan]",
		"Can you please help me with this?":           "[]",
		"creates creating creation creator":           "[creat creat creat creat]",
		"report reporting reports":                    "[report report report]",
		"数据 análisis 42":                              "[数据 análisi 42]",
		"":                                            "[]",
	} {
		if got := fmt.Sprint(judge.Stems(text)); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
