package hold

import (
	"time"

	"example.com/billing/internal/failure"
)

// flood notices when too many messages die, and withholds the verdicts: a deploy that refuses everything must not empty
// the topic into the dead letters (hazard H25). It stops dead letters, not orders: whoever can be charged is charged, until
// the messages that wait fill their consumer's window.
//
// A message whose verdict is withheld stays where it is. It is judged anew when another one that waited was charged, when
// the flood is over, when a person lets its reason go, and one of them every probeEvery.
type flood struct {
	count int     // verdicts in a minute that are too many, if
	ratio float64 // they are at least this share of all messages; count 0: off

	now     time.Time // the flood's own time
	ticked  time.Time // when it was last moved on
	stopped bool      // the line is held or paused: nothing is handled, so that time proves nothing

	buckets  [6]bucket
	lastOver time.Time // when there were last too many; zero: never
	waiting  map[string]withheld
	accepted map[failure.Reason]int // verdicts that a person has let go
	probed   time.Time
	cured    time.Time // when a message that had waited was last charged
}

// withheld is a verdict that waits.
type withheld struct {
	reason failure.Reason
	at     time.Time // of the verdict, in the flood's time as all below
	seen   time.Time // when its message last asked; one that asks no more went with its partition
}

// bucket counts the messages of ten seconds.
type bucket struct {
	second     int64 // start, in seconds of the flood's time
	died, good int
}

const (
	longestTick   = 10 * time.Second // a process that was frozen for an hour has not seen an hour without dead letters
	bucketSeconds = 10
	floodLasts    = time.Minute // after there were last too many
	probeEvery    = 500 * time.Millisecond
	waitingTTL    = 30 * time.Second
)

// tick moves the flood's own time on.
func (f *flood) tick(now time.Time) {
	if passed := now.Sub(f.ticked); passed > 0 && !f.stopped {
		f.now = f.now.Add(min(passed, longestTick))
	}
	f.ticked = now
}

// verdict reports whether the message may die now.
func (f *flood) verdict(record string, r failure.Reason) bool {
	if f.count == 0 {
		return true
	}
	f.forgetGone()
	delete(f.waiting, record)
	died, good := f.lastMinute()
	if bad := died + len(f.waiting) + 1; f.tooMany(bad, good) {
		f.lastOver = f.now
	}
	if f.on() && f.accepted[r] == 0 {
		f.waiting[record] = withheld{reason: r, at: f.now, seen: f.now}
		return false
	}
	if f.accepted[r] > 0 {
		f.accepted[r]--
	}
	f.bucket().died++
	return true
}

func (f *flood) tooMany(bad, good int) bool {
	return bad >= f.count && float64(bad) >= f.ratio*float64(bad+good)
}

// good counts a message that was charged. When its verdict was withheld before, the cause is gone.
func (f *flood) good(record string) {
	if _, waited := f.waiting[record]; waited {
		delete(f.waiting, record)
		f.cured = f.now
	}
	f.bucket().good++
}

// mayTry reports whether a message may be handled: any one, unless its verdict waits.
func (f *flood) mayTry(record string) bool {
	v, waits := f.waiting[record]
	if !waits || !f.on() || f.accepted[v.reason] > 0 || !f.cured.Before(v.at) && !f.cured.IsZero() {
		return true
	}
	v.seen = f.now
	f.waiting[record] = v
	if f.now.Sub(f.probed) < probeEvery {
		return false
	}
	f.probed = f.now
	return true
}

// on reports whether verdicts are withheld. Time does not end a flood while there are too many that wait.
func (f *flood) on() bool {
	if f.count == 0 || f.lastOver.IsZero() {
		return false
	}
	if _, good := f.lastMinute(); f.tooMany(len(f.waiting), good) {
		f.lastOver = f.now
	}
	return f.now.Sub(f.lastOver) < floodLasts
}

// begin starts a flood that nobody has counted.
func (f *flood) begin() {
	if f.count > 0 {
		f.lastOver = f.now
	}
}

// reasons counts the verdicts that wait.
func (f *flood) reasons() map[failure.Reason]int {
	n := map[failure.Reason]int{}
	for _, v := range f.waiting {
		n[v.reason]++
	}
	return n
}

func (f *flood) forgetGone() {
	for record, v := range f.waiting {
		if f.now.Sub(v.seen) > waitingTTL {
			delete(f.waiting, record)
		}
	}
}

func (f *flood) bucket() *bucket {
	start := f.now.Unix() - f.now.Unix()%bucketSeconds
	b := &f.buckets[(start/bucketSeconds)%int64(len(f.buckets))]
	if b.second != start {
		*b = bucket{second: start}
	}
	return b
}

func (f *flood) lastMinute() (died, good int) {
	oldest := f.now.Unix() - f.now.Unix()%bucketSeconds - bucketSeconds*int64(len(f.buckets)-1)
	for _, b := range f.buckets {
		if b.second >= oldest {
			died, good = died+b.died, good+b.good
		}
	}
	return died, good
}
