// Package crash kills the process at a named step, so that tests can show what a power cut there does.
//
// It works only in a build with the tag crashpoints. In any other build At is empty, costs nothing, and no variable of the
// environment wakes it: the service that is shipped cannot be told to die.
package crash

// The steps, in the order of an order's way.
const (
	AfterClaim         = "after-claim"
	BeforeSend         = "before-send"
	AfterAnswer        = "after-answer"
	BeforeSettle       = "before-settle"
	AfterSettle        = "after-settle"
	BeforeRetryPublish = "before-retry-publish"
	AfterRetryPublish  = "after-retry-publish"
	BeforeStoreOffset  = "before-store-offset"
	BeforeCommit       = "before-commit" // offsets are stored; the client commits them within a second
	OutboxPublished    = "outbox-published"
	OutboxDeleted      = "outbox-deleted"
	ReplayTaken        = "replay-taken"
	ReplayPublished    = "replay-published"
	ReplayMarked       = "replay-marked"
)
