package shop

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
)

var traceparentForm = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// continued is the client's trace, or a new one: an order can be followed from here through every retry (OBS-3).
func continued(traceparent string) string {
	if traceparentForm.MatchString(traceparent) {
		return traceparent
	}
	var id [24]byte
	_, _ = rand.Read(id[:]) // never fails
	return "00-" + hex.EncodeToString(id[:16]) + "-" + hex.EncodeToString(id[16:]) + "-01"
}
