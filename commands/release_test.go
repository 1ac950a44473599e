package commands

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestReleaseFenceAndTypes checks what RELEASE requires of the store: its own four keys matter, dead and meta do not.
func TestReleaseFenceAndTypes(t *testing.T) {
	args := valid(Release)
	jobs := func() *store {
		s := newStore()
		s.put(id, held(nil), KeyActive)
		return s
	}
	for k := KeyPending; k <= KeyMeta; k++ {
		s := jobs()
		s.types[k] = String
		want := ""
		if k == KeyPending || k == KeyActive || k == KeySchedule {
			want = "WRONGTYPE Operation against a key holding the wrong kind of value"
		}
		assert.Equal(t, want, text(s.run(t, Release, args, 1)), k.Suffix())
	}
	s := jobs()
	s.rows[id] = nil
	assert.Contains(t, text(s.run(t, Release, args, 1)), "WRONGTYPE ", "the row")
	s.fence = None
	assert.Equal(t, `EMQFENCE {emq}:version is absent, yet the job's row is there; this executor speaks "echomq:6.0.0"`, text(s.run(t, Release, args, 1)))
	delete(s.rows, id)
	assert.Equal(t, "EMQSTALE job gone", text(s.run(t, Release, args, 1)), "sets alone are not asked")
	s.fence, s.identity = String, "echomq:4.0.0"
	assert.Contains(t, text(s.run(t, Release, args, 1)), "EMQFENCE ")
}
