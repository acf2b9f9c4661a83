package kafkaclient

import (
	"fmt"
	"slices"
	"strconv"
)

// Wanted is what a topic should be like.
type Wanted struct {
	Name            string
	Partitions      int   // 0: any
	MinRetention    int64 // ms, -1: for ever, 0: any
	NewRetention    int64 // ms, of one that is created, unless MinRetention is longer
	MinMessageBytes int64 // 0: any
}

// Plan compares what is wanted with what is there.
type Plan struct {
	Create []Topic  // topics that are missing
	Differ []string // what is otherwise than wanted, a sentence each; never changed by us
}

// PlanConfigs are the configuration entries that NewPlan looks at; pass them to Admin.Topics.
var PlanConfigs = []string{
	"retention.ms", "retention.bytes", "max.message.bytes", "min.insync.replicas", "cleanup.policy", "unclean.leader.election.enable",
}

// NewPlan plans replication 3 with 2 in-sync replicas where the cluster has the brokers for it.
func NewPlan(wanted []Wanted, existing map[string]Topic, brokers int) Plan {
	replication := min(3, max(1, brokers))
	var p Plan
	for _, w := range wanted {
		if t, ok := existing[w.Name]; ok {
			p.Differ = append(p.Differ, differences(w, t, replication)...)
			continue
		}
		p.Create = append(p.Create, w.topic(replication))
	}
	return p
}

func (w Wanted) topic(replication int) Topic {
	t := Topic{Name: w.Name, Partitions: max(1, w.Partitions), Replication: replication, Config: map[string]string{"cleanup.policy": "delete"}}
	t.Config["min.insync.replicas"] = strconv.Itoa(max(1, replication-1))
	if w.MinRetention == forEver {
		t.Config["retention.ms"] = strconv.Itoa(forEver)
	} else if ms := max(w.MinRetention, w.NewRetention); ms > 0 {
		t.Config["retention.ms"] = strconv.FormatInt(ms, 10)
	}
	if w.MinMessageBytes > 0 {
		t.Config["max.message.bytes"] = strconv.FormatInt(w.MinMessageBytes, 10)
	}
	return t
}

// forEver is a retention without an end, in time or size.
const forEver = -1

func differences(w Wanted, t Topic, replication int) []string {
	var out []string
	differ := func(format string, args ...any) {
		out = append(out, w.Name+": "+fmt.Sprintf(format, args...))
	}
	w.differInLoss(t, differ)
	if w.Partitions > 0 && t.Partitions < w.Partitions {
		differ("%d partitions, want %d", t.Partitions, w.Partitions)
	}
	if t.Replication < replication {
		differ("replication %d, want %d", t.Replication, replication)
	}
	if isr, err := t.ConfigInt("min.insync.replicas"); err == nil && replication > 1 && isr < int64(replication-1) {
		differ("min.insync.replicas %d, want %d", isr, replication-1)
	}
	if size, err := t.ConfigInt("max.message.bytes"); err == nil && size < w.MinMessageBytes {
		differ("max.message.bytes %d, want %d", size, w.MinMessageBytes)
	}
	return out
}

// differInLoss tells what makes the topic lose records that were acknowledged.
func (w Wanted) differInLoss(t Topic, differ func(format string, args ...any)) {
	if ms, err := t.ConfigInt("retention.ms"); err == nil && ms != forEver && (w.MinRetention == forEver || ms < w.MinRetention) {
		differ("retention.ms %d, want %d", ms, w.MinRetention)
	}
	if size, err := t.ConfigInt("retention.bytes"); err == nil && size != forEver && w.MinRetention != 0 {
		differ("retention.bytes %d would drop orders when many come, want %d", size, forEver)
	}
	if policy, ok := t.Config["cleanup.policy"]; ok && policy != "delete" {
		differ("cleanup.policy %s would drop orders, want delete", policy)
	}
	if t.Config["unclean.leader.election.enable"] == "true" {
		differ("unclean.leader.election.enable true would drop acknowledged orders when brokers fail, want false")
	}
}

// Missing lists those of the names that do not exist, sorted.
func Missing(names []string, existing map[string]Topic) []string {
	var missing []string
	for _, n := range names {
		if _, ok := existing[n]; !ok {
			missing = append(missing, n)
		}
	}
	slices.Sort(missing)
	return missing
}
