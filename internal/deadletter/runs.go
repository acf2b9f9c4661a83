package deadletter

import "slices"

// run is ascending offsets of one partition that are close enough to be read in one go.
type run []int64

// intoRounds splits the offsets into rounds: each reads at most one run of each partition.
func intoRounds(wanted map[int32][]int64) []map[int32]run {
	var rounds []map[int32]run
	for p, offsets := range wanted {
		slices.Sort(offsets)
		for i, r := range splitRuns(slices.Compact(offsets)) {
			if i == len(rounds) {
				rounds = append(rounds, map[int32]run{})
			}
			rounds[i][p] = r
		}
	}
	return rounds
}

// splitRuns cuts ascending offsets where the gap is larger than maxGap.
func splitRuns(offsets []int64) (runs []run) {
	begin := 0
	for i := 1; i <= len(offsets); i++ {
		if i == len(offsets) || offsets[i]-offsets[i-1] > maxGap {
			runs = append(runs, offsets[begin:i])
			begin = i
		}
	}
	return runs
}
