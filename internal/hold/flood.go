package hold

import (
	"math"
	"slices"
	"time"

	"example.com/billing/internal/failure"
)

// flood notices when too many messages die, and withholds the verdicts: a deploy that refuses everything must not empty
// the topic into the dead letters (hazard H25). It stops dead letters, not orders: whoever can be charged is charged, until
// the messages that wait fill their consumer's window.
//
// Withheld are verdicts for the reasons that the flood is made of. Others die as on every day: the declined orders of an hour
// would fill the windows, too.
//
// A message whose verdict is withheld stays where it is. It is judged anew when another one that waited was charged, when
// the flood is over, when a person lets its reason go, and one of them every probeEvery.
type flood struct {
	count int     // verdicts in a minute that are too many for all instances together, if
	ratio float64 // they are this share of the messages around them; count 0: off

	instances int       // that share the limit
	counted   time.Time // when there were last so many

	now     time.Time // the flood's own time
	ticked  time.Time // when it was last moved on
	stopped bool      // the line is held or paused: nothing is handled, so that time proves nothing

	recent   []outcome               // the last share/ratio messages, a ring
	next     int                     // in it
	lastOver time.Time               // when there were last too many; zero: never
	kinds    map[failure.Reason]bool // that the flood is made of; empty while nobody has counted: all
	waiting  map[string]withheld
	accepted map[failure.Reason]int // verdicts that a person has let go
	probed   time.Time
	cured    time.Time // when a message that had waited was last charged
	swept    time.Time // when those that ask no more were last forgotten
}

// withheld is a verdict that waits.
type withheld struct {
	reason failure.Reason
	at     time.Time // of the verdict, in the flood's time as all below
	seen   time.Time // when its message last asked; one that asks no more went with its partition
}

// outcome is how a message was handled for the first time.
type outcome struct {
	at     time.Time
	reason failure.Reason // for which it died, or would have; empty: it was charged
}

const (
	longestTick = 10 * time.Second // a process that was frozen for an hour has not seen an hour without dead letters
	countedFor  = time.Minute
	floodLasts  = time.Minute // after there were last too many
	kindShare   = 0.2         // of those that die: a reason with fewer is not what the flood is made of
	probeEvery  = 500 * time.Millisecond
	waitingTTL  = 30 * time.Second
	asksWithin  = 5 * time.Second // a message that waits asks once a second; an attempt may take longer
	// leastShare of the limit is each instance's, however many there are: where one message in ten dies, ten of the last
	// twenty hardly ever do, and three of the last six would each second.
	leastShare = 10
)

// among tells how many instances share the limit. Fewer of them get larger shares only after a minute: what the others let
// die before they left counts that long.
func (f *flood) among(instances int) {
	if instances < f.instances && f.now.Sub(f.counted) < countedFor {
		return
	}
	f.instances, f.counted = instances, f.now
	f.resize()
}

// share is how many verdicts in a minute are too many here. All shares less one each, which is what may die, are less than
// the limit.
func (f *flood) share() int {
	instances := max(f.instances, 1)
	return max((f.count+instances-1)/instances, min(f.count, leastShare))
}

// size is how many of the latest messages are looked at.
func (f *flood) size() int { return int(math.Ceil(float64(f.share()) / f.ratio)) }

// resize keeps the latest outcomes that the share looks at, the oldest one first.
func (f *flood) resize() {
	if f.count == 0 {
		return
	}
	latest := slices.Concat(f.recent[f.next:], f.recent[:f.next])
	f.recent, f.next = latest[max(0, len(latest)-f.size()):], 0
}

// tick moves the flood's own time on.
func (f *flood) tick(now time.Time) {
	if passed := now.Sub(f.ticked); passed > 0 && !f.stopped {
		f.now = f.now.Add(min(passed, longestTick))
	}
	f.ticked = now
}

// verdict reports whether the message may die now. There are too many when share of the last share/ratio messages died
// within a minute. Not of all messages of a minute: at 2,000 good ones a second an outage that refuses everyone would be
// noticed after a minute, and 60,000 dead letters.
func (f *flood) verdict(record string, r failure.Reason) bool {
	if f.count == 0 {
		return true
	}
	f.sweep()
	if _, waited := f.waiting[record]; !waited {
		f.note(r)
	}
	delete(f.waiting, record)
	if bad := f.lastMinute(); total(bad) >= f.share() {
		f.rise(bad)
	}
	if f.on() && f.madeOf(r) && f.accepted[r] == 0 {
		f.waiting[record] = withheld{reason: r, at: f.now, seen: f.now}
		return false
	}
	if f.accepted[r] > 0 {
		f.accepted[r]--
	}
	return true
}

// rise tells that there are too many now, and of which reasons: those with a good part of the dead, or all if none has.
func (f *flood) rise(bad map[failure.Reason]int) {
	if f.kinds == nil || !f.on() {
		f.kinds = map[failure.Reason]bool{}
	}
	f.lastOver = f.now
	delete(bad, unknown)
	all := total(bad)
	for r, n := range bad {
		if float64(n) >= kindShare*float64(all) {
			f.kinds[r] = true
		}
	}
	if len(f.kinds) == 0 {
		for r := range bad {
			f.kinds[r] = true
		}
	}
}

// unknown stands for the reason of what died before this process could count.
const unknown failure.Reason = "unknown"

func (f *flood) madeOf(r failure.Reason) bool { return len(f.kinds) == 0 || f.kinds[r] }

func total(n map[failure.Reason]int) (all int) {
	for _, n := range n {
		all += n
	}
	return all
}

// good counts a message that was charged. When its verdict was withheld before, the cause is gone.
func (f *flood) good(record string) {
	if f.count == 0 {
		return
	}
	if _, waited := f.waiting[record]; waited {
		delete(f.waiting, record)
		f.cured = f.now
	}
	f.note("")
}

// note remembers an outcome in the place of the oldest one.
func (f *flood) note(r failure.Reason) {
	if len(f.recent) < f.size() {
		f.recent = append(f.recent, outcome{f.now, r})
		return
	}
	f.recent[f.next] = outcome{f.now, r}
	f.next = (f.next + 1) % len(f.recent)
}

// mayTry reports whether a message may be handled: any one, unless its verdict waits.
func (f *flood) mayTry(record string) bool {
	v, waits := f.waiting[record]
	if !waits {
		return true
	}
	v.seen = f.now
	f.waiting[record] = v
	if !f.on() || !f.madeOf(v.reason) || f.accepted[v.reason] > 0 || !f.cured.Before(v.at) && !f.cured.IsZero() {
		return true
	}
	if f.now.Sub(f.probed) < probeEvery {
		return false
	}
	f.probed = f.now
	return true
}

// on reports whether verdicts are withheld.
func (f *flood) on() bool {
	if f.count == 0 || f.lastOver.IsZero() {
		return false
	}
	f.sweep()
	return f.now.Sub(f.lastOver) < floodLasts
}

// begin starts a flood that nobody has counted.
func (f *flood) begin() {
	if f.count > 0 {
		f.lastOver, f.kinds = f.now, nil
	}
}

// reasons counts the verdicts that wait here. A message that asks no more waits at the instance that has its partition now.
func (f *flood) reasons() map[failure.Reason]int {
	n := map[failure.Reason]int{}
	for _, v := range f.waiting {
		if f.now.Sub(v.seen) <= asksWithin {
			n[v.reason]++
		}
	}
	return n
}

// unused takes back what a person has let go and no message needs here: those were charged, went with their partition, or
// cannot be handled while the line is held.
func (f *flood) unused() map[failure.Reason]int {
	waiting, unused := f.reasons(), map[failure.Reason]int{}
	if f.stopped {
		clear(waiting)
	}
	for r, n := range f.accepted {
		if more := n - waiting[r]; more > 0 {
			unused[r] = more
			f.accepted[r] -= more
		}
	}
	return unused
}

// sweep looks at all that wait, so it does so once a second only: those that ask no more are forgotten, and time does not end a
// flood while too many of its reasons wait.
func (f *flood) sweep() {
	if f.now.Sub(f.swept) < time.Second {
		return
	}
	f.swept = f.now
	waiting := 0
	for record, v := range f.waiting {
		switch {
		case f.now.Sub(v.seen) > waitingTTL:
			delete(f.waiting, record)
		case f.kinds[v.reason]:
			waiting++
		}
	}
	if waiting >= f.share() && f.now.Sub(f.lastOver) < floodLasts {
		f.lastOver = f.now
	}
}

// lastMinute counts the latest messages that died, by reason, unless they are older than a minute.
func (f *flood) lastMinute() map[failure.Reason]int {
	bad := map[failure.Reason]int{}
	for _, o := range f.recent {
		if o.reason != "" && f.now.Sub(o.at) < countedFor {
			bad[o.reason]++
		}
	}
	return bad
}
