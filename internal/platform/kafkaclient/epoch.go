package kafkaclient

import "github.com/confluentinc/confluent-kafka-go/v2/kafka"

// noEpoch is the leader epoch of a place of which nobody knows it.
const noEpoch = int32(-1)

func epochOf(tp kafka.TopicPartition) int32 {
	if tp.LeaderEpoch == nil {
		return noEpoch
	}
	return *tp.LeaderEpoch
}

// tpAfter is an offset with the leader epoch of the record before it. The client compares both with the partition's log
// before it fetches from there: after an unclean leader election the log may have been cut and filled anew, and an offset
// alone would point past new records that nobody has handled (docs/adr/0011).
func (c *Consumer) tpAfter(partition int32, offset kafka.Offset, epoch int32) kafka.TopicPartition {
	tp := c.tp(partition, offset)
	if offset >= 0 && epoch != noEpoch { // a logical offset has no record before it
		tp.LeaderEpoch = &epoch
	}
	return tp
}

// cutBelow notes that the client begins below the group's offset: the log ends there, or was filled anew from there. It
// has compared the epochs, or found the offset out of range. Called with Consumer.mu held.
func (c *Consumer) cutBelow(p *partition, offset int64) {
	c.cfg.Log.Error("the topic has lost records that the group had handled, as in an unclean leader election: reading begins below the committed offset",
		"topic", c.cfg.Topic, "partition", p.id, "from", offset, "committed", int64(p.from))
	p.from = kafka.Offset(offset)
}
