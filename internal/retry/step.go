package retry

import (
	"time"

	"example.com/billing/internal/failure"
)

// maxMemoryWait is how long a message may wait in memory before it takes a place in a tier (hazard H16).
const maxMemoryWait = 5 * time.Second

// Kind of a step.
type Kind uint8

// What can happen to a message that was not charged.
const (
	ToTier Kind = iota + 1
	ToDeadLetters
	InMemory // stays here, uncounted, and is handled again
)

// Step is the next step of a message that was not charged.
type Step struct {
	Kind      Kind
	Topic     string // of ToTier and ToDeadLetters
	Failures  int    // counted, this one included if it counts
	Waits     int    // uncounted waits in tiers, this one included
	NotBefore time.Time
	After     time.Duration // of InMemory
}

// Next is the whole arithmetic of the ladder: pure, so that its table can be tested exhaustively.
//
// failures = the valid header, else the topic's rank. After a counted failure f = failures + 1; the fourth ends in the dead
// letters; else the next tier is the highest of f, the rank, and the first tier that outlasts Retry-After.
func (l Ladder) Next(e Envelope, f *failure.Error, fault failure.Fault, now time.Time) Step {
	switch fault {
	case failure.OfMessage:
		return l.dead(min(e.Failures+1, len(l.tiers)+1))
	case failure.OfMoment:
		return l.wait(e, f, now)
	case failure.OfSuspect: // its breaker decides within seconds
		return Step{Kind: InMemory, Failures: e.Failures, Waits: e.Waits, After: momentBackoff(e.Message.Tries)}
	case failure.OfSystem, failure.OfShutdown:
		return Step{Kind: InMemory, Failures: e.Failures, Waits: e.Waits, After: holdRecheck}
	default:
		return l.counted(e, f, now)
	}
}

const (
	holdRecheck     = 100 * time.Millisecond // until a message of a held line stands at the gate again
	withheldRecheck = time.Second            // until one whose verdict is withheld asks again
)

func (l Ladder) dead(failures int) Step {
	return Step{Kind: ToDeadLetters, Topic: l.DeadLetters(), Failures: failures}
}

func (l Ladder) counted(e Envelope, f *failure.Error, now time.Time) Step {
	failures := e.Failures + 1
	if failures > len(l.tiers) {
		return l.dead(failures)
	}
	return l.toTier(max(failures, e.Rank, l.firstTierFor(f.RetryAfter)), failures, e.Waits, now)
}

// wait keeps a message in memory for some seconds, then in a tier, uncounted and for as long as it takes. The tiers grow
// longer with the waits: an order whose look-up proves nothing for a day is asked for every few minutes, not every few
// seconds.
func (l Ladder) wait(e Envelope, f *failure.Error, now time.Time) Step {
	after := max(f.RetryAfter, momentBackoff(e.Message.Tries))
	if f.Reason == failure.OrderBusy || e.Message.Since.IsZero() || now.Add(after).Sub(e.Message.Since) <= maxMemoryWait {
		return Step{Kind: InMemory, Failures: e.Failures, Waits: e.Waits, After: after}
	}
	byWaits := min(1+e.Waits/waitsPerTier, len(l.tiers))
	return l.toTier(max(byWaits, e.Rank, l.firstTierFor(f.RetryAfter)), e.Failures, min(e.Waits+1, maxWaits), now)
}

// waitsPerTier is how often a record waits in a tier, uncounted, before it waits in the next one.
const waitsPerTier = 5

func (l Ladder) toTier(rank, failures, waits int, now time.Time) Step {
	t := l.tiers[rank-1]
	return Step{Kind: ToTier, Topic: t.Topic, Failures: failures, Waits: waits, NotBefore: now.Add(t.Delay)}
}

// firstTierFor is the rank of the first tier that is long enough; the last one when none is.
func (l Ladder) firstTierFor(retryAfter time.Duration) int {
	for i, t := range l.tiers {
		if t.Delay >= retryAfter {
			return i + 1
		}
	}
	return len(l.tiers)
}

// momentBackoff is 50 ms, doubled with each try up to 1 s.
func momentBackoff(tries int) time.Duration {
	return min(50*time.Millisecond<<min(tries, 10), time.Second)
}
