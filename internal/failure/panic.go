package failure

import (
	"fmt"
	"runtime"
)

// Recovered is what may be told of a panic. The runtime's own words are about indices and types; any other value may hold
// what a customer wrote, so that only its type is told.
func Recovered(v any) error {
	if e, ok := v.(runtime.Error); ok {
		return e
	}
	return fmt.Errorf("panic with a value of type %T", v)
}
