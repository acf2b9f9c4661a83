package httpprovider

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkCharge is a whole charge over a real socket, against a server that costs next to nothing.
func BenchmarkCharge(b *testing.B) {
	r := request()
	c := client(b, cheapServer(b, charged(r)), func(cfg *Config) { cfg.MaxConns = 64 })
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, err := c.Charge(b.Context(), r); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
}

// BenchmarkReadCharge is the strict decode alone.
func BenchmarkReadCharge(b *testing.B) {
	data := []byte(charged(request()))
	b.ReportAllocs()
	for b.Loop() {
		_, err := chargeOf(data)
		require.NoError(b, err)
	}
}

// cheapServer answers every request alike and looks at nothing but the length of its body.
func cheapServer(b *testing.B, answer string) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	reply := fmt.Appendf(nil, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); skipRequest(in) == nil; {
					_, _ = conn.Write(reply)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func skipRequest(in *bufio.Reader) error {
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
