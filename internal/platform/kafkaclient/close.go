package kafkaclient

import "time"

// closeWait is what closing a client may take. A consumer's gets what draining has left, too.
const closeWait = 1500 * time.Millisecond

// letGo closes a client that owns nothing which could be lost. After a broker has gone that can hang (torture, seed 4112;
// confluentinc/librdkafka#3954 and #4674 are such): the client is then left to itself.
func letGo(closing func()) {
	closed := make(chan struct{})
	go func() { defer close(closed); closing() }()
	select {
	case <-closed:
	case <-time.After(closeWait):
	}
}
