package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiguresAreWhatTheServerSaysAtBothEnds(t *testing.T) {
	s := span{
		Seconds: 2, Client: 1.5,
		Before: "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_user_main_thread:9\r\n\r\n" +
			"# Stats\r\ntotal_reads_processed:7\r\ntotal_writes_processed:5\r\neventloop_duration_cmd_sum:1000000\r\n\r\n# Commandstats\r\n" +
			"cmdstat_ping:calls=3,usec=4,usec_per_call=1.33,rejected_calls=0,failed_calls=0\r\n",
		After: "# CPU\r\nused_cpu_sys:2.0\r\nused_cpu_user:3.25\r\n\r\n" +
			"# Stats\r\ntotal_reads_processed:17\r\ntotal_writes_processed:9\r\neventloop_duration_cmd_sum:1500000\r\n\r\n# Commandstats\r\n" +
			"cmdstat_ping:calls=3,usec=4,usec_per_call=1.33,rejected_calls=0,failed_calls=0\r\n" +
			"cmdstat_info:calls=1,usec=90,usec_per_call=90.00,rejected_calls=0,failed_calls=0\r\n" +
			"cmdstat_hset:calls=30,usec=60,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n" +
			"cmdstat_bzpopmin:calls=1,usec=10,usec_per_call=10.00,rejected_calls=0,failed_calls=0\r\n" +
			"cmdstat_evalsha:calls=20,usec=100,usec_per_call=5.00,rejected_calls=0,failed_calls=0\r\n",
	}
	f := s.figure()
	require.Equal(t, figure{
		Seconds: 2, Client: 1.5, CPU: 1.5, Kernel: 0.5, Within: 0.5, Reads: 10, Writes: 4,
		Commands: map[string]command{"hset": {30, 60e-6}, "bzpopmin": {1, 10e-6}, "evalsha": {20, 100e-6}},
	}, f)
	require.Equal(t, "2 EVALSHA × 5.0, 0.1 BZPOPMIN × 10.0", f.sent(10), "and not what the script calls")
	require.Equal(t, "0.01 EVALSHA × 5.0", f.sent(2000), "nor what is hardly ever called")
	both := sum([]figure{f, f})
	require.Equal(t, []float64{4, 3, 3, 1, 1, 20, 8}, []float64{both.Seconds, both.Client, both.CPU, both.Kernel, both.Within, both.Reads, both.Writes})
	require.Equal(t, command{40, 200e-6}, both.Commands["evalsha"])
}

func TestLatenciesAreSummarized(t *testing.T) {
	var micros []float64
	for n := range 101 {
		micros = append(micros, float64(100-n))
	}
	require.Equal(t, latency{101, 50, 95, 99}, summary(micros))
	require.Equal(t, latency{1, 7, 7, 7}, summary([]float64{7}))
}

func TestEachEMQIsSetBesideThePeerOfItsLanguage(t *testing.T) {
	named := func(name, against string) *outcome { return &outcome{Peer: name, peer: peer{against: against}} }
	asynq, bull := named("asynq", ""), named("BullMQ", "")
	bare, whole, node := named("EMQ", "asynq"), named("EMQ", "asynq"), named("EMQ", "BullMQ")
	var got [][2]*outcome
	for ours, theirs := range contests([]*outcome{bare, whole, asynq, node, bull}) {
		got = append(got, [2]*outcome{ours, theirs})
	}
	require.Equal(t, [][2]*outcome{{bare, asynq}, {whole, asynq}, {node, bull}}, got)
}
