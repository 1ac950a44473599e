package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const nodeFolder = "peers/bullmq"

// nodePeers are the peers that run in node; none if their packages are not installed.
func nodePeers() []peer {
	if nodeVersion("bullmq") == "" {
		fmt.Fprintln(os.Stderr, "peers: no packages in bench/peers/bullmq (`make bench-peers` installs them), so BullMQ is left out")
		return nil
	}
	return []peer{
		{name: "EMQ", client: "ioredis " + nodeVersion("ioredis"), against: "BullMQ", run: nodeRates("verbs")},
		{name: "EMQ", client: "clients/node", against: "BullMQ", run: nodeRates("emq"), latency: nodeLatency("emq")},
		{name: "BullMQ", client: "bullmq " + nodeVersion("bullmq"), run: nodeRates("bullmq"), latency: nodeLatency("bullmq")},
	}
}

func nodeVersion(module string) string {
	b, err := os.ReadFile(filepath.Join(nodeFolder, "node_modules", module, "package.json"))
	if err != nil {
		return ""
	}
	var p struct{ Version string }
	_ = json.Unmarshal(b, &p)
	return p.Version
}

func nodeRates(name string) func(context.Context, load) (figures, error) {
	return func(ctx context.Context, l load) (figures, error) {
		var spans struct{ Enqueue, Process span }
		err := runNode(ctx, l, name, "rates", &spans)
		return figures{spans.Enqueue.figure(), spans.Process.figure()}, err
	}
}

func nodeLatency(name string) func(context.Context, load) (latencies, error) {
	return func(ctx context.Context, l load) (latencies, error) {
		var micros struct{ Waiting, Steady []float64 }
		if err := runNode(ctx, l, name, "latency", &micros); err != nil {
			return latencies{}, err
		}
		return latencies{summary(micros.Waiting), summary(micros.Steady)}, nil
	}
}

// runNode has bench.mjs do what the other peers do here, and takes what it noted.
func runNode(ctx context.Context, l load, name, what string, noted any) error {
	given, err := json.Marshal(l)
	if err != nil {
		return err
	}
	node := exec.CommandContext(ctx, "node", "bench.mjs", name, what, string(given))
	node.Dir = nodeFolder
	var out bytes.Buffer
	node.Stdout, node.Stderr = &out, os.Stderr
	if err := node.Run(); err != nil {
		return err
	}
	if err := json.Unmarshal(out.Bytes(), noted); err != nil {
		return fmt.Errorf("%w in %.1000q", err, out.String())
	}
	return nil
}
