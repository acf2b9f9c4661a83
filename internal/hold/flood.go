package hold

import "time"

// flood notices when too many messages die: a deploy that refuses everything must not empty the topic into the dead
// letters. It counts the messages of the last minute.
type flood struct {
	count int     // dead letters that are too many, if
	ratio float64 // they are at least this share of all messages; count 0: off

	buckets [6]bucket
}

type bucket struct {
	second    int64 // start, Unix
	dead, all int
}

const bucketSeconds = 10

// note counts a message and reports whether there is a flood.
func (f *flood) note(dead bool, now time.Time) bool {
	if f.count == 0 {
		return false
	}
	start := now.Unix() - now.Unix()%bucketSeconds
	b := &f.buckets[(start/bucketSeconds)%int64(len(f.buckets))]
	if b.second != start {
		*b = bucket{second: start}
	}
	b.all++
	if dead {
		b.dead++
	}
	oldest := start - bucketSeconds*int64(len(f.buckets)-1)
	died, all := 0, 0
	for _, b := range f.buckets {
		if b.second >= oldest {
			died, all = died+b.dead, all+b.all
		}
	}
	return dead && died >= f.count && float64(died) >= f.ratio*float64(all)
}

func (f *flood) reset() { f.buckets = [6]bucket{} }
