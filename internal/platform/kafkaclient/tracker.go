package kafkaclient

// tracker knows which received offsets of one partition are finished, and how far all of them are. It tracks only what
// was received: offsets have holes (transaction markers, compaction), and a hole is nobody's work.
type tracker struct {
	entries []entry
	popped  int    // entries before this index are finished and reported
	base    uint64 // sequence number of entries[0]
}

type entry struct {
	offset int64
	epoch  int32 // of the leader that wrote the record
	done   bool
}

// received notes an offset, greater than all before it, and returns its sequence number.
func (t *tracker) received(offset int64, epoch int32) uint64 {
	t.entries = append(t.entries, entry{offset: offset, epoch: epoch})
	return t.base + uint64(len(t.entries)) - 1
}

// done marks the offset with this sequence number as finished.
func (t *tracker) done(seq uint64) { t.entries[seq-t.base].done = true }

// advance returns the range of offsets that became finished without a gap since the last call; ok is false when none did.
func (t *tracker) advance() (p Progress, ok bool) {
	for t.popped < len(t.entries) && t.entries[t.popped].done {
		e := t.entries[t.popped]
		p.count(e.offset)
		p.Next, p.epoch = e.offset+1, e.epoch
		t.popped++
		ok = true
	}
	t.compact()
	return p, ok
}

// compact forgets the reported prefix when it is the larger half, so that the memory follows what is unfinished.
func (t *tracker) compact() {
	if t.popped < 64 || t.popped < len(t.entries)/2 {
		return
	}
	t.base += uint64(t.popped)
	t.entries = t.entries[:copy(t.entries, t.entries[t.popped:])]
	t.popped = 0
}

// Progress is a range of one partition in which every record has a durable fate.
type Progress struct {
	Partition int32
	Next      int64 // offset after the last record of the range, or after what follows it and is no record
	Runs      []Run // of its records, ascending; none when the range has no record

	epoch int32 // of the leader that wrote the last record before Next
}

// Run is a range of offsets that each had a record.
type Run struct {
	From int64
	Next int64 // offset after the last
}

// count adds an offset, greater than all before it.
func (p *Progress) count(offset int64) {
	if n := len(p.Runs); n > 0 && p.Runs[n-1].Next == offset {
		p.Runs[n-1].Next++
		return
	}
	p.Runs = append(p.Runs, Run{offset, offset + 1})
}

// Records is their number.
func (p Progress) Records() (n int64) {
	for _, r := range p.Runs {
		n += r.Next - r.From
	}
	return n
}

// Since is the part of the range from the offset on.
func (p Progress) Since(offset int64) Progress {
	rest := Progress{Partition: p.Partition, Next: p.Next}
	for _, r := range p.Runs {
		if r.Next > offset {
			rest.Runs = append(rest.Runs, Run{max(r.From, offset), r.Next})
		}
	}
	return rest
}
