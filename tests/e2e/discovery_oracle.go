// SPDX-License-Identifier: Apache-2.0
//
// Prometheus's own service discovery, for test_prometheus_sd.py: reads the *_sd_configs of a job as YAML and prints the targets, with their labels, as
// one line of JSON, whenever they change.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/consul"
	_ "github.com/prometheus/prometheus/discovery/file"
	_ "github.com/prometheus/prometheus/discovery/http"
	_ "github.com/prometheus/prometheus/discovery/kubernetes"
	_ "github.com/prometheus/prometheus/discovery/moby"
	"gopkg.in/yaml.v2"
)

type job struct {
	Configs discovery.Configs `yaml:"-"`
}

func (j *job) UnmarshalYAML(unmarshal func(any) error) error {
	return discovery.UnmarshalYAMLWithInlineConfigs(j, unmarshal)
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	var j job
	if err == nil {
		err = yaml.UnmarshalStrict(text, &j)
	}
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	registry := prometheus.NewRegistry()
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		panic(err)
	}
	m := discovery.NewManager(context.Background(), slog.New(slog.NewTextHandler(os.Stderr, nil)), registry, metrics, discovery.Updatert(50_000_000))
	go m.Run()
	if err := m.ApplyConfig(map[string]discovery.Configs{"job": j.Configs}); err != nil {
		panic(err)
	}
	for groups := range m.SyncCh() {
		targets := []map[string]string{}
		for _, g := range groups["job"] {
			for _, t := range g.Targets {
				all := map[string]string{}
				for k, v := range g.Labels {
					all[string(k)] = string(v)
				}
				for k, v := range t {
					all[string(k)] = string(v)
				}
				for k, v := range all {
					if v == "" {
						delete(all, k)
					}
				}
				targets = append(targets, all)
			}
		}
		sort.Slice(targets, func(a, b int) bool { return fmt.Sprint(targets[a]) < fmt.Sprint(targets[b]) })
		line, _ := json.Marshal(targets)
		fmt.Println(string(line))
	}
}
