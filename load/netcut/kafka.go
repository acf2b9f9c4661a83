package netcut

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is a link for each broker of a Kafka cluster. The brokers tell their clients where to find the others; those
// answers are rewritten, so that a client finds only links.
type Cluster struct {
	links map[string]*Link // by the broker's own address
	order []*Link
	spoil atomic.Pointer[spoiling]
}

// spoiling is an error that stands in answers to publishes.
type spoiling struct {
	code int16
	left atomic.Int64 // answers
}

// OpenCluster makes a link for each broker, given as host:port.
func OpenCluster(brokers []string) (*Cluster, error) {
	c := &Cluster{links: map[string]*Link{}}
	for _, b := range brokers {
		l, err := open(b, c.dialog)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.links[b] = l
		c.order = append(c.order, l)
	}
	return c, nil
}

// Links are those of the brokers, in their order.
func (c *Cluster) Links() []*Link { return c.order }

// Close ends all of them.
func (c *Cluster) Close() {
	for _, l := range c.order {
		l.Close()
	}
}

const maxFrame = 64 << 20

// asked is what a request's answer is read by.
type asked struct{ key, version int16 }

// dialog remembers what was asked, and rewrites the answers that name brokers.
func (c *Cluster) dialog() dialog {
	var mu sync.Mutex
	open := map[int32]asked{}
	request := func(r io.Reader) ([]byte, error) {
		frame, err := readFrame(r, 12)
		if err != nil {
			return nil, err
		}
		h := kbin.Reader{Src: frame[4:]}
		a := asked{key: h.Int16(), version: h.Int16()}
		mu.Lock()
		open[h.Int32()] = a
		mu.Unlock()
		return frame, nil
	}
	answer := func(r io.Reader) ([]byte, error) {
		frame, err := readFrame(r, 8)
		if err != nil {
			return nil, err
		}
		id := int32(binary.BigEndian.Uint32(frame[4:]))
		mu.Lock()
		a, known := open[id]
		delete(open, id)
		mu.Unlock()
		if !known {
			return frame, nil
		}
		return c.rewrite(frame, a)
	}
	return dialog{request, answer}
}

// readFrame reads one message of the protocol, its length included.
func readFrame(r io.Reader, least int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n+4 < least || n > maxFrame {
		return nil, fmt.Errorf("netcut: a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// rewrite puts the links' addresses in the place of the brokers'.
func (c *Cluster) rewrite(frame []byte, a asked) ([]byte, error) {
	if !c.rewrites(kmsg.Key(a.key)) {
		return frame, nil
	}
	answer := kmsg.ResponseForKey(a.key)
	answer.SetVersion(a.version)
	body := kbin.Reader{Src: frame[8:]}
	if answer.IsFlexible() {
		kmsg.SkipTags(&body)
	}
	if err := answer.ReadFrom(body.Src); err != nil {
		return nil, fmt.Errorf("netcut: answer to %s: %w", kmsg.NameForKey(a.key), err)
	}
	c.replace(answer)
	out := append(make([]byte, 4, len(frame)+64), frame[4:8]...)
	if answer.IsFlexible() {
		out = append(out, 0) // no tags in the header
	}
	out = answer.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// rewrites reports whether answers to such a request are to be changed.
func (c *Cluster) rewrites(k kmsg.Key) bool {
	switch k {
	case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster:
		return true
	case kmsg.Produce:
		s := c.spoil.Load()
		return s != nil && s.left.Add(-1) >= 0
	}
	return false
}

// SpoilPublishes puts an error, by Kafka's name for it, into the answers to the next publishes. What was published is there all
// the same: a client that believes the error publishes again. An empty name ends that.
func (c *Cluster) SpoilPublishes(name string, answers int) error {
	if name == "" {
		c.spoil.Store(nil)
		return nil
	}
	for code := range int16(200) {
		if err, ok := errors.AsType[*kerr.Error](kerr.ErrorForCode(code)); ok && err.Message == name && err.Code == code {
			s := &spoiling{code: code}
			s.left.Store(int64(answers))
			c.spoil.Store(s)
			return nil
		}
	}
	return fmt.Errorf("netcut: Kafka knows no error %q", name)
}

func (c *Cluster) replace(answer kmsg.Response) {
	switch m := answer.(type) {
	case *kmsg.MetadataResponse:
		for i := range m.Brokers {
			c.redirect(&m.Brokers[i].Host, &m.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		c.redirect(&m.Host, &m.Port)
		for i := range m.Coordinators {
			c.redirect(&m.Coordinators[i].Host, &m.Coordinators[i].Port)
		}
	case *kmsg.ProduceResponse:
		if s := c.spoil.Load(); s != nil {
			for _, t := range m.Topics {
				for i := range t.Partitions {
					t.Partitions[i].ErrorCode = s.code
				}
			}
		}
	case *kmsg.DescribeClusterResponse:
		for i := range m.Brokers {
			c.redirect(&m.Brokers[i].Host, &m.Brokers[i].Port)
		}
	}
}

// redirect leaves addresses alone that are no broker's: an answer with an error has an empty one.
func (c *Cluster) redirect(host *string, port *int32) {
	link, ok := c.links[net.JoinHostPort(*host, strconv.Itoa(int(*port)))]
	if !ok {
		return
	}
	at, err := netip.ParseAddrPort(link.Addr)
	if err != nil {
		return // a link's address is one
	}
	*host, *port = at.Addr().String(), int32(at.Port())
}
