package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const nodeFolder = "peers/bullmq"

// nodePeers are the peers that run in node; none if their packages are not installed.
func nodePeers() []peer {
	inNode := func(name, module, against string) peer {
		return peer{name: name, client: module + " " + nodeVersion(module), against: against, run: func(ctx context.Context, l load) (figures, error) {
			return runNode(ctx, l, name)
		}}
	}
	if nodeVersion("bullmq") == "" {
		fmt.Fprintln(os.Stderr, "peers: no packages in bench/peers/bullmq (`make bench-peers` installs them), so BullMQ is left out")
		return nil
	}
	return []peer{inNode("EMQ", "ioredis", "BullMQ"), inNode("BullMQ", "bullmq", "")}
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

// runNode has bench.mjs do what the other peers do here, and takes its figures.
func runNode(ctx context.Context, l load, name string) (f figures, err error) {
	node := exec.CommandContext(ctx, "node", "bench.mjs", name, l.Socket,
		strconv.Itoa(l.Jobs), strconv.Itoa(l.WarmUp), strconv.Itoa(l.Workers), strconv.Itoa(l.Payload))
	node.Dir = nodeFolder
	var out bytes.Buffer
	node.Stdout, node.Stderr = &out, os.Stderr
	if err := node.Run(); err != nil {
		return f, err
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return f, fmt.Errorf("%w in %q", err, out.String())
	}
	return f, nil
}
