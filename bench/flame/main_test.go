package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFlame(t *testing.T) {
	const script = `valkey-server 1 2: 1 cpu-clock:
	    7f01 lpFind+0x10 (/lib/valkey-server)
	    7f02 VM_HashGet+0x1 (/lib/valkey-server)
	    7f03 read_row.isra.0+0x2 (/lib/emq.so)
	    7f04 run+0x2 (/lib/emq.so)
	    7f05 ValkeyModuleCommandDispatcher+0x2 (/lib/valkey-server)
	    7f06 call+0x2 (/lib/valkey-server)

valkey-server 1 2: 1 cpu-clock:
	    7f01 emq/commands.Decide+0x10 (/lib/emq.so)
	    7f02 runtime.cgocallback.abi0+0x1 (/lib/emq.so)

valkey-server 1 2: 1 cpu-clock:
	    7f01 epoll_wait+0x10 (/lib/libc.so)

`
	var svg strings.Builder
	require.NoError(t, flame(strings.NewReader(script), &svg))
	for _, box := range []string{"ValkeyModuleCommandDispatcher 100.0 %", "run 100.0 %", "read_row 50.0 %", "lpFind 50.0 %",
		"emqDecide 50.0 %", "emq/commands.Decide 50.0 %"} {
		assert.Contains(t, svg.String(), "<title>"+box+"</title>")
	}
	assert.NotContains(t, svg.String(), "epoll_wait")
	assert.ErrorContains(t, flame(strings.NewReader(""), &svg), "no sample")
}
