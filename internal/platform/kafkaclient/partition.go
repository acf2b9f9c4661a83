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
	odd        int // of them: they take no place in the window
	bytes      int64
	from       kafka.Offset // where it begins; OffsetInvalid: not known yet
	taken      int64        // our books say that it was taken up to here; 0: they do not know
	gaps       []gap        // that nobody has looked at yet
	again      int64        // records below this offset may have been handled, and our books do not know of them
	began      int64        // what ConsumerConfig.Careful was told of this; -1: it was not asked
	careful    int64        // records below this offset are suspects: they are handled one at a time
	suspects   int          // of them unfinished, and not acquitted
	after      []*item      // records behind the suspects, which could run but for them
	running    int          // in a handler now
	next       int64        // offset after the last received one
	epoch      int32        // leader epoch of the record before next, or before from while there is no next
	end        int64        // the client has read up to here, past what is no record
	stored     int64        // up to here everything was given to Progress and stored, or is about to be
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
	due    time.Time // zero: at once
	odd    bool      // its due time cannot be right
	bytes  int64     // that it takes in memory
	seq    uint64
	lane   uint64
	keyed  bool
	behind *item // next record of the same key
}

// lonelyLane is the lane of the suspects. A key that happens to hash to it queues up behind them, as it would anyway.
const lonelyLane = 0

func newPartition(id int32) *partition {
	p := &partition{id: id, from: kafka.OffsetInvalid, epoch: noEpoch, began: -1, stalled: -1, lanes: map[uint64]*item{}, parked: map[*item]*time.Timer{}}
	p.stop, p.quit = context.WithCancel(context.Background())
	p.work, p.cut = context.WithCancel(context.Background())
	return p
}

// enqueue notes the record and reports whether it may start: only the first of its key may. Records without a key have
// nobody to wait for. Suspects wait for each other, and what comes after them waits until they are through.
func (p *partition) enqueue(m Message, epoch int32, seed maphash.Seed) (it *item, first bool) {
	it = &item{p: p, msg: m, bytes: m.size(), seq: p.tracker.received(m.Offset, epoch)}
	it.msg.Again = m.Offset < p.again
	p.unfinished++
	p.bytes += it.bytes
	p.next, p.epoch = m.Offset+1, epoch
	busy := false
	switch {
	case m.Offset < p.careful:
		p.suspects++
		it.msg.Alone = true
		busy = p.queue(it, lonelyLane)
	case m.Key != nil:
		busy = p.queue(it, maphash.Bytes(seed, m.Key))
	}
	if !busy && !it.msg.Alone && p.suspects > 0 {
		p.after = append(p.after, it)
		return it, false
	}
	return it, !busy
}

// queue puts the record at the end of the lane and reports whether one is before it.
func (p *partition) queue(it *item, lane uint64) (busy bool) {
	it.keyed, it.lane = true, lane
	last, busy := p.lanes[lane]
	p.lanes[lane] = it
	if busy {
		last.behind = it
	}
	return busy
}

func (p *partition) noteOdd(it *item, n int) {
	if it.odd {
		p.odd += n
	}
}

// waiting is how many messages take a place in the window.
func (p *partition) waiting() int { return p.unfinished - p.odd }

// tail is the offset that the client has read up to beyond the last record, if every record is finished: what lies between,
// transaction markers, aborted, compacted or deleted records, is nobody's work. Else it is 0.
func (p *partition) tail() int64 {
	if p.unfinished > 0 || p.end <= max(p.next, p.stored, int64(p.from)) {
		return 0
	}
	return p.end
}

// finish marks the item done and returns those that may start now: the next of its key, and with the last suspect all that
// waited for that.
func (p *partition) finish(it *item) (next []*item) {
	p.tracker.done(it.seq)
	p.unfinished--
	p.noteOdd(it, -1)
	p.bytes -= it.bytes
	return p.leaveLane(it)
}

// acquit ends the care for a suspect that the process has outlived and that is to be handled again, and returns those that
// may start now. It may have to wait for long, for a person even, and the others must not wait behind it.
func (p *partition) acquit(it *item) (next []*item) {
	if !it.msg.Alone {
		return nil
	}
	next = p.leaveLane(it)
	it.msg.Alone = false
	return next
}

func (p *partition) leaveLane(it *item) (next []*item) {
	if it.keyed && it.behind == nil {
		delete(p.lanes, it.lane)
	}
	if it.behind != nil {
		next = append(next, it.behind)
	}
	it.keyed, it.behind = false, nil
	if it.msg.Alone {
		if p.suspects--; p.suspects == 0 {
			next, p.after = append(next, p.after...), nil
		}
	}
	return next
}
