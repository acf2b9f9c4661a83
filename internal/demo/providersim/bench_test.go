package providersim

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// BenchmarkCharge asks over 64 connections, with a client that costs next to nothing: what is measured is the simulator.
func BenchmarkCharge(b *testing.B) {
	w := newWorld(b, Config{})
	addr := strings.TrimPrefix(w.url, "http://")
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		defer conn.Close()
		in := bufio.NewReader(conn)
		for pb.Next() {
			id := uuid.NewString()
			body := `{"reference":"` + id + `","customer_id":"` + id + `","amount":"149.90","currency":"EUR"}`
			_, _ = fmt.Fprintf(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
			line, err := in.ReadString('\n')
			if err != nil || !strings.Contains(line, " 201 ") {
				b.Errorf("answered %q, %v", line, err)
				return
			}
			if err := skipAnswer(in); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
	require.Equal(b, b.N, w.sim.Summary().Charged)
}

// skipAnswer reads past headers and body.
func skipAnswer(in *bufio.Reader) error {
	var length int
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\r\n" {
			break
		}
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			_, _ = fmt.Sscan(value, &length)
		}
	}
	_, err := io.CopyN(io.Discard, in, int64(length))
	return err
}
