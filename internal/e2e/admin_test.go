package e2e

import (
	"encoding/json"
	"net/http"

	"github.com/stretchr/testify/require"
)

// letter is a dead letter as the admin API shows it.
type letter struct {
	ID          int64   `json:"id"`
	Partition   int32   `json:"partition"`
	Offset      int64   `json:"offset"`
	State       string  `json:"state"`
	Class       string  `json:"class"`
	Reason      string  `json:"reason"`
	OrderID     *string `json:"order_id"`
	Amount      *string `json:"amount"`
	Currency    *string `json:"currency"`
	ReplayCount int     `json:"replay_count"`
	DuplicateOf *int64  `json:"duplicate_of"`
	Record      *struct {
		Headers    []map[string]string `json:"headers"`
		Key, Value *map[string]string
	} `json:"record"`
}

// replayed is the answer to a replay.
type replayed struct {
	Replayed    int    `json:"replayed"`
	Skipped     int    `json:"skipped"`
	TargetTopic string `json:"target_topic"`
}

// get asks as the operator and expects 200.
func (i *instance) get(path string, into any) {
	i.w.t.Helper()
	status, body := i.call(http.MethodGet, path, operatorToken, "")
	require.Equal(i.w.t, http.StatusOK, status, "%s", body)
	require.NoError(i.w.t, json.Unmarshal(body, into))
}

// letters waits until the working list has so many, and returns them, the last one first.
func (i *instance) letters(n int) []letter {
	i.w.t.Helper()
	var page struct{ Data []letter }
	i.w.await(func() bool {
		i.get("/admin/dlq/"+i.w.dlq+"/messages", &page)
		return len(page.Data) == n
	}, "%d letters are listed", n)
	return page.Data
}

// unresolved is the number of letters that wait for a person.
func (i *instance) unresolved() int {
	i.w.t.Helper()
	var page struct {
		Data []struct {
			Topic      string
			Unresolved int
		}
	}
	i.get("/admin/dlq", &page)
	require.Len(i.w.t, page.Data, 1)
	require.Equal(i.w.t, i.w.dlq, page.Data[0].Topic)
	return page.Data[0].Unresolved
}

// replay asks for a replay and expects 200.
func (i *instance) replay(query, body string) (r replayed) {
	i.w.t.Helper()
	status, answer := i.call(http.MethodPost, "/admin/dlq/"+i.w.dlq+"/replay"+query, operatorToken, body)
	require.Equal(i.w.t, http.StatusOK, status, "%s", answer)
	require.NoError(i.w.t, json.Unmarshal(answer, &r))
	return r
}
