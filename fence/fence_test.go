package fence_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"emq/fence"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name             string
		exists, isString bool
		value            string
		want             fence.Verdict
	}{
		{"absent", false, false, "", fence.Absent},
		{"ours", true, true, "echomq:6.0.0", fence.Ours},
		{"the scripts' wire", true, true, "echomq:4.0.0", fence.Foreign},
		{"empty string", true, true, "", fence.Foreign},
		{"a prefix of ours", true, true, "echomq:6.0", fence.Foreign},
		{"ours and a line feed", true, true, "echomq:6.0.0\n", fence.Foreign},
		{"other case", true, true, "EchoMQ:6.0.0", fence.Foreign},
		{"no string", true, false, "", fence.Foreign},
		{"no string, with ours as leftover bytes", true, false, "echomq:6.0.0", fence.Foreign},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, fence.Judge(c.exists, c.isString, c.value))
		})
	}
}
