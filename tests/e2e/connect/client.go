// SPDX-License-Identifier: Apache-2.0
//
// Makes calls with connect-go and the client that Pyroscope's API module generates, which is what Grafana's datasource calls: protobuf and
// JSON, plain and gzipped. usage: client URL. Calls and answers as client.mjs has them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	"github.com/grafana/pyroscope/api/gen/proto/go/settings/v1/settingsv1connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

type call struct {
	Service, Method string
	Request         json.RawMessage
	TimeoutMs       int64
}

type answer struct {
	Message json.RawMessage `json:"message,omitempty"`
	Code    string          `json:"code,omitempty"`
	Error   string          `json:"error,omitempty"`
}

type method func(context.Context, json.RawMessage) (proto.Message, error)

func unary[Req, Res any](f func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error)) method {
	return func(ctx context.Context, raw json.RawMessage) (proto.Message, error) {
		in := new(Req)
		if err := protojson.Unmarshal(raw, any(in).(proto.Message)); err != nil {
			return nil, err
		}
		out, err := f(ctx, connect.NewRequest(in))
		if err != nil {
			return nil, err
		}
		return any(out.Msg).(proto.Message), nil
	}
}

func methods(url string, options ...connect.ClientOption) map[string]method {
	q := querierv1connect.NewQuerierServiceClient(http.DefaultClient, url, options...)
	s := settingsv1connect.NewSettingsServiceClient(http.DefaultClient, url, options...)
	return map[string]method{
		"ProfileTypes":           unary(q.ProfileTypes),
		"LabelNames":             unary(q.LabelNames),
		"LabelValues":            unary(q.LabelValues),
		"Series":                 unary(q.Series),
		"SelectSeries":           unary(q.SelectSeries),
		"SelectMergeStacktraces": unary(q.SelectMergeStacktraces),
		"SelectMergeSpanProfile": unary(q.SelectMergeSpanProfile),
		"SelectMergeProfile":     unary(q.SelectMergeProfile),
		"SelectHeatmap":          unary(q.SelectHeatmap),
		"Diff":                   unary(q.Diff),
		"GetProfileStats":        unary(q.GetProfileStats),
		"AnalyzeQuery":           unary(q.AnalyzeQuery),
		"Get":                    unary(s.Get),
		"Set":                    unary(s.Set),
		"Delete":                 unary(s.Delete),
	}
}

func ask(m method, c call) (answer, error) {
	ctx := context.Background()
	if c.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.TimeoutMs)*time.Millisecond)
		defer cancel()
	}
	out, err := m(ctx, c.Request)
	var refused *connect.Error
	if errors.As(err, &refused) {
		name := strings.ReplaceAll(strings.Title(strings.ReplaceAll(refused.Code().String(), "_", " ")), " ", "")
		return answer{Code: name, Error: refused.Message()}, nil
	}
	if err != nil {
		return answer{}, err
	}
	text, err := protojson.Marshal(out)
	return answer{Message: text}, err
}

func run(url string) error {
	plain, gzip := connect.WithAcceptCompression("gzip", nil, nil), connect.WithSendGzip()
	kinds := map[string]map[string]method{
		"proto":     methods(url, plain),
		"protoGzip": methods(url, gzip),
		"json":      methods(url, plain, connect.WithProtoJSON()),
		"jsonGzip":  methods(url, gzip, connect.WithProtoJSON()),
	}
	var calls []call
	if err := json.NewDecoder(os.Stdin).Decode(&calls); err != nil {
		return err
	}
	answers := []map[string]answer{}
	for _, c := range calls {
		one := map[string]answer{}
		for kind, methods := range kinds {
			a, err := ask(methods[c.Method], c)
			if err != nil {
				return fmt.Errorf("%s as %s: %w", c.Method, kind, err)
			}
			one[kind] = a
		}
		answers = append(answers, one)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
