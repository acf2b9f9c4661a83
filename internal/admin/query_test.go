package admin

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the query is: what is accepted is each parameter once, known, with a value that it allows.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{
		"", "dry_run=true", "dry_run=true%", "dry_run", "dry_run=", "dry_run=false&dry_run=true", "target_topic=x;dry_run=true", "dry_run=true&", "&", "=", "%64ry_run=true",
		"limit=10&cursor=aWQ6MQ", "order_id=00000000-0000-0000-0000-000000000000", "from=0001-01-01T00:00:00Z", "state=%", "limit=%2B5", "limit=007", "dry_run=true#x", "a\x00=b",
	} {
		f.Add(query)
	}
	known := []param{stateParam, orderIDParam, fromParam, limitParam, cursorParam, targetParam, dryRunParam}
	f.Fuzz(func(t *testing.T, query string) {
		read := values{}
		if err := read.addQuery(query, known); err != nil {
			require.Equal(t, 400, asProblem(err).Status)
			return
		}
		if query == "" {
			require.Empty(t, read)
			return
		}
		parsed, err := url.ParseQuery(query) // another implementation
		require.NoError(t, err)
		require.Len(t, parsed, len(read))
		require.Equal(t, len(read), strings.Count(query, "&")+1)
		for name, texts := range parsed {
			require.Len(t, texts, 1)
			require.NotEmpty(t, texts[0])
			require.Contains(t, read, name)
		}
		if d, given := read["dry_run"]; given {
			require.Equal(t, parsed.Get("dry_run"), map[any]string{true: "true", false: "false"}[d])
		}
	})
}
