package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"example.com/billing/internal/billing/pgstore"
)

func TestPrintBalance(t *testing.T) {
	report := balanceReport{Topic: "orders.confirmed", TopicID: uuid.Max, Books: pgstore.Books{
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Flaws: []pgstore.Flaw{},
		Partitions: map[int32]pgstore.Balance{
			0:  {Taken: 1000, Charged: 990, Duplicate: 4, Waiting: 3, Dead: 2, Resolved: 1},
			10: {Taken: 7, Charged: 7},
		},
		Total: pgstore.Balance{Taken: 1007, Charged: 997, Duplicate: 4, Waiting: 3, Dead: 2, Resolved: 1},
	}}
	var out bytes.Buffer
	require.NoError(t, report.print(&out))
	require.Equal(t, `orders.confirmed at 2026-01-02T03:04:05Z
  partition  taken  charged  duplicate  waiting  dead  dropped  resolved  difference
          0   1000      990          4        3     2        0         1           0
         10      7        7          0        0     0        0         0           0
        all   1007      997          4        3     2        0         1           0
even: every record that was taken ended in exactly one way
`, out.String())
	out.Reset()
	output := asJSON
	require.NoError(t, output.show(&out, report, report.print))
	var read map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, []any{"orders.confirmed", []any{}, 990.0}, []any{read["topic"], read["flaws"],
		read["partitions"].(map[string]any)["0"].(map[string]any)["charged"]}) //nolint:forcetypeassert // a panic fails the test
}

func TestPrintFlaws(t *testing.T) {
	ten, order := int32(10), uuid.MustParse("0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01")
	report := balanceReport{Books: pgstore.Books{Flaws: []pgstore.Flaw{
		{Kind: pgstore.NoFate, Partition: &ten, Records: 3, Offsets: []pgstore.Offsets{{From: 4, To: 4}, {From: 7, To: 8}}},
		{Kind: pgstore.NoFate, Partition: &ten, Records: 1, Offsets: []pgstore.Offsets{{From: 4, To: 5}}},
		{Kind: pgstore.NoFate, Partition: &ten, Records: 9, Offsets: []pgstore.Offsets{{From: 4, To: 5}}},
		{Kind: pgstore.NotCounted, Partition: &ten, Records: 2},
		{Kind: pgstore.NoEvent, OrderID: &order},
	}}}
	var out bytes.Buffer
	require.NoError(t, report.printFlaws(&out))
	require.Contains(t, out.String(), `
FLAW         PARTITION  RECORDS  OFFSETS   ORDER
no_fate      10         3        4,7-8     -
no_fate      10         1        1 of 4-5  -
no_fate      10         9        4-5,…     -
not_counted  10         2        -         -
no_event     -          -        -         0b2e9c0e-6f57-4c53-9d0e-5b9b2f6f0a01

no_event: The order is decided`)
	for _, k := range []pgstore.FlawKind{
		pgstore.NoFate, pgstore.Unsettled, pgstore.NotCounted, pgstore.TwoOrders, pgstore.TwoFates, pgstore.NoEvent, pgstore.EventOnly, pgstore.DecidedUnknown,
		pgstore.UnlistedUnknown,
	} {
		require.NotEmpty(t, remedies[k], k)
	}
}
