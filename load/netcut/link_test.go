package netcut

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/demo/broker"
	"example.com/billing/internal/testkit"
)

// echo answers each line with itself, and tells what it was asked.
func echo(t *testing.T) (string, chan string) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	asked := make(chan string, 16)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					asked <- lines.Text()
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String(), asked
}

// talk is a connection through a new link to an echo.
func talk(t *testing.T) (l *Link, conn net.Conn, asked chan string) {
	testkit.NoLeaks(t)
	addr, asked := echo(t)
	l, err := Open(addr)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	conn, err = net.Dial("tcp4", l.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.Equal(t, "hello", ask(t, conn, "hello"))
	require.Equal(t, "hello", <-asked)
	require.Equal(t, 1, l.Connections())
	return l, conn, asked
}

func ask(t *testing.T, conn net.Conn, line string) string {
	_, err := fmt.Fprintln(conn, line)
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(testkit.Patience)))
	answer := make([]byte, len(line))
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
	return string(answer)
}

// silent reports whether no answer comes for a moment.
func silent(t *testing.T, conn net.Conn) bool {
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func TestStallDeliversLate(t *testing.T) {
	l, conn, asked := talk(t)
	require.NoError(t, l.Set(Fault{Kind: Stall}))
	fmt.Fprintln(conn, "late")
	require.True(t, silent(t, conn))
	require.Empty(t, asked)
	require.NoError(t, l.Set(Fault{Kind: None}))
	require.Equal(t, "late", testkit.Receive(t, asked, "the request"))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(testkit.Patience)))
	answer, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "late\n", answer)
}

func TestHalfOpenLosesAnswersOnly(t *testing.T) {
	l, conn, asked := talk(t)
	require.NoError(t, l.Set(Fault{Kind: HalfOpen}))
	fmt.Fprintln(conn, "anybody?")
	require.Equal(t, "anybody?", testkit.Receive(t, asked, "the request"))
	require.True(t, silent(t, conn))
}

func TestRefuseResetsAndRefuses(t *testing.T) {
	l, conn, _ := talk(t)
	require.NoError(t, l.Set(Fault{Kind: Refuse}))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(testkit.Patience)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorContains(t, err, "reset")
	_, err = net.Dial("tcp4", l.Addr)
	require.ErrorContains(t, err, "refused")
	require.NoError(t, l.Set(Fault{Kind: None}))
	again, err := net.Dial("tcp4", l.Addr)
	require.NoError(t, err, "at the same address")
	require.Equal(t, "back", ask(t, again, "back"))
	require.NoError(t, again.Close())
}

func TestCutEndsAfterSomeBytes(t *testing.T) {
	l, conn, asked := talk(t)
	require.NoError(t, l.Set(Fault{Kind: Cut, Bytes: 10}))
	require.Equal(t, "12", ask(t, conn, "12")) // three bytes there and three back
	<-asked
	fmt.Fprintln(conn, "123456")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(testkit.Patience)))
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.Empty(t, asked)
}

func TestDelayDelays(t *testing.T) {
	l, conn, _ := talk(t)
	require.NoError(t, l.Set(Fault{Kind: Delay, Delay: 50 * time.Millisecond}))
	began := time.Now()
	require.Equal(t, "slow", ask(t, conn, "slow"))
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
}

// cluster is a link to a broker with a topic, and a client that knows the link alone.
func cluster(t *testing.T, opts ...kgo.Opt) (*Cluster, *kgo.Client) {
	testkit.NoLeaks(t)
	b, err := broker.Start(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	c, err := OpenCluster([]string{b.Addr})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Links()[0].Addr))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "orders")
	require.NoError(t, err)
	return c, client
}

// A client that knows the link alone never learns of the broker's own address.
func TestKafkaClientsStayOnTheLink(t *testing.T) {
	dialled := make(chan string, 64)
	c, client := cluster(t, kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		dialled <- host
		return new(net.Dialer).DialContext(ctx, network, host)
	}))
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
	_, err := kadm.NewClient(client).FetchOffsets(t.Context(), "nobody") // by way of the coordinator
	require.Error(t, err)
	close(dialled)
	for host := range dialled {
		require.Equal(t, c.Links()[0].Addr, host)
	}
}

// What is published behind a spoilt answer is there, and its client is told that it is not.
func TestSpoiltPublishes(t *testing.T) {
	c, client := cluster(t)
	publish := func() error {
		return client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr()
	}
	require.NoError(t, publish())
	require.NoError(t, c.SpoilPublishes("POLICY_VIOLATION", 1))
	require.ErrorIs(t, publish(), kerr.PolicyViolation)
	require.NoError(t, publish(), "one answer was to be spoilt")
	require.NoError(t, c.SpoilPublishes("POLICY_VIOLATION", 100))
	require.NoError(t, c.SpoilPublishes("", 0))
	require.NoError(t, publish())
	require.ErrorContains(t, c.SpoilPublishes("NO_SUCH_ERROR", 1), "NO_SUCH_ERROR")
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), "orders")
	require.NoError(t, err)
	require.EqualValues(t, 4, ends["orders"][0].Offset)
}
