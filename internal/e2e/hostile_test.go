package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/billing/internal/failure"
)

// strangers is a text that must reach no log, no label and no terminal as it is.
const strangers = "stranger\x1b[2J\u009b31m\u202e\"}\n{\"level\":\"ERROR\"} \x00\xff"

// TestHostileWorld throws the lot at one instance: records at the limits of what a broker takes, a provider that answers
// anything but an answer, callers that never finish. Good orders are charged all the while, each once; afterwards memory,
// files and goroutines are as before.
func TestHostileWorld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.start()
	first := w.newOrders(50)
	w.produce(first...)
	w.awaitCharged(first...)
	before := i.weigh()

	hangUp := i.holdOn(150)
	charged := append(first, w.hostileRecords()...)
	charged = append(charged, w.hostileAnswers()...)
	w.forgedLetters(i)
	i.knocks()
	last := w.newOrders(50)
	w.produce(last...)
	w.awaitCharged(last...)
	hangUp()

	w.settled()
	w.chargedOnce(append(charged, last...)...)
	i.harmlessLabels()
	w.await(func() bool {
		now := i.weigh()
		return now.goroutines < before.goroutines+100 && now.files < before.files+60
	}, "goroutines and files are as before")
	after := i.weigh()
	t.Logf("before %+v, after %+v", before, after)
	if !raceDetector { // which takes several times as much
		require.Less(t, after.memoryMB, 200)
	}
	i.stop()
	require.NotContains(t, i.log.text(), "stranger")
}

// hostileRecords are orders in records that no producer should make. Each fails once, and so travels through a retry topic.
func (w *world) hostileRecords() (charged []order) {
	w.t.Helper()
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	many := func(n int, h kgo.RecordHeader) (hs []kgo.RecordHeader) {
		for range n {
			hs = append(hs, h)
		}
		return append(hs, header("tenant", "blue"))
	}
	ours := []kgo.RecordHeader{}
	for _, key := range []string{"x-retry-attempt", "x-not-before", "x-first-failure-at", "x-original-timestamp", "x-retry-waits", "x-error", "x-error-class", "x-error-reason", "x-parked-body", "traceparent"} {
		ours = append(ours, header(key, strings.Repeat("9", 1000)), header(key, strings.Repeat("z", 50_000)), header(key, strangers))
	}
	key := []byte("one key for all of them")
	for name, change := range map[string]func(*kgo.Record){
		"10,000 headers":        func(r *kgo.Record) { r.Headers = many(10_000, header("h", "0123456789")) },
		"300,000 empty headers": func(r *kgo.Record) { r.Headers = many(300_000, kgo.RecordHeader{}) },
		"one header of 900 KB":  func(r *kgo.Record) { r.Headers = many(1, header("h", strings.Repeat("x", 900_000))) },
		"our headers, lying":    func(r *kgo.Record) { r.Headers = append(ours, header("tenant", "blue")) },
		"a key of 500 KB":       func(r *kgo.Record) { r.Key, r.Headers = bytes.Repeat([]byte("k"), 500_000), many(0, header("", "")) },
		"strange names": func(r *kgo.Record) {
			r.Key, r.Headers = []byte(strangers), append([]kgo.RecordHeader{header(strangers, strangers)}, header("tenant", "blue"))
		},
		"a note of 900 KB": func(r *kgo.Record) {
			r.Value = bytes.Replace(r.Value, []byte(marker), bytes.Repeat([]byte("x"), 900_000), 1)
			r.Headers = many(0, header("", ""))
		},
		"a number of 900,000 digits": func(r *kgo.Record) {
			r.Value = bytes.Replace(r.Value, []byte(`"note"`), []byte(`"n":`+strings.Repeat("7", 900_000)+`,"note"`), 1)
			r.Headers = many(0, header("", ""))
		},
	} {
		o := w.newOrder()
		w.provider.script(o, refuses(500, ""))
		r := o.record(w.main)
		r.Key = key // those of one key wait for each other, and only within a topic
		change(r)
		w.kafka.Produce(r)
		w.awaitCharged(o)
		retried := w.tail.ofValue(w.tiers[0], r.Value)
		require.NotNil(w.t, retried, name)
		require.Equal(w.t, r.Key, retried.Key, name)
		require.Len(w.t, w.provider.requestsOf(o), 2, name)
		size, tenants := 0, 0
		for _, h := range retried.Headers {
			size += len(h.Key) + len(h.Value)
			if h.Key == "tenant" {
				tenants++
			}
		}
		require.Less(w.t, size, 20<<10, name)
		if !strings.HasSuffix(name, " headers") { // the first ones of many
			require.Equal(w.t, 1, tenants, "%s: a small header travels on, whatever stands before it", name)
		}
		charged = append(charged, o)
	}
	return charged
}

// ofValue is the record of the topic with this value, nil if there is none.
func (tl *tail) ofValue(topic string, value []byte) *kgo.Record {
	for _, r := range tl.all(topic) {
		if bytes.Equal(r.Value, value) {
			return r
		}
	}
	return nil
}

// hostileAnswers moves the money of an order for each answer that is none. The same key then finds the charge.
func (w *world) hostileAnswers() (charged []order) {
	w.t.Helper()
	kilobyte := strings.Repeat("x", 1<<10)
	for name, a := range map[string]answer{
		"body of 10 GiB":    raw("HTTP/1.1 201 Created\r\nContent-Length: 10737418240\r\n\r\n", kilobyte),
		"endless header":    raw("HTTP/1.1 201 Created\r\nX: ", kilobyte),
		"endless hints":     raw("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
		"endless trailer":   raw("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ", kilobyte),
		"another protocol":  raw("SSH-2.0-OpenSSH_9.9 "+strangers+"\r\n", ""),
		"a switch":          raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+"websocket\r\n\r\n", ""),
		"a head, no body":   raw("HTTP/1.1 201 Created\r\nContent-Length: 160\r\n\r\n", ""),
		"a byte at a time":  raw("HTTP/1.1 201 Created\r\nContent-Length: 160\r\n\r\n", " ", 100*time.Millisecond),
		"words of its own":  refuses(500, strangers, "Request-Id", "stranger\x1b[2J", "Retry-After", "-1", "Set-Cookie", "stranger=1"),
		"patience, please":  refuses(503, "", "Retry-After", "1000000000000000"), // waits in the longest tier
		"twice the answer":  twice,
		"an old connection": raw("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", ""),
	} {
		o, other := w.newOrder(), w.newOrder()
		w.provider.script(o, moneyMovesThen(a))
		w.produce(o, other) // one that fares well, so that the failures are no outage
		w.awaitCharged(o, other)
		require.LessOrEqual(w.t, len(w.provider.requestsOf(o)), 3, name)
		charged = append(charged, o, other)
	}
	return charged
}

// raw writes a text, and another one again and again until nobody listens, at intervals if one is given.
func raw(first, again string, every ...time.Duration) answer {
	return func(x *exchange) {
		conn := hijacked(x)
		defer conn.Close()
		_, err := io.WriteString(conn, first)
		for err == nil && again != "" {
			for _, d := range every {
				<-time.After(d)
			}
			_, err = io.WriteString(conn, again)
		}
	}
}

// twice is a good answer, and once more what nobody asked for.
func twice(x *exchange) {
	c, _ := x.p.move(x)
	body := fmt.Sprintf(`{"id":%q,"reference":%q,"amount":%q,"currency":%q,"status":"succeeded","created_at":%q}`, c.ID, c.Reference, c.Amount, c.Currency, c.CreatedAt)
	good := fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\nX-Note: stranger\r\n\r\n%s", len(body), body)
	raw(good+good, "")(x)
}

// forgedLetters writes to the dead-letter topic what anybody could write there.
func (w *world) forgedLetters(i *instance) {
	w.t.Helper()
	known := len(w.tail.all(w.dlq))
	for _, value := range []string{strangers, `{"order_id":"` + w.newOrder().id.String() + `"}`} {
		r := &kgo.Record{Topic: w.dlq, Key: []byte(strangers), Value: []byte(value)}
		for _, key := range []string{"x-error", "x-error-class", "x-error-reason", "x-original-topic", "x-replay-count", "x-retry-attempt", "currency", strangers} {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(strangers)})
		}
		w.kafka.Produce(r)
	}
	for _, l := range i.letters(known + 2)[:2] {
		require.Equal(w.t, "unclassified", l.Reason)
	}
}

// knocks asks for what there is not, in ways that are none.
func (i *instance) knocks() {
	i.w.t.Helper()
	for _, path := range []string{"/admin/" + strings.Repeat("stranger/", 1000), "/admin/dlq?" + strings.Repeat("stranger=1&", 1000), "/admin/orders/stranger%1b%5b2J", "/%00"} {
		status, _ := i.call(http.MethodGet, path, operatorToken, "")
		require.Contains(i.w.t, []int{400, 404}, status)
	}
	status, _ := i.call(http.MethodPost, "/admin/dlq/"+i.w.dlq+"/replay", operatorToken, strings.Repeat("stranger", 1<<18))
	require.Equal(i.w.t, http.StatusRequestEntityTooLarge, status)
	for range 30 {
		status, _ = i.call(http.MethodGet, "/admin/dlq", "stranger-0123456789", "")
		require.Contains(i.w.t, []int{401, 429}, status)
	}
}

// holdOn opens connections to the instance and keeps them in the middle of a request, as often as it is cut off.
func (i *instance) holdOn(n int) (hangUp func()) {
	i.w.t.Helper()
	quit := make(chan struct{})
	ended := make(chan struct{}, n)
	for range n {
		go func() {
			defer func() { ended <- struct{}{} }()
			for {
				conn, err := net.Dial("tcp", i.addr)
				if err == nil {
					_, _ = io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: stranger\r\nX-Slow: ")
					cut := make(chan struct{})
					go func() { defer close(cut); _, _ = io.Copy(io.Discard, conn) }()
					select {
					case <-cut:
					case <-quit:
					}
					_ = conn.Close()
				}
				select {
				case <-quit:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		}()
	}
	return func() {
		close(quit)
		for range n {
			<-ended
		}
	}
}

var labels = regexp.MustCompile(`(\w+)="([^"]*)"`)

// harmlessLabels checks every label of the service's own metrics: reasons of the closed list, topics of its own.
func (i *instance) harmlessLabels() {
	i.w.t.Helper()
	_, text := i.call(http.MethodGet, "/metrics", "", "")
	require.NotContains(i.w.t, string(text), "stranger")
	series := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "billing_") {
			continue
		}
		series++
		for _, label := range labels.FindAllStringSubmatch(line, -1) {
			switch label[1] {
			case "reason":
				pause := strings.HasPrefix(line, "billing_partition_paused") && slices.Contains([]string{"", "full", "waiting"}, label[2])
				require.True(i.w.t, pause || failure.Reason(label[2]).Known(), line)
			case "topic":
				require.True(i.w.t, strings.HasPrefix(label[2], i.w.main), line)
			}
		}
	}
	require.Less(i.w.t, series, 1000)
}

// weight is what the process holds, as its own metrics tell; files and memory only where the system tells them.
type weight struct{ goroutines, files, memoryMB int }

func (i *instance) weigh() weight {
	i.w.t.Helper()
	_, text := i.call(http.MethodGet, "/metrics", "", "")
	figure := func(name string) int {
		_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
		line, _, _ := strings.Cut(rest, "\n")
		n, _ := strconv.ParseFloat(line, 64) // 0: not told
		return int(n)
	}
	w := weight{figure("go_goroutines"), figure("process_open_fds"), figure("process_resident_memory_bytes") >> 20}
	require.Positive(i.w.t, w.goroutines)
	return w
}
