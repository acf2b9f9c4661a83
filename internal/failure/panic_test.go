package failure

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPanicShowsNoValue(t *testing.T) {
	recovered := func(f func()) (text string) {
		defer func() { text = Recovered(recover()).Error() }()
		f()
		return ""
	}
	var list []int
	require.Contains(t, recovered(func() { list[len(list)] = 1 }), "index out of range")
	for _, v := range []any{"4111111111111111", errors.New("4111111111111111"), []byte("4111111111111111")} {
		require.NotContains(t, recovered(func() { panic(v) }), "4111")
	}
}
