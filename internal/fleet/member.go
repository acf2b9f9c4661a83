package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"example.com/billing/internal/failure"
)

// membership is whether this instance is in the consumer groups.
type membership struct {
	mu     sync.Mutex
	leave  context.CancelFunc // nil: it is not in the groups
	joined time.Time
	until  time.Time     // out of the groups until then; zero: not out
	wait   time.Duration // of the last time it was out; only Look uses it
	back   chan struct{} // a token when it may join again
}

// Member runs consume in the groups until ctx is done or consume fails. When the instance leaves, consume's context ends;
// when it comes back, consume is called again. What goes wrong while it leaves is logged: the process goes on, and what was
// not committed is redelivered to the others.
func (i *Instance) Member(ctx context.Context, consume func(context.Context) error) error {
	for {
		in, leave := context.WithCancel(ctx)
		i.join(leave)
		err := consume(in)
		left := in.Err() != nil && ctx.Err() == nil
		leave()
		if !left {
			return err
		}
		if err != nil {
			i.cfg.Log.Warn("left the consumer groups in disorder", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-i.member.back:
		}
	}
}

// OutUntil is when the instance comes back to the groups at the latest; zero: it has not left them.
func (i *Instance) OutUntil() time.Time {
	i.member.mu.Lock()
	defer i.member.mu.Unlock()
	return i.member.until
}

func (i *Instance) join(leave context.CancelFunc) {
	i.member.mu.Lock()
	defer i.member.mu.Unlock()
	i.member.leave, i.member.joined = leave, i.cfg.Clock()
}

// decide leaves the groups, or comes back. Alone is an instance that is held while another one, which is not, was answered
// since the hold began. Out of the groups it has nothing to probe with, so it comes back after a while, and at once when
// nobody else is well any more: somebody must hold the partitions.
func (i *Instance) decide(ctx context.Context) error {
	i.member.mu.Lock()
	in, joined, until := i.member.leave != nil, i.member.joined, i.member.until
	i.member.mu.Unlock()
	held, since := i.line.Held()
	if since.Before(joined) {
		since = joined
	}
	now := i.cfg.Clock()
	switch out := !until.IsZero(); {
	case in && held == "":
		i.member.wait = 0
	case in && mayBeAlone(held) && now.Sub(since) >= i.cfg.LeaveAfter:
		well, err := i.peers.anyWell(ctx, now.Sub(since))
		if well {
			i.goOut(held, now)
		}
		return err
	case out:
		well, err := i.peers.anyWell(ctx, now.Sub(since))
		if held == "" || !now.Before(until) || err == nil && !well {
			i.comeBack()
		}
		return err
	}
	return nil
}

// mayBeAlone reports whether the reason can be this instance's own: its link, its settings, the server that its sessions
// lead to. A flood of dead letters would go with the partitions, the operator's pause is for all, and without the database
// nobody can tell.
func mayBeAlone(r failure.Reason) bool {
	switch r {
	case failure.ProviderDown, failure.ProviderUnauthorized, failure.ProviderMisaddressed, failure.ProviderTLS,
		failure.BrokerDown, failure.PublishRefused, failure.DatabaseReadOnly, failure.DatabaseSchema:
		return true
	}
	return false
}

// longestOut, times LeaveAfter, is the longest time out: each return costs its partitions another LeaveAfter.
const longestOut = 5

// goOut lets the consumers drain, commit and hand over. It is out for a time that doubles until the line has run again,
// with jitter: instances that left together must not come back together.
func (i *Instance) goOut(held failure.Reason, now time.Time) {
	m := &i.member
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wait = min(max(2*m.wait, i.cfg.LeaveAfter), longestOut*i.cfg.LeaveAfter)
	out := m.wait/2 + rand.N(m.wait/2+1)
	m.until = now.Add(out)
	m.leave()
	m.leave = nil
	i.cfg.Log.Error("held alone: left the consumer groups to the others", "reason", held, "for", out.Round(time.Millisecond))
}

func (i *Instance) comeBack() {
	i.member.mu.Lock()
	defer i.member.mu.Unlock()
	i.member.until = time.Time{}
	i.member.back <- struct{}{} // has room: one token for each time out
	i.cfg.Log.Info("back to the consumer groups")
}
