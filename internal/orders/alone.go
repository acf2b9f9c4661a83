package orders

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/billing/internal/failure"
	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

const (
	startsUntilCareful = 3 // assignments in a row that begin at one offset, all before the last one ended by a crash
	deathsUntilPoison  = 3 // of a record that was handled alone
	endAloneWait       = time.Second
)

// LonelyStore remembers across the deaths of processes.
type LonelyStore interface {
	Started(ctx context.Context, topic string, partition int32, committed int64) (times int, err error)
	EndedWell(ctx context.Context, topic string, began map[int32]int64) error
	BeginAlone(ctx context.Context, topic string, partition int32, offset int64) (tries int, err error)
	EndAlone(ctx context.Context, topic string, partition int32, offset int64, decided bool) error
}

// PoisonConfig wires a Poison.
type PoisonConfig struct {
	Store  LonelyStore
	Next   kafkaclient.Handler
	Opener Opener
	Router Router
	Window int64 // how far beyond its committed offset a process can have been when it died
}

// Poison finds the message that kills the process, wherever it does so, and lets it end in the dead letters alone: the
// other messages in flight die with it, and must not be blamed for that (hazard H15).
type Poison struct {
	cfg  PoisonConfig
	turn chan struct{} // one lonely message at a time in the process, whatever its partition: all in flight die with it
}

// NewPoison makes a guard.
func NewPoison(cfg PoisonConfig) *Poison { return &Poison{cfg, make(chan struct{}, 1)} }

// Careful tells up to which offset the records of a new assignment are handled alone: none, unless the last two began at
// the same committed offset and crashed, which is what a process looks like that dies before it gets anywhere.
func (p *Poison) Careful(ctx context.Context, topic string, partition int32, committed int64) (until int64, err error) {
	times, err := p.cfg.Store.Started(ctx, topic, partition, committed)
	if err != nil || times < startsUntilCareful {
		return 0, err
	}
	return committed + p.cfg.Window, nil
}

// EndedWell takes back that assignments began: they ended by a stop or a rebalance, which is no crash (hazard H33). Crashes
// before them still count.
func (p *Poison) EndedWell(ctx context.Context, topic string, began map[int32]int64) error {
	return p.cfg.Store.EndedWell(ctx, topic, began)
}

// Handle notes a lonely message before it is handled, and takes the note back when the process has outlived it. One that
// did not come back three times is not handled any more, not even decoded. A message that waits, for the lease of the process
// that it killed, say, has proved nothing yet: the deaths before still count.
func (p *Poison) Handle(ctx context.Context, m kafkaclient.Message) error {
	if !m.Alone {
		return p.cfg.Next(ctx, m)
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	tries, err := p.cfg.Store.BeginAlone(ctx, m.Topic, m.Partition, m.Offset)
	if err != nil {
		return err
	}
	if tries > deathsUntilPoison {
		err = p.giveUp(ctx, m, tries-1)
	} else {
		err = p.cfg.Next(ctx, m)
	}
	noted, cancel := context.WithTimeout(context.WithoutCancel(ctx), endAloneWait) // a stop is no death
	defer cancel()
	if ended := p.cfg.Store.EndAlone(noted, m.Topic, m.Partition, m.Offset, err == nil); err == nil && ended != nil {
		return ended
	}
	return err
}

func (p *Poison) giveUp(ctx context.Context, m kafkaclient.Message, deaths int) error {
	envelope, err := p.cfg.Opener.Open(ctx, m, uuid.Nil)
	if err != nil {
		return err
	}
	f := failure.New(failure.Poison, "the process died %d times while it handled this message alone", deaths)
	f.Verdict = failure.Dies // a flood must not withhold it: it would wait here, with all that wait behind it
	return p.cfg.Router.Route(ctx, envelope, retry.Outcome{Err: f})
}
