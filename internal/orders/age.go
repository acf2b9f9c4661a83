package orders

import (
	"fmt"
	"time"
)

// InSeconds reports whether a record's time was written in seconds where Kafka counts milliseconds, and which time was
// meant. Such a record looks fifty years old: BILLING_MAX_AGE refuses it, and a topic's retention removes it at once.
func InSeconds(at, now time.Time) (meant time.Time, ok bool) {
	meant = time.Unix(at.UnixMilli(), 0)
	return meant, meant.Year() > 2000 && meant.Before(now.Add(24*time.Hour))
}

// old words how old an order is.
func old(at, now time.Time) string {
	age := now.Sub(at).Round(time.Second)
	if meant, ok := InSeconds(at, now); ok {
		return fmt.Sprintf("%s old by its record's time, %s; read as seconds instead of milliseconds that is %s, so its producer sets the wrong unit",
			age, at.UTC().Format(time.RFC3339), meant.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s old", age)
}
