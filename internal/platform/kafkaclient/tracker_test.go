package kafkaclient

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// naive is the obvious model: the longest prefix of received offsets that is finished.
type naive struct {
	offsets  []int64
	done     map[int64]bool
	reported int
}

func (n *naive) advance() (next, records int64) {
	end := n.reported
	for end < len(n.offsets) && n.done[n.offsets[end]] {
		end++
	}
	if end == n.reported {
		return 0, 0
	}
	records = int64(end - n.reported)
	n.reported = end
	return n.offsets[end-1] + 1, records
}

func TestTrackerAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		checkTracker(t, seed)
	}
}

func FuzzTracker(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkTracker)
}

// checkTracker receives offsets with holes, finishes them in any order and compares after each step.
func checkTracker(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var tr tracker
	model := &naive{done: map[int64]bool{}}
	var open []uint64
	bySeq := map[uint64]int64{}
	offset := r.Int64N(1000)
	for range 1000 {
		if len(open) == 0 || r.IntN(2) == 0 {
			offset += 1 + r.Int64N(3)
			seq := tr.received(offset, int32(offset/100))
			model.offsets = append(model.offsets, offset)
			open, bySeq[seq] = append(open, seq), offset
		} else {
			i := r.IntN(len(open))
			tr.done(open[i])
			model.done[bySeq[open[i]]] = true
			open = append(open[:i], open[i+1:]...)
		}
		if r.IntN(4) > 0 {
			continue
		}
		got, ok := tr.advance()
		next, records := model.advance()
		require.Equal(t, next > 0, ok)
		if !ok {
			continue
		}
		require.Equal(t, []int64{next, records, (next - 1) / 100}, []int64{got.Next, got.Records(), int64(got.epoch)})
		cut := max(0, next-r.Int64N(20))
		for _, run := range got.Since(cut).Runs {
			require.GreaterOrEqual(t, run.From, cut)
			for o := run.From; o < run.Next; o++ {
				require.True(t, model.done[o], "a hole is no record")
			}
		}
	}
}

func TestTrackerForgetsWhatIsDone(t *testing.T) {
	var tr tracker
	for i := range int64(100_000) {
		tr.done(tr.received(i, 0))
		tr.advance()
	}
	require.Less(t, cap(tr.entries), 1000)
}
