package kafkaclient

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// partition is one assignment of one partition. A revoked partition that comes back is another value, so that late
// results of the old assignment find nobody to tell (they are fenced).
type partition struct {
	id   int32
	stop context.Context // done: take nothing more up, give up what waits
	work context.Context // done: the cut; what is being handled must end
	quit context.CancelFunc
	cut  context.CancelFunc

	// Guarded by Consumer.mu.
	tracker    tracker
	lanes      map[uint64]*item // last item of each key that is unfinished
	parked     map[*item]*time.Timer
	unfinished int
	bytes      int64
	from       kafka.Offset // where it begins; OffsetInvalid: not known yet
	again      int64        // records below this offset were committed, and our books do not know of them
	careful    int64        // records below this offset are handled one at a time
	running    int          // in a handler now
	next       int64        // offset after the last received one
	end        int64        // the client has read up to here, past what is no record
	paused     string       // the reason; empty: not paused
	stalled    int64        // position at which it owes records, see watch.go; -1: none
	nudge      bool         // seek at the next poll, if it still owes
	gone       bool
	idle       chan struct{} // closed when running falls to 0 after the stop; nil before
}

// item is a received record until its fate is durable.
type item struct {
	p      *partition
	msg    Message
	bytes  int64 // that it takes in memory
	seq    uint64
	lane   uint64
	keyed  bool
	behind *item // next record of the same key
}

// lonelyLane is the lane of records that are handled one at a time; a key that happens to hash to it does no harm.
const lonelyLane = 0

func newPartition(id int32) *partition {
	p := &partition{id: id, from: kafka.OffsetInvalid, stalled: -1, lanes: map[uint64]*item{}, parked: map[*item]*time.Timer{}}
	p.stop, p.quit = context.WithCancel(context.Background())
	p.work, p.cut = context.WithCancel(context.Background())
	return p
}

// enqueue notes the record and reports whether it may start: only the first of its key may. Records without a key have
// nobody to wait for, unless the partition is handled carefully.
func (p *partition) enqueue(m Message, seed maphash.Seed) (it *item, first bool) {
	it = &item{p: p, msg: m, bytes: m.size(), seq: p.tracker.received(m.Offset)}
	it.msg.Again = m.Offset < p.again
	p.unfinished++
	p.bytes += it.bytes
	p.next = m.Offset + 1
	_, lonely := p.lanes[lonelyLane]
	switch {
	case m.Offset < p.careful || lonely && p.careful > 0: // one lane for all, until it is empty
		it.msg.Alone, it.keyed, it.lane = true, true, lonelyLane
	case m.Key == nil:
		return it, true
	default:
		it.keyed, it.lane = true, maphash.Bytes(seed, m.Key)
	}
	last, busy := p.lanes[it.lane]
	p.lanes[it.lane] = it
	if busy {
		last.behind = it
	}
	return it, !busy
}

// finish marks the item done and returns the next of its key, if one waits.
func (p *partition) finish(it *item) *item {
	p.tracker.done(it.seq)
	p.unfinished--
	p.bytes -= it.bytes
	if it.keyed && it.behind == nil {
		delete(p.lanes, it.lane)
	}
	return it.behind
}
