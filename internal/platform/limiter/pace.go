package limiter

import (
	"math"
	"time"
)

// Outcome is what one that was inside tells about the limit of the service.
type Outcome uint8

// The outcomes.
const (
	Silent  Outcome = iota // nothing: it was not sent, or there was no answer
	Taken                  // the service worked on it, whatever came of it
	Refused                // as too many
)

// A round is so many requests, begun over so long: a burst that the service has saved up is over by then. After a second
// fewer will do if all of them say the same. Over more than five seconds, few requests tell nothing of a rate.
const (
	roundSize  = 20
	roundTime  = 100 * time.Millisecond
	quietRound = time.Second
	staleRound = 5 * time.Second
	heardOf    = 0.9 // of a round is enough: a request that hangs must not stop the learning
	restAfter  = 10 * time.Second
)

// What a round's share of refusals does to the rate.
const (
	mostRefused = 0.1  // above it the rate is cut
	fewRefused  = 0.03 // above it the rate grows by small steps
	firstStep   = 0.02 // growth after a cut; it doubles with each good round
	lastStep    = 0.5
	cutTo       = 0.95 // of what was taken, so that the next round is a good one
	cutToKnown  = 0.9  // of what was taken in a second, which a short round at the end of a quota does not show
	stillSame   = 0.75 // a share that fell less was not cured by going slower
	vainCuts    = 2
	slowest     = 1.0  // a second
	slowestTry  = 10.0 // a second, while everything is refused
	headroom    = 2    // places, as a multiple of those that rate and duration of a request ask for
	catchUp     = 10 * time.Millisecond
)

// pace learns how fast the service takes requests, from the share that it refuses, not from single refusals (hazard H35).
//
// It looks at rounds: requests that began one after another, judged when they have ended. When more than a tenth of a round
// was refused, requests begin no faster from then on than the service took them. Each good round raises that rate, by small
// steps at first, so that a service which takes R a second is asked for a little more than R; by large ones when nothing is
// refused any more, so that it is free again within seconds. Refusals that come as often however slow we go are not for our
// rate, and are borne.
type pace struct {
	most int

	rate    float64   // a second; 0: as fast as there are places
	next    time.Time // the next may begin
	step    float64
	proven  bool          // the service was heard: until then not all begin at once
	stopped bool          // nothing of the last round was taken
	took    time.Duration // one request, smoothed
	last    time.Time     // one began
	round   *round

	second time.Time // since then
	count  int       // so many were taken
	known  float64   // what the service took in a second of late

	noise  float64 // share of refusals that no pace cures
	share  float64 // of the last cut; 0 after a good round
	before float64 // the rate before the first cut of several
	vain   int     // cuts in a row that changed nothing
}

// round is a number of requests that began one after another.
type round struct {
	first, last    time.Time
	begun          int
	taken, refused int
	full           bool
}

func (r *round) settled() int { return r.taken + r.refused }

// limit is how many may be under way.
func (p *pace) limit() int {
	switch {
	case p.rate == 0 && !p.proven:
		return min(p.most, max(roundSize, p.most/4))
	case p.rate == 0:
		return p.most
	case p.stopped:
		return 1
	default:
		return min(p.most, int(math.Ceil(headroom*p.rate*p.took.Seconds())+1))
	}
}

// wait is how long the next one must wait; 0 when it may begin.
func (p *pace) wait(now time.Time) time.Duration {
	if p.rate == 0 {
		return 0
	}
	return p.next.Sub(now)
}

// begin counts one that begins, and tells the round that it belongs to.
func (p *pace) begin(now time.Time) *round {
	p.last = now
	if p.rate > 0 {
		if late := now.Add(-catchUp); p.next.Before(late) {
			p.next = late
		}
		p.next = p.next.Add(p.interval())
	}
	r := p.round
	switch {
	case r == nil || !r.full && now.Sub(r.first) > staleRound:
		r = &round{first: now}
		p.round = r
	case r.full: // it waits for its outcomes
		return nil
	}
	r.begun, r.last = r.begun+1, now
	r.full = r.begun >= roundSize && now.Sub(r.first) >= roundTime
	return r
}

func (p *pace) interval() time.Duration { return time.Duration(float64(time.Second) / p.rate) }

// end learns from one that ended.
func (p *pace) end(r *round, o Outcome, held time.Duration, now time.Time) {
	if o == Silent {
		if p.rate > 0 {
			p.next = p.next.Add(-p.interval()) // it took nothing of the rate
		}
	} else {
		p.learn(held)
	}
	if o == Taken {
		p.remember(now)
	}
	if r == nil || r != p.round {
		return
	}
	switch o {
	case Silent:
		r.begun--
	case Taken:
		r.taken++
	case Refused:
		r.refused++
	}
	p.proven = p.proven || r.taken >= roundSize && r.refused == 0 || now.Sub(r.first) >= quietRound
	if p.heavy(r) || p.complete(r, now) {
		p.judge(r)
		p.round = nil
	}
}

// heavy reports whether it is certain that most of a round is refused.
func (p *pace) heavy(r *round) bool {
	return r.refused >= roundSize && float64(r.refused) > max(0.5, mostRefused+p.noise)*float64(r.begun)
}

// remember counts what is taken in a second. When everything was refused and one is taken, that rate is tried first: the
// quota of another second may have begun. It halves with each second without a request, and so means nothing after an outage.
func (p *pace) remember(now time.Time) {
	p.count++
	if d := now.Sub(p.second); d >= time.Second {
		p.known = max(float64(p.count)/d.Seconds(), p.known/math.Pow(2, d.Seconds()))
		p.second, p.count = now, 0
	}
	if p.stopped {
		p.stopped, p.round = false, nil
		p.rate = max(p.rate, p.known)
	}
}

// learn keeps how long a request takes. It believes longer times sooner: too few places would slow the rate down.
func (p *pace) learn(held time.Duration) {
	weight := 0.05
	if held > p.took {
		weight = 0.3
	}
	p.took += time.Duration(weight * float64(held-p.took))
}

// complete reports whether a round tells something.
func (*pace) complete(r *round, now time.Time) bool {
	if r.full {
		return float64(r.settled()) >= heardOf*float64(r.begun)
	}
	agree := r.refused == 0 && r.taken > 0 || r.taken == 0 && r.refused > 2
	return agree && r.settled() == r.begun && now.Sub(r.first) >= quietRound
}

// judge draws the lesson of a round.
func (p *pace) judge(r *round) {
	p.proven = true
	share := float64(r.refused) / float64(r.settled())
	if p.heavy(r) {
		share = float64(r.refused) / float64(r.begun) // at least
	}
	asked := float64(r.begun) / max(roundTime, r.last.Sub(r.first)).Seconds()
	switch {
	case r.refused == r.begun:
		p.stopped, p.share, p.vain = true, 0, 0
		p.rate, p.step = max(slowestTry, asked/4), 1
	case share <= mostRefused+p.noise:
		p.stopped, p.share, p.vain = false, 0, 0
		p.noise = min(p.noise, p.noise+(share-p.noise)/5)
		if share > p.noise+fewRefused {
			p.step = firstStep // this is about what it takes
		}
		p.grow()
	default:
		p.stopped = false
		p.cut(share, asked, p.heavy(r))
	}
}

func (p *pace) grow() {
	if p.rate == 0 {
		return
	}
	p.rate *= 1 + p.step
	p.step = min(lastStep, 2*p.step)
	if p.rate*p.took.Seconds() >= float64(p.most) {
		p.rate = 0
	}
}

// cut goes as slowly as the service took, unless that has changed nothing before.
func (p *pace) cut(share, asked float64, heavy bool) {
	if p.share == 0 {
		p.before = p.rate
	}
	if p.share > 0 && !heavy && share >= stillSame*p.share {
		p.vain++
	} else {
		p.vain = 0
	}
	if p.vain == vainCuts {
		p.rate, p.noise, p.share, p.vain = p.before, share, 0, 0
		return
	}
	p.share = share
	if heavy { // how many would have been refused is not known
		p.share = 1
	}
	p.step = firstStep
	p.rate = max(slowest, cutTo*asked*(1-share), min(asked, cutToKnown*p.known))
}

// rest forgets a pace when nothing was asked for long.
func (p *pace) rest(inside int, now time.Time) {
	if inside == 0 && now.Sub(p.last) > restAfter {
		p.rate, p.stopped, p.round = 0, false, nil
	}
}
